//! Events that are published before an instance waits for them: matched later, or dead-lettered.

use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants, wait_until_finished};
use crate::support::single_node::literal;
use crate::support::{Connection, Http, TIMEOUT, TestDatabase, assert_fields, poll_until};

const SETTINGS: [&str; 2] = ["--check-in", "200ms"];

/// Waits for `later` and, at the same time, for `now`, which gives it the correlation id `order`.
fn definition() -> Value {
    let event = |id: &str, name: &str| json!({"type": "Elsa.Event", "id": id, "eventName": literal(name)});
    let leads = |source: &str, port: &str, target: &str| json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}});
    json!({"definitionId": "both", "root": {"type": "Elsa.Flowchart", "id": "chart", "start": "fork", "activities": [
        {"type": "Elsa.FlowFork", "id": "fork", "branches": ["A", "B"]},
        event("later", "later"),
        event("now", "now"),
        {"type": "Elsa.Correlate", "id": "correlate", "correlationId": literal("order")}
    ], "connections": [
        leads("fork", "A", "later"), leads("fork", "B", "now"), leads("now", "Done", "correlate")
    ]}})
}

async fn event(http: &Http, name: &str, body: Value) {
    http.trigger(name, &body).await;
}

async fn start(http: &Http, id: &str) {
    let body = json!({"instanceId": id});
    http.dispatch("both", &body).await;
}

async fn wait(client: &Connection, count: i64) {
    client.wait_for_rows("bookmark", count).await;
}

async fn dead_letters(http: &Http, count: usize) -> Vec<Value> {
    poll_until(TIMEOUT, "the dead letters", async || {
        let listed = http.get("cluster/dead-letters").await.expect(200);
        let items = listed["items"].as_array().unwrap().clone();
        (items.len() == count).then_some(items)
    })
    .await
}

async fn expire(client: &Connection) {
    client
        .run(
            "UPDATE mainspring.inbox SET expires_at = now();
             UPDATE mainspring.cluster_job SET next_run_at = now() WHERE name = 'purge-expired'",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_matches_an_instance_correlated_later_and_expired_events_are_listed_replayed_and_deleted() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let (one, two) = (
        Node::start_with(&database, "one", &SETTINGS, ""),
        Node::start_with(&database, "two", &SETTINGS, ""),
    );
    let (one, two) = (one.http.as_ref().unwrap(), two.http.as_ref().unwrap());
    one.publish(&definition()).await;
    // The event is kept, the instance waits, and gets the correlation id of the event.
    event(two, "later", json!({"correlationId": "order"})).await;
    start(one, "i").await;
    wait(&client, 2).await;
    event(two, "now", json!({"workflowInstanceId": "i"})).await;
    wait_until_finished(&client, 1).await;

    // No instance waits in time.
    event(one, "later", json!({"correlationId": "order", "input": {"n": 7}})).await;
    event(two, "later", json!({"correlationId": "never"})).await;
    event(two, "later", json!({"workflowInstanceId": "i"})).await;
    event(two, "later", json!({"activityInstanceId": "e"})).await;
    expire(&client).await;
    let found = dead_letters(two, 4).await;
    for dead_letter in &found {
        assert_fields!(dead_letter, {"kind": "stimulus", "cause": "expired"});
        assert_eq!(dead_letter["activityTypeName"], "Elsa.Event");
        assert!(
            dead_letter["acceptedAt"].is_string() && dead_letter["lastError"].is_null(),
            "{dead_letter}"
        );
        assert_eq!(dead_letter["stimulusHash"], found[0]["stimulusHash"]);
    }
    let by = |field: &str, value: &str| {
        let dead_letter = found.iter().find(|dead_letter| dead_letter[field] == value).unwrap();
        dead_letter["id"].as_str().unwrap().to_owned()
    };
    let (order, never) = (by("correlationId", "order"), by("correlationId", "never"));
    let (instance, activity) = (by("workflowInstanceId", "i"), by("activityInstanceId", "e"));
    let elsas = one
        .get(&format!("bookmark-queue/dead-letters/{activity}"))
        .await
        .expect(200);
    assert_fields!(elsas, {"activityInstanceId": "e", "workflowInstanceId": null});

    // Replayed, it is kept again until an instance waits.
    let replay = |id: &str| format!("cluster/dead-letters/{id}/replay");
    let replayed = one.post(&replay(&order), &json!({})).await.expect(200);
    assert_fields!(replayed, {"replayed": true, "queueItemId": null});
    assert_eq!(two.post(&replay(&order), &json!({})).await.status, 404);
    start(two, "j").await;
    wait(&client, 2).await;
    event(one, "now", json!({"workflowInstanceId": "j"})).await;
    wait_until_finished(&client, 2).await;
    // Its instance has ended: it is not needed.
    let unneeded = two.post(&replay(&instance), &json!({})).await.expect(409);
    assert_fields!(unneeded, {"replayed": false, "reason": "NotNeeded", "workflowInstanceId": "i"});
    for id in [never, activity] {
        one.delete(&format!("cluster/dead-letters/{id}")).await.expect(204);
    }
    assert!(dead_letters(two, 0).await.is_empty());
    assert_invariants(&database).await;
}
