//! A node that is killed between the commit that causes an event and the mark of its delivery: another one sends it, under its id.
//! A node that loses an answer of the database on that way sends it itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{register, short};
use crate::support::failpoints::WEBHOOK;
use crate::support::node::{Node, assert_invariants};
use crate::support::receiver::Receiver;
use crate::support::{TestDatabase, wait_until};

/// How many instances are started at each point.
const INSTANCES: usize = 12;

/// Kills a node at each point, while it runs instances and sends their events.
async fn assert_none_is_missing(points: &[&str]) {
    let receiver = Receiver::start().await;
    let database = TestDatabase::create().await;
    let node = Node::start(&database, "alive");
    let alive = node.http.clone().unwrap();
    register(
        &alive,
        "all",
        receiver.url(),
        json!({"eventTypes": ["WorkflowInstance.Started", "WorkflowInstance.Finished"]}),
    )
    .await;
    alive.publish(&short("short")).await;
    let client = database.connect().await;
    let mut expected = 0;
    for (turn, point) in points.iter().enumerate() {
        let mut armed = Node::start_armed(&database, "armed", &format!("{point}=abort@{}", 1 + turn % 2)).await;
        for place in 0..INSTANCES {
            // The sink may be the other node's: it is released now and then, as if it were idle.
            client.run("UPDATE mainspring.webhook_sink SET claimed_by = NULL").await;
            let id = format!("{point}-{place}");
            let start = json!({"instanceId": id});
            expected += 1;
            if let Some(http) = &armed.http {
                let path = "workflow-definitions/short/dispatch";
                let key = [("idempotency-key", id.as_str())];
                let sent = http.send(reqwest::Method::POST, path, &key, Some(&start)).await;
                if sent.is_ok_and(|answer| answer.status == 200) {
                    continue;
                }
                let again = alive.send(reqwest::Method::POST, path, &key, Some(&start)).await;
                again.unwrap().expect(200);
            } else {
                alive.dispatch("short", &start).await;
            }
        }
        wait_until(&format!("the node to die at {point}"), async || {
            client.run("UPDATE mainspring.webhook_sink SET claimed_by = NULL").await;
            if !armed.child.has_ended() {
                expected += 1;
                let extra = json!({"instanceId": format!("{point}-more-{expected}")});
                alive.dispatch("short", &extra).await;
            }
            armed.child.has_ended()
        })
        .await;
    }
    wait_until("all to be delivered", async || {
        client.rows("webhook_delivery WHERE state = 1").await == 2 * expected
    })
    .await;
    let mut sent: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let received = receiver.received();
    for received in &received {
        let id = received.body["payload"]["workflowInstanceId"]
            .as_str()
            .unwrap()
            .to_owned();
        sent.entry((id, received.event().to_owned()))
            .or_default()
            .insert(received.id());
    }
    eprintln!("{} events, {} requests", sent.len(), received.len());
    assert_eq!(sent.len() as i64, 2 * expected);
    assert!(sent.values().all(|ids| ids.len() == 1), "one id for each event");
    let all: BTreeSet<&String> = sent.values().flatten().collect();
    assert_eq!(all.len() as i64, 2 * expected, "no event has the id of another");
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_claim_and_mark_loses_no_delivery() {
    assert_none_is_missing(&WEBHOOK).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_around_the_commit_loses_no_delivery() {
    assert_none_is_missing(&["burst.after", "commit.written", "commit.committed", "commit.answered"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_stops_no_sink() {
    for point in ["webhook.claimed", "webhook.read", "webhook.marked"] {
        let receiver = Receiver::start().await;
        let database = TestDatabase::create().await;
        let node = Node::start_with(&database, "one", &["--check-in", "200ms"], &format!("{point}=cut"));
        let http = node.http.clone().unwrap();
        // The first claim finds something, and its answer is lost: the node has the sink, and does not know it.
        let paused = json!({"eventTypes": ["WorkflowInstance.Finished"], "isPaused": true});
        register(&http, "crm", receiver.url(), paused).await;
        http.publish(&short("short")).await;
        http.execute("short", &json!({})).await;
        let patch = json!({"isPaused": false});
        let changed = http.patch("webhook-sinks/crm", &patch).await;
        changed.expect(200);
        receiver.wait_for(1).await;
        let client = database.connect().await;
        client.wait_for_rows("webhook_delivery WHERE state = 1", 1).await;
        node.child.wait_for_log("webhooks cannot be sent now").await;
        assert_invariants(&database).await;
    }
}
