//! kill -9 in the middle of a delete, of a replay, and of a publish that changes an activation strategy.

use reqwest::Method;
use serde_json::{Value, json};

use super::nodes::{Node, PATIENCE, is_sound};
use crate::support::{Http, TestDatabase, poll_until};

/// Every point of a delete.
const DELETE: [&str; 5] = [
    "delete.before",
    "delete.locked",
    "delete.fenced",
    "delete.written",
    "delete.committed",
];

fn waits(strategy: &str) -> Value {
    json!({"publish": true, "model": {"definitionId": "waits",
        "options": {"activationStrategyType": format!("Elsa.Workflows.Runtime.ActivationValidators.{strategy}, Elsa.Workflows.Runtime")},
        "root": {"type": "Elsa.Event", "id": "wait", "eventName": "never"}}})
}

async fn start(http: &Http) -> String {
    let answer = http
        .post("workflow-definitions/waits/dispatch", &json!({}))
        .await
        .expect(200);
    answer["workflowInstanceId"].as_str().unwrap().to_owned()
}

/// A request that its node does not survive.
async fn is_its_last(node: &mut Node, method: Method, path: &str, body: Option<&Value>) {
    let http = node.http.clone().unwrap();
    let answer = http.send(method, path, &[], body).await;
    assert!(answer.is_err(), "{path} was answered: {answer:?}");
    node.child.wait(PATIENCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_whose_node_dies_is_done_by_the_next_one() {
    let database = TestDatabase::create().await;
    let survivor = Node::start(&database, "survivor");
    let http = survivor.http.clone().unwrap();
    http.post("workflow-definitions", &waits("AllowAlwaysStrategy"))
        .await
        .expect(200);
    for point in DELETE {
        let id = start(&http).await;
        let path = format!("workflow-instances/{id}");
        poll_until(PATIENCE, "the instance to wait", async || {
            (http.get(&path).await.body["subStatus"] == "Suspended").then_some(())
        })
        .await;
        let mut victim = Node::start_armed(&database, "victim", &format!("{point}=abort")).await;
        is_its_last(&mut victim, Method::DELETE, &path, None).await;
        // Whatever the dead one still held, others come by in the end.
        let status = poll_until(PATIENCE, "the delete to be done", async || {
            let status = http.delete(&path).await.status;
            (status != 503).then_some(status)
        })
        .await;
        let done_before = point == "delete.committed";
        assert_eq!(status, if done_before { 404 } else { 204 }, "{point}");
        http.get(&path).await.expect(404);
        is_sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_strategy_whose_node_dies_is_finished_by_the_cluster() {
    let database = TestDatabase::create().await;
    let survivor = Node::start(&database, "survivor");
    let http = survivor.http.clone().unwrap();
    http.post("workflow-definitions", &waits("AllowAlwaysStrategy"))
        .await
        .expect(200);
    let running = start(&http).await;
    let mut victim = Node::start_armed(&database, "victim", "activation.waited=abort").await;
    let singleton = waits("SingletonStrategy");
    is_its_last(&mut victim, Method::POST, "workflow-definitions", Some(&singleton)).await;
    let dispatch = async || http.post("workflow-definitions/waits/dispatch", &json!({})).await;
    let refused = poll_until(PATIENCE * 2, "starts to be decided again", async || {
        let answer = dispatch().await;
        (answer.status != 503).then_some(answer)
    })
    .await;
    assert_eq!(refused.expect(409)["code"], "cannot-start", "what runs counts");
    http.delete(&format!("workflow-instances/{running}")).await.expect(204);
    dispatch().await.expect(200);
    assert_eq!(dispatch().await.status, 409);
    is_sound(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_whose_node_dies_can_be_done_again() {
    let database = TestDatabase::create().await;
    let survivor = Node::start(&database, "survivor");
    let http = survivor.http.clone().unwrap();
    http.post("workflow-definitions", &waits("AllowAlwaysStrategy"))
        .await
        .expect(200);
    let order = json!({"correlationId": "order"});
    http.post("events/never/trigger", &order).await.expect(200);
    let client = database.connect().await;
    let expire = "UPDATE mainspring.inbox SET expires_at = now();
                  UPDATE mainspring.cluster_job SET next_run_at = now() WHERE name = 'expiry'";
    client.batch_execute(expire).await.unwrap();
    let letter = poll_until(PATIENCE, "the dead letter", async || {
        let listed = http.get("cluster/dead-letters").await.expect(200);
        listed["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let started = http
        .post("workflow-definitions/waits/dispatch", &order)
        .await
        .expect(200);
    let instance = format!("workflow-instances/{}", started["workflowInstanceId"].as_str().unwrap());
    let is = async |sub_status: &str| {
        poll_until(PATIENCE, sub_status, async || {
            (http.get(&instance).await.body["subStatus"] == sub_status).then_some(())
        })
        .await;
    };
    is("Suspended").await;
    let replay = format!("cluster/dead-letters/{letter}/replay");
    let mut victim = Node::start_armed(&database, "victim", "replay.taken=abort").await;
    is_its_last(&mut victim, Method::POST, &replay, Some(&json!({}))).await;
    // The dead one holds the letter until the database has noticed.
    let replayed = poll_until(PATIENCE, "the replay to be done", async || {
        let answer = http.post(&replay, &json!({})).await;
        (answer.status != 503).then_some(answer)
    })
    .await;
    assert_eq!(replayed.expect(200)["replayed"], true);
    is("Finished").await;
    http.post(&replay, &json!({})).await.expect(404);
    is_sound(&database).await;
}
