//! A try whose node is killed in each of its parts: the journal is that of an undisturbed one.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{NAMES, Node, assert_invariants, send_until_answered};
use crate::support::{Connection, TIMEOUT, TestDatabase, poll_until, wait_until};

/// Before the commit of a burst, in it, and after it.
const POINTS: [&str; 3] = ["burst.after", "commit.written", "commit.committed"];

/// The parts, by the events for which they wait.
const PARTS: [&str; 3] = ["in-try", "in-catch", "in-finally"];

/// Each part waits in a sequence of its own; the first one has further branches that wait when it faults.
fn model() -> Value {
    let line = |id: &str| json!({"id": id, "type": "Elsa.WriteLine", "text": id});
    let event = |id: &str| json!({"id": id, "type": "Elsa.Event", "eventName": id});
    let sequence = |id: &str, activities: Value| json!({"id": id, "type": "Elsa.Sequence", "activities": activities});
    let fault = json!({"id": "fault", "type": "Elsa.Fault", "code": "17", "category": "Stock", "message": "no stock"});
    let pause = json!({"id": "pause", "type": "Elsa.Delay", "timeSpan": "01:00:00"});
    let steps = sequence("steps", json!([event("in-try"), line("tried"), fault]));
    let branches = json!({"id": "branches", "type": "Elsa.Parallel", "activities": [event("never"), pause, steps]});
    let guard = json!({"id": "guard", "type": "Mainspring.Try", "version": 1, "catchCategories": ["Stock"],
        "try": branches,
        "catch": sequence("amends", json!([line("caught"), event("in-catch"), line("amended")])),
        "finally": sequence("last", json!([event("in-finally"), line("cleared")]))});
    json!({"definitionId": "guarded", "name": "Guarded", "root": sequence("root", json!([guard, line("end")]))})
}

/// A node that replaces the one before, under the next of three names.
struct Turn<'a> {
    database: &'a TestDatabase,
    count: usize,
}

impl Turn<'_> {
    async fn next(&mut self, failpoints: &str) -> Node {
        let name = NAMES[self.count % NAMES.len()];
        self.count += 1;
        let settings = ["--check-in", "200ms", "--tolerance", "1s"];
        Node::start_armed_with(self.database, name, &settings, failpoints).await
    }
}

async fn start(node: &Node) -> String {
    let started = node.http.as_ref().unwrap().dispatch("guarded", &json!({})).await;
    started["workflowInstanceId"].as_str().unwrap().to_owned()
}

/// Waits until the instance waits at an activity.
async fn waits_at(client: &Connection, instance: &str, activity: &str) {
    let query = "SELECT 1 FROM mainspring.bookmark WHERE instance_id = $1 AND activity_id = $2";
    wait_until("the instance to wait in its next part", async || {
        !client.query(query, &[&instance, &activity]).await.unwrap().is_empty()
    })
    .await;
}

async fn finishes(client: &Connection, instance: &str) {
    let query = "SELECT 1 FROM mainspring.instance WHERE id = $1 AND status = 1 AND sub_status = 3";
    wait_until("the instance to finish", async || {
        !client.query(query, &[&instance]).await.unwrap().is_empty()
    })
    .await;
}

/// What the journal says, entry by entry, without times and the id of the instance.
async fn journal(client: &Connection, instance: &str) -> Vec<(String, String, String)> {
    let query =
        "SELECT node_id, event_name, replace(COALESCE(activity_state::text, '') || COALESCE(payload::text, ''), $1, '')
                 FROM mainspring.journal WHERE instance_id = $1 ORDER BY sequence";
    let rows = client.query(query, &[&instance]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// The path, the key and the body of an event for an instance.
fn request(event: &str, instance: &str) -> (String, String, Value) {
    let (path, key) = (format!("events/{event}/trigger"), format!("{instance}-{event}"));
    (path, key, json!({"workflowInstanceId": instance}))
}

async fn send(event: &str, instance: &str, node: &Node) {
    let (path, key, body) = request(event, instance);
    let http = node.http.clone();
    send_until_answered(&path, &key, &body, &mut || http.clone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_whose_node_dies_in_each_part_runs_each_part_once() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let mut turn = Turn {
        database: &database,
        count: 0,
    };
    let mut node = turn.next("").await;
    node.http.as_ref().unwrap().publish(&model()).await;
    let undisturbed = start(&node).await;
    for part in PARTS {
        waits_at(&client, &undisturbed, part).await;
        send(part, &undisturbed, &node).await;
    }
    finishes(&client, &undisturbed).await;
    let expected = journal(&client, &undisturbed).await;
    for (round, _) in POINTS.iter().enumerate() {
        let instance = start(&node).await;
        for (number, part) in PARTS.iter().enumerate() {
            waits_at(&client, &instance, part).await;
            node.child.kill9();
            let point = POINTS[(round + number) % POINTS.len()];
            node = turn.next(&format!("{point}=abort")).await;
            // It may die before it answers.
            let (path, key, body) = request(part, &instance);
            let http = node.http.clone().unwrap();
            let sent = http
                .send(Method::POST, &path, &[("idempotency-key", &key)], Some(&body))
                .await;
            let armed = &mut node.child;
            poll_until(TIMEOUT, "an armed node to die in its burst", async || {
                armed.has_ended().then_some(())
            })
            .await;
            // It repeats the burst, or finds its commit.
            node = turn.next("").await;
            if sent.is_err() {
                send(part, &instance, &node).await;
            }
        }
        finishes(&client, &instance).await;
        let entries = journal(&client, &instance).await;
        assert_eq!(entries, expected, "round {round}");
    }
    let incidents = "SELECT count(*) FROM mainspring.instance WHERE incident_count > 0";
    assert_eq!(client.count(incidents).await, 0, "a caught fault is no incident");
    drop(node);
    assert_invariants(&database).await;
}
