//! Requests that are held at one node while their workflows wait, or run at another one.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Received, client, endpoint, get, instances, request, responds, script, workflow};
use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::literal;
use crate::support::{Gate, Http, TestDatabase, long, wait_until};

/// What only the node of the parent has, and what only that of the child.
const OF_THE_PARENT: &str = "Elsa.DispatchWorkflow";
const OF_THE_CHILD: &str = "Elsa.SetOutput";

/// How many requests come at once, at most: each is a lookup of a route, over few connections.
const AT_ONCE: i64 = 30;

/// A workflow behind `held/{name}` whose answer comes after an event.
fn held() -> Value {
    workflow(
        "held",
        &[
            endpoint("in", "held/{name}", &["POST"], json!({"waitForResponse": "00:01:00"})),
            json!({"id": "event", "type": "Elsa.Event", "eventName": "go"}),
            responds("out", "'held for ' + variables.route.name", json!({})),
        ],
    )
}

fn keyed(http: &Http, name: &str) -> reqwest::RequestBuilder {
    let path = format!("held/{name}?workflowInstanceId={name}");
    request(http, Method::POST, &path).header("Idempotency-Key", name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_answered_after_a_child_has_run_at_another_node() {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let without = |activity| ["--check-in", "200ms", "--disable-activity", activity];
    let one = Node::start_with(&database, "one", &without(OF_THE_CHILD), "");
    let stalls = gate.stalls("burst.before");
    let two = Node::start_with(&database, "two", &without(OF_THE_PARENT), &stalls);
    let (first, second) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    let said = json!({"id": "say", "type": OF_THE_CHILD, "outputName": literal("Said"), "outputValue": literal("by the child")});
    let child = json!({"definitionId": "child", "outputs": [{"name": "Said", "type": "String"}], "root": {
        "id": "root", "type": "Elsa.Sequence", "activities": [said]}});
    second.publish(&child).await;
    let dispatch = json!({"id": "dispatch", "type": OF_THE_PARENT,
        "workflowDefinitionId": script("'child'"), "waitForCompletion": script("true")});
    let parent = workflow(
        "parent",
        &[
            endpoint("in", "parent", &["POST"], json!({"waitForResponse": "00:01:00"})),
            dispatch,
            responds("out", "getOutputFrom('dispatch').Said", json!({})),
        ],
    );
    first.publish(&parent).await;
    let path = "parent?workflowInstanceId=parent";
    let sent = tokio::spawn(Received::of(request(&first, Method::POST, path)));
    // The parent can run only where its request is held, and waits; the child can run only at the other node.
    first.instance_becomes("parent", "Suspended").await;
    gate.reached().await;
    assert!(!sent.is_finished(), "it is held");
    gate.open();
    assert_eq!(sent.await.unwrap().expect(200), "by the child");
    first.instance_becomes("parent", "Finished").await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_gets_the_answer_of_a_request_whose_holder_was_killed() {
    let database = TestDatabase::create().await;
    let (mut one, two) = (Node::start(&database, "one"), Node::start(&database, "two"));
    let (holder, other) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    other.publish(&held()).await;
    let sent = tokio::spawn(keyed(&holder, "a").send());
    other.instance_becomes("a", "Suspended").await;
    assert!(!sent.is_finished(), "it is held");
    one.child.kill9();
    assert!(sent.await.unwrap().is_err(), "the holder was killed before it answered");
    // The first repeat comes before the end, and the second one after it.
    let early = tokio::spawn(Received::of(keyed(&other, "a")));
    other.post("events/go/trigger", &json!({})).await.expect(200);
    assert_eq!(early.await.unwrap().expect(200), "held for a");
    other.instance_becomes("a", "Finished").await;
    assert_eq!(Received::of(keyed(&other, "a")).await.expect(200), "held for a");
    let differs = Received::of(keyed(&other, "a").body("other")).await;
    differs.assert_refused(422, "idempotency-key-reused");
    assert_eq!(instances(&other, "held").await.len(), 1);
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_requests_hold_no_connection_of_the_database() {
    let count = if long() { 20 * AT_ONCE } else { 2 * AT_ONCE };
    let database = TestDatabase::create().await;
    let few = ["--check-in", "200ms", "--pool-size", "4", "--read-pool-size", "2"];
    let node = Node::start_with(&database, "one", &few, "");
    let http = node.http.clone().unwrap();
    http.publish(&held()).await;
    http.publish(&super::echo("plain", "plain", &["GET"], "'plain'")).await;
    let client = client();
    let connection = database.connect().await;
    let mut sent = Vec::new();
    for number in 0..count {
        let url = format!("http://{}/workflows/held/{number}", http.address());
        sent.push(tokio::spawn(Received::of(client.post(url))));
        if (number + 1) % AT_ONCE == 0 {
            connection.wait_for_rows("bookmark", number + 1).await;
        }
    }
    assert!(!sent.iter().any(|one| one.is_finished()), "all are held");
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
    let used = connection.count(connections).await;
    assert!(used < count / 3, "{used} connections for {count} requests");
    // The node serves others meanwhile.
    assert_eq!(get(&http, "plain").await.expect(200), "plain");
    http.post("events/go/trigger", &json!({})).await.expect(200);
    for (number, one) in sent.into_iter().enumerate() {
        assert_eq!(one.await.unwrap().expect(200), format!("held for {number}"));
    }
    let finished = "instance WHERE definition_id = 'held' AND sub_status = 3";
    wait_until("all to finish", async || connection.rows(finished).await == count).await;
    assert_invariants(&database).await;
}
