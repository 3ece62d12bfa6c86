//! Runs of small workflows on a node of their own, and what their journals say.

use serde_json::{Value, json};

use crate::support::single_node::SingleNode;
use crate::support::{Http, TIMEOUT, poll_until};

/// The id of the definition that a test is about.
pub(super) const ID: &str = "it";

/// A node on which a workflow with this root is published.
pub(super) async fn published(root: Value) -> SingleNode {
    let node = SingleNode::start(&[]).await;
    node.publish(ID, root).await;
    node
}

/// The state of an instance of the workflow after its first burst, also of one that has faulted.
pub(super) async fn executed(http: &Http) -> Value {
    let answer = http
        .post(&format!("workflow-definitions/{ID}/execute"), &json!({}))
        .await;
    assert!([200, 500].contains(&answer.status), "{answer:?}");
    answer.body["workflowState"].clone()
}

/// The node, and the state of an instance of a workflow with this root.
pub(super) async fn executed_of(root: Value) -> (SingleNode, Value) {
    let node = published(root).await;
    let state = executed(&node.http).await;
    (node, state)
}

/// The state of an instance after a resume of its only bookmark.
pub(super) async fn resumed(http: &Http, state: &Value) -> Value {
    let path = format!("workflow-instances/{}/resume", id_of(state));
    http.post(&path, &json!({})).await.expect(200)["workflowState"].clone()
}

pub(super) fn id_of(state: &Value) -> &str {
    state["id"].as_str().unwrap()
}

/// The journal of an instance, the oldest entry first.
pub(super) async fn journal(http: &Http, id: &str) -> Vec<Value> {
    let path = format!("workflow-instances/{id}/journal?skip=0&take=1000");
    let journal = http.get(&path).await.expect(200);
    journal["items"].as_array().unwrap().clone()
}

/// The entries with these names, as `id of the activity: name`.
pub(super) async fn entries(http: &Http, id: &str, names: &[&str]) -> Vec<String> {
    let all = journal(http, id).await.into_iter();
    all.filter(|entry| names.iter().any(|name| entry["eventName"] == **name))
        .map(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap().to_owned();
            format!("{}: {}", text("activityId"), text("eventName"))
        })
        .collect()
}

/// The ids of the lines that were written, in their order.
pub(super) async fn lines(http: &Http, id: &str) -> Vec<String> {
    let all = journal(http, id).await.into_iter();
    all.filter(|entry| entry["activityType"] == "Elsa.WriteLine" && entry["eventName"] == "Completed")
        .map(|entry| entry["activityId"].as_str().unwrap().to_owned())
        .collect()
}

/// The only instance of the workflow, once it has this sub-status.
pub(super) async fn only_instance(http: &Http, sub_status: &str) -> Value {
    let path = format!("workflow-instances?definitionId={ID}");
    poll_until(TIMEOUT, sub_status, async || {
        let listed = http.get(&path).await.expect(200);
        assert!(listed["totalCount"].as_u64().unwrap() < 2, "{listed}");
        let instance = listed["items"][0].clone();
        (instance["subStatus"] == sub_status).then_some(instance)
    })
    .await
}
