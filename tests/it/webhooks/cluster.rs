//! Sinks that another node has, and those of settings.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{SECRET, register, short, sink};
use crate::support::node::{Node, assert_invariants};
use crate::support::receiver::{Received, Receiver, Reply};
use crate::support::{TestDatabase, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_one_node_registers_receives_what_another_one_commits() {
    let receiver = Receiver::start().await;
    let database = TestDatabase::create().await;
    let (one, two) = (Node::start(&database, "one"), Node::start(&database, "two"));
    let (first, second) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    first.publish(&short("short")).await;
    register(
        &first,
        "crm",
        receiver.url(),
        json!({"eventTypes": ["WorkflowInstance.Finished"]}),
    )
    .await;
    // At most a check-in later, also if the hint is lost.
    wait_until("the other node to know the sink", async || {
        second.execute("short", &json!({})).await;
        receiver.count() > 0
    })
    .await;
    let before = receiver.count();
    for place in 0..20 {
        let http = if place % 2 == 0 { &first } else { &second };
        http.execute("short", &json!({})).await;
    }
    receiver.wait_for(before + 20).await;
    let client = database.connect().await;
    client.wait_for_rows("webhook_delivery WHERE state = 0", 0).await;
    assert_eq!(client.rows("webhook_sink WHERE claimed_by IS NOT NULL").await, 1);
    // The node that stops in good order releases what it has claimed.
    drop((one, two));
    let three = Node::start(&database, "three");
    three.http.clone().unwrap().execute("short", &json!({})).await;
    receiver.wait_for(before + 21).await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_was_sending_when_it_died_is_sent_by_another_one() {
    const EVENTS: usize = 3;
    let receiver = Receiver::answering(|_| Reply::Hang).await;
    let database = TestDatabase::create().await;
    let mut one = Node::start(&database, "one");
    let first = one.http.clone().unwrap();
    let ends = json!({"eventTypes": ["WorkflowInstance.Finished"]});
    register(&first, "crm", receiver.url(), ends).await;
    first.publish(&short("short")).await;
    for _ in 0..EVENTS {
        first.execute("short", &json!({})).await;
    }
    let begun: BTreeSet<String> = receiver.wait_for(EVENTS).await.iter().map(Received::id).collect();
    assert_eq!(begun.len(), EVENTS);
    let _two = Node::start(&database, "two");
    let client = database.connect().await;
    assert_eq!(client.rows("webhook_sink WHERE claimed_by IS NOT NULL").await, 1);
    receiver.answer(|_| Reply::ok());
    one.child.kill9();
    client
        .wait_for_rows("webhook_delivery WHERE state = 1", EVENTS as i64)
        .await;
    let again = receiver.received().split_off(EVENTS);
    assert_eq!(again.iter().map(Received::id).collect::<BTreeSet<_>>(), begun);
    assert_invariants(&database).await;
}

fn file(name: &str, content: &Value) -> PathBuf {
    let path = std::env::temp_dir().join(format!("mainspring-webhooks-{name}-{}.json", uuid::Uuid::new_v4()));
    std::fs::write(&path, content.to_string()).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sinks_of_a_file_are_those_of_the_last_start() {
    let receiver = Receiver::start().await;
    let database = TestDatabase::create().await;
    let ends = json!(["WorkflowInstance.Finished"]);
    let of = |id: &str| json!({"id": id, "url": receiver.url(), "secret": SECRET, "eventTypes": ends});
    let first = file("first", &json!({"sinks": [of("one"), of("two")]}));
    let node = Node::start_with(&database, "node", &["--webhooks-file", first.to_str().unwrap()], "");
    let http = node.http.clone().unwrap();
    assert_eq!(sink(&http, "one").await["isConfigured"], true);
    http.delete("webhook-sinks/one")
        .await
        .assert_refused(409, "sink-configured");
    let url = json!({"url": "https://other.example"});
    let changed = http.patch("webhook-sinks/one", &url).await;
    changed.assert_refused(409, "sink-configured");
    let rotated = http.post("webhook-sinks/one/rotate-secret", &json!({})).await;
    rotated.assert_refused(409, "sink-configured");
    let pause = json!({"isPaused": true});
    let paused = http.patch("webhook-sinks/one", &pause).await;
    assert_eq!(paused.expect(200)["state"], "paused");
    register(&http, "own", receiver.url(), json!({})).await;
    drop((node, http));
    let second = file("second", &json!({"sinks": [of("one")]}));
    let node = Node::start_with(&database, "node", &["--webhooks-file", second.to_str().unwrap()], "");
    let http = node.http.clone().unwrap();
    let list = http.get("webhook-sinks").await.expect(200);
    let shown: Vec<(&Value, &Value)> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sink| (&sink["id"], &sink["isPaused"]))
        .collect();
    // An operator has paused one, and the settings do not say otherwise; another one has left them.
    let paused = |id: &'static str, is_paused: bool| (json!(id), json!(is_paused));
    let expected = [paused("one", true), paused("own", false), paused("two", true)];
    let shown: Vec<(Value, Value)> = shown
        .into_iter()
        .map(|(id, paused)| (id.clone(), paused.clone()))
        .collect();
    assert_eq!(shown, expected);
    assert!(sink(&http, "two").await["note"].is_string());
    http.delete("webhook-sinks/two").await.expect(204);
    for path in [first, second] {
        std::fs::remove_file(path).unwrap();
    }
}
