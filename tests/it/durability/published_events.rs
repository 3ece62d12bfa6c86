//! What a workflow publishes reaches everything that an event of a client reaches, once, whichever node is killed.

use mainspring::runtime::{InstanceFilter, Page};
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, start, start_as, waits_for};
use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::literal;
use crate::support::{TIMEOUT, TestDatabase, poll_until, wait_until};

fn script(type_name: &str, value: &str) -> Value {
    json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": value}})
}

fn flag(value: bool) -> Value {
    json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": value}})
}

/// Publishes one event, and then waits for nothing.
fn publishes(definition: &str, fields: Value) -> Value {
    let mut activity = json!({"type": "Elsa.PublishEvent", "id": "publish"});
    let fields = fields.as_object().unwrap().clone();
    activity.as_object_mut().unwrap().extend(fields);
    json!({"definitionId": definition, "root": activity})
}

async fn word_of(test: &TestEngine, instance: &str) -> Value {
    test.finishes(&instance.into()).await["output"]["Word"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_workflow_resumes_starts_and_waits_as_one_of_a_client() {
    let test = TestEngine::new().await;
    test.publish(waits_for("waits", "Paid", false)).await;
    test.publish(waits_for("starts", "Paid", true)).await;
    test.publish(waits_for("later", "Early", false)).await;
    let payload = script("Object", "({by: getWorkflowInstanceId()})");
    test.publish(publishes(
        "pays",
        json!({"eventName": literal("Paid"), "payload": payload}),
    ))
    .await;
    test.publish(publishes(
        "early",
        json!({"eventName": literal("Early"), "payload": payload}),
    ))
    .await;
    for id in ["w1", "w2"] {
        test.engine.execute(start_as(id, "waits")).await.unwrap();
    }
    test.engine.execute(start_as("p1", "pays")).await.unwrap();
    for id in ["w1", "w2"] {
        assert_eq!(word_of(&test, id).await, json!({"by": "p1"}), "{id}");
    }
    let started = InstanceFilter {
        definition_ids: vec!["starts".into()],
        ..InstanceFilter::default()
    };
    let begun = poll_until(TIMEOUT, "the workflow that the event starts", async || {
        let listed = test.engine.instances(&started, Page::default()).await.unwrap();
        (listed.total_count > 0).then_some(listed.items)
    })
    .await;
    assert_eq!(begun.len(), 1);
    assert_eq!(word_of(&test, begun[0].id.as_str()).await, json!({"by": "p1"}));
    // Nothing waits for it yet: the inbox keeps it for the first bookmark that does.
    test.engine.execute(start_as("e1", "early")).await.unwrap();
    let client = test.database.connect().await;
    wait_until("the inbox to keep the event", async || client.rows("inbox").await == 1).await;
    test.engine.execute(start_as("l1", "later")).await.unwrap();
    assert_eq!(word_of(&test, "l1").await, json!({"by": "e1"}));
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correlation_id_and_a_local_event_choose_who_receives_it() {
    let test = TestEngine::new().await;
    test.publish(waits_for("waits", "Go", false)).await;
    let to_one = json!({"eventName": literal("Go"), "correlationId": literal("mine"), "payload": literal("one")});
    test.publish(publishes("correlated", to_one)).await;
    // It waits in one branch, and publishes to itself in the other.
    let own = json!({"definitionId": "own", "variables": [{"id": "v", "name": "Got", "typeName": "Object"}],
    "outputs": [{"name": "Got", "type": "Object"}],
    "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.PublishEvent", "id": "publish", "eventName": literal("Go"), "isLocalEvent": flag(true),
         "payload": literal("own")},
        {"type": "Elsa.Event", "id": "event", "eventName": literal("Go"),
         "result": {"typeName": "Object", "memoryReference": {"id": "v"}}},
        {"type": "Elsa.SetOutput", "id": "out", "outputName": literal("Got"), "outputValue": script("Object", "getGot()")}
    ]}});
    test.publish(own).await;
    for (id, correlation) in [("mine", Some("mine")), ("other", Some("other")), ("none", None)] {
        let start = mainspring::runtime::StartRequest {
            correlation_id: correlation.map(str::to_owned),
            ..start_as(id, "waits")
        };
        test.engine.execute(start).await.unwrap();
    }
    test.engine.dispatch(start_as("self", "own")).await.unwrap();
    assert_eq!(test.finishes(&"self".into()).await["output"]["Got"], "own");
    test.engine.execute(start("correlated")).await.unwrap();
    assert_eq!(word_of(&test, "mine").await, "one");
    let client = test.database.connect().await;
    wait_until("the fan-outs to finish", async || {
        client.rows("fan_out WHERE finished_at IS NULL").await == 0
    })
    .await;
    assert_eq!(client.rows("work").await, 0);
    for id in ["other", "none"] {
        let detail = test.engine.instance(&id.into()).await.unwrap();
        assert_eq!(detail.summary.sub_status, "Suspended", "{id}");
    }
    // A local event of an instance that has ended reaches nothing, and nothing of it stays.
    test.publish(publishes(
        "ends",
        json!({"eventName": literal("Go"), "isLocalEvent": flag(true)}),
    ))
    .await;
    let before = client.rows("fan_out").await;
    test.engine.execute(start("ends")).await.unwrap();
    assert_eq!(client.rows("fan_out").await, before);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_workflows_and_of_clients_keep_their_order() {
    let test = TestEngine::new().await;
    let three = |n: usize| json!({"type": "Elsa.PublishEvent", "id": format!("p{n}"), "eventName": literal("Step"), "payload": literal(&n.to_string())});
    let activities: Vec<Value> = (0..40).map(three).collect();
    test.publish(
        json!({"definitionId": "steps", "root": {"type": "Elsa.Sequence", "id": "root", "activities": activities}}),
    )
    .await;
    let collects = json!({"definitionId": "collects", "variables": [{"id": "w", "name": "Word", "typeName": "Object"},
        {"id": "all", "name": "All", "typeName": "Object", "value": []}],
    "outputs": [{"name": "All", "type": "Object"}],
    "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.For", "id": "for", "start": {"typeName": "Int32", "expression": {"type": "Literal", "value": 1}},
         "end": {"typeName": "Int32", "expression": {"type": "Literal", "value": 41}},
         "body": {"type": "Elsa.Sequence", "id": "body", "activities": [
            {"type": "Elsa.Event", "id": "event", "eventName": literal("Step"),
             "result": {"typeName": "Object", "memoryReference": {"id": "w"}}},
            {"type": "Elsa.SetVariable", "id": "set", "variable": {"id": "all", "name": "All"},
             "value": script("Object", "getAll().concat([getWord()])")}]}},
        {"type": "Elsa.SetOutput", "id": "out", "outputName": literal("All"), "outputValue": script("Object", "getAll()")}
    ]}});
    test.publish(collects).await;
    test.engine.execute(start_as("c", "collects")).await.unwrap();
    test.engine.execute(start("steps")).await.unwrap();
    // Accepted after the commit of the others: behind them.
    test.trigger("Step", json!("40")).await;
    let all = test.finishes(&"c".into()).await["output"]["All"].clone();
    let wanted: Vec<String> = (0..=40).map(|n| n.to_string()).collect();
    assert_eq!(all, json!(wanted));
    test.assert_clean_end().await;
}

/// Where a node is killed: before and after the commit that publishes, and in each step of the fan-out.
const POINTS: [&str; 7] = [
    "burst.after",
    "commit.written",
    "commit.committed",
    "commit.answered",
    "fan_out.keys",
    "fan_out.written",
    "fan_out.committed",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_workflow_is_published_once_whichever_node_is_killed() {
    for point in POINTS {
        let database = TestDatabase::create().await;
        let settings = ["--check-in", "200ms", "--tolerance", "1s"];
        let two = Node::start_with(&database, "two", &[&settings[..], &["--workers", "0"]].concat(), "");
        let http = two.http.clone().unwrap();
        http.publish(&waits_for("waits", "Go", false)).await;
        http.publish(&publishes(
            "pays",
            json!({"eventName": literal("Go"), "payload": literal("once")}),
        ))
        .await;
        // Waits for two events: the second one may never come.
        let twice = json!({"definitionId": "twice", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.Event", "id": "a", "eventName": literal("Go")},
            {"type": "Elsa.Event", "id": "b", "eventName": literal("Go")}]}});
        http.publish(&twice).await;
        let client = database.connect().await;
        {
            let three = Node::start_with(&database, "three", &settings, "");
            let ids = ["waits", "waits", "twice"];
            for id in ids {
                let started = http.dispatch(id, &json!({})).await;
                http.instance_becomes(started["workflowInstanceId"].as_str().unwrap(), "Suspended")
                    .await;
            }
            drop(three);
        }
        wait_until("the node to be removed", async || client.rows("node").await == 1).await;
        let mut one = Node::start_armed_with(&database, "one", &settings, &format!("{point}=abort")).await;
        http.dispatch("pays", &json!({})).await;
        // A node without workers works on fan-outs, too, and this one must come from the node that ends at the point.
        two.child.signal("STOP");
        poll_until(TIMEOUT, point, async || one.child.has_ended().then_some(())).await;
        two.child.signal("CONT");
        let _four = Node::start_with(&database, "four", &settings, "");
        let finished = "instance i JOIN mainspring.definition d ON d.version_id = i.version_id WHERE i.sub_status = 3";
        wait_until("the waiting instances to finish", async || {
            client.rows(finished).await == 3
        })
        .await;
        wait_until("the event to be given to all", async || {
            client.rows("fan_out WHERE finished_at IS NULL").await + client.rows("work").await == 0
        })
        .await;
        let entries = "journal WHERE activity_id IN ('a', 'event') AND event_name = 'Completed'";
        assert_eq!(client.rows(entries).await, 3, "{point}");
        assert_eq!(
            client
                .rows("journal WHERE activity_id = 'b' AND event_name = 'Completed'")
                .await,
            0,
            "{point}"
        );
        assert_eq!(client.rows("inbox").await, 0, "{point}: nothing is left over");
        assert_invariants(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_committed_with_its_burst() {
    let test = TestEngine::new().await;
    test.publish(publishes(
        "pays",
        json!({"eventName": literal("Go"), "payload": literal("x")}),
    ))
    .await;
    let client = test.database.connect().await;
    for n in 1..=20 {
        test.engine.execute(start("pays")).await.unwrap();
        assert_eq!(client.rows("fan_out").await, n);
    }
    test.assert_clean_end().await;
}
