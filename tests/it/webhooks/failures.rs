//! Receivers that fail, in each way that is known.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{register, short, sink};
use crate::support::node::Node;
use crate::support::receiver::{Receiver, Reply};
use crate::support::single_node::SingleNode;
use crate::support::{Http, TestDatabase, wait_until};

/// A node with a sink for the ends of instances.
async fn with_sink(receiver: &Receiver, settings: &[&str], more: Value) -> SingleNode {
    let node = SingleNode::start(&[&["--check-in", "200ms"], settings].concat()).await;
    let mut fields = json!({"eventTypes": ["WorkflowInstance.Finished"]});
    fields
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    register(&node.http, "crm", receiver.url(), fields).await;
    node.http.publish(&short("short")).await;
    node
}

async fn change(http: &Http, fields: Value) {
    let changed = http.patch("webhook-sinks/crm", &fields).await;
    changed.expect(200);
}

/// Waits for the dead letters of the sink.
async fn dead_letters(node: &SingleNode, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    wait_until("the dead letters", async || {
        let list = node.http.get("webhook-sinks/crm/deliveries").await.expect(200);
        found = list["items"].as_array().unwrap().clone();
        found.len() == count
    })
    .await;
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_answers_500_receives_the_same_again() {
    let mut left = 1;
    let receiver = Receiver::answering(move |_| {
        left -= 1;
        Reply::status(if left >= 0 { 500 } else { 200 })
    })
    .await;
    let node = with_sink(&receiver, &[], json!({})).await;
    node.http.execute("short", &json!({})).await;
    receiver.wait_for(1).await;
    wait_until("the sink to fail", async || {
        sink(&node.http, "crm").await["state"] == json!("failing")
    })
    .await;
    assert!(sink(&node.http, "crm").await["note"].as_str().unwrap().contains("500"));
    let received = receiver.wait_for(2).await;
    assert_eq!(received[0].id(), received[1].id());
    assert_eq!(received[0].raw, received[1].raw);
    wait_until("the sink to be active", async || {
        sink(&node.http, "crm").await["state"] == json!("active")
    })
    .await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_asks_for_a_pause_has_it() {
    let mut left = 1;
    let receiver = Receiver::answering(move |_| {
        left -= 1;
        match left {
            0.. => Reply::Status(429, vec![("retry-after", "7".to_owned())]),
            _ => Reply::ok(),
        }
    })
    .await;
    let node = with_sink(&receiver, &[], json!({})).await;
    node.http.execute("short", &json!({})).await;
    let received = receiver.wait_for(2).await;
    let passed = received[1].at - received[0].at;
    assert!(passed >= Duration::from_millis(6_800), "{passed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed() {
    let location = "http://169.254.169.254/latest/meta-data/".to_owned();
    let receiver = Receiver::answering(move |_| Reply::Status(307, vec![("location", location.clone())])).await;
    let node = with_sink(&receiver, &[], json!({"retryForSeconds": 1})).await;
    node.http.execute("short", &json!({})).await;
    let dead = dead_letters(&node, 1).await;
    assert_eq!((&dead[0]["lastStatus"], &dead[0]["attempts"]), (&json!(307), &json!(1)));
    assert!(
        dead[0]["lastError"]
            .as_str()
            .unwrap()
            .contains("redirect is not followed"),
        "{dead:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_can_be_replayed_under_its_id() {
    let receiver = Receiver::answering(|_| Reply::status(503)).await;
    let node = with_sink(&receiver, &[], json!({"retryForSeconds": 1})).await;
    node.http.dispatch("short", &json!({"instanceId": "s1"})).await;
    let dead = dead_letters(&node, 1).await;
    let id = dead[0]["id"].as_str().unwrap();
    receiver.answer(|_| Reply::ok());
    change(&node.http, json!({"retryForSeconds": 600, "isPaused": false})).await;
    let path = |id: &str| format!("webhook-sinks/crm/deliveries/{id}/replay");
    node.http
        .post(&path("x"), &json!({}))
        .await
        .assert_refused(404, "delivery-not-found");
    let other = "00000000-0000-0000-0000-000000000000";
    node.http
        .post(&path(other), &json!({}))
        .await
        .assert_refused(404, "delivery-not-found");
    node.http.post(&path(id), &json!({})).await.expect(200);
    let received = receiver.wait_for(2).await;
    assert_eq!(received[1].id(), id);
    wait_until("it to be delivered", async || {
        let list = node
            .http
            .get("workflow-instances/s1/webhook-deliveries")
            .await
            .expect(200);
        list["items"][0]["state"] == json!("delivered")
    })
    .await;
    // There is no dead letter any more.
    node.http
        .post(&path(id), &json!({}))
        .await
        .assert_refused(404, "delivery-not-found");
    let replayed = node
        .http
        .post("webhook-sinks/crm/deliveries/replay", &json!({}))
        .await
        .expect(200);
    assert_eq!(replayed, json!({"replayed": 0}));
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_gone_is_sent_nothing_until_it_is_enabled() {
    let receiver = Receiver::answering(|_| Reply::status(410)).await;
    let node = with_sink(&receiver, &[], json!({})).await;
    node.http.execute("short", &json!({})).await;
    let dead = dead_letters(&node, 1).await;
    assert_eq!(dead[0]["lastStatus"], 410);
    wait_until("the sink to be disabled", async || {
        sink(&node.http, "crm").await["state"] == json!("disabled")
    })
    .await;
    assert!(sink(&node.http, "crm").await["note"].as_str().unwrap().contains("410"));
    let client = node.database.connect().await;
    node.http.execute("short", &json!({})).await;
    assert_eq!(client.rows("webhook_delivery").await, 1);
    node.http
        .post("webhook-sinks/crm/deliveries/replay", &json!({}))
        .await
        .assert_refused(409, "sink-disabled");
    receiver.answer(|_| Reply::ok());
    change(&node.http, json!({"isPaused": false})).await;
    let replayed = node
        .http
        .post("webhook-sinks/crm/deliveries/replay", &json!({}))
        .await
        .expect(200);
    assert_eq!(replayed, json!({"replayed": 1}));
    let received = receiver.wait_for(2).await;
    assert_eq!(received[0].id(), received[1].id());
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_hangs_or_is_slow_delays_no_other() {
    let hangs = Receiver::answering(|_| Reply::Hang).await;
    let slow = Receiver::answering(|_| Reply::Slow(Duration::from_millis(300))).await;
    let healthy = Receiver::start().await;
    let node = with_sink(&healthy, &["--webhook-timeout", "2s"], json!({})).await;
    let ends = json!({"eventTypes": ["WorkflowInstance.Finished"]});
    register(&node.http, "hangs", hangs.url(), ends.clone()).await;
    register(&node.http, "slow", slow.url(), ends).await;
    for _ in 0..40 {
        node.http.execute("short", &json!({})).await;
    }
    let began = std::time::Instant::now();
    healthy.wait_for(40).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    // The other one is left alone after its first attempts have timed out.
    wait_until("the hung sink to fail", async || {
        sink(&node.http, "hangs").await["state"] == json!("failing")
    })
    .await;
    assert!(
        sink(&node.http, "hangs").await["note"]
            .as_str()
            .unwrap()
            .contains("within 2s")
    );
    let ids: BTreeSet<String> = slow.wait_for(40).await.iter().map(|received| received.id()).collect();
    assert_eq!(ids.len(), 40);
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_away_is_tried_until_it_is_back() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let healthy = Receiver::start().await;
    let node = with_sink(&healthy, &[], json!({})).await;
    let ends = json!({"eventTypes": ["WorkflowInstance.Finished"]});
    register(&node.http, "away", &format!("http://{address}/hooks"), ends).await;
    node.http.execute("short", &json!({})).await;
    healthy.wait_for(1).await;
    wait_until("the sink to fail", async || {
        sink(&node.http, "away").await["state"] == json!("failing")
    })
    .await;
    // Its URL changes: it is tried at once, under its id.
    let back = Receiver::start().await;
    let fields = json!({"url": back.url()});
    node.http.patch("webhook-sinks/away", &fields).await.expect(200);
    assert_eq!(back.wait_for(1).await[0].id(), healthy.received()[0].id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_a_receiver_refuses_delays_no_other() {
    let receiver = Receiver::answering(|received| {
        let is_start = received.event() == "WorkflowInstance.Started";
        Reply::status(if is_start { 422 } else { 200 })
    })
    .await;
    let events = json!({"eventTypes": ["WorkflowInstance.Started", "WorkflowInstance.Finished"]});
    let node = with_sink(&receiver, &[], events).await;
    for _ in 0..30 {
        node.http.execute("short", &json!({})).await;
    }
    let client = node.database.connect().await;
    client.wait_for_rows("webhook_delivery WHERE state = 1", 30).await;
    let shown = sink(&node.http, "crm").await;
    assert_eq!(
        (&shown["state"], &shown["pending"]),
        (&json!("active"), &json!(30)),
        "{shown}"
    );
    let refused = "webhook_delivery WHERE state = 0 AND attempts > 0 AND last_status = 422";
    client.wait_for_rows(refused, 30).await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_while_a_delivery_is_sent_is_a_failure_of_its_sink() {
    let receiver = Receiver::start().await;
    let database = TestDatabase::create().await;
    let node = Node::start_with(&database, "one", &["--check-in", "200ms"], "webhook.sending=panic");
    let http = node.http.clone().unwrap();
    let ends = json!({"eventTypes": ["WorkflowInstance.Finished"]});
    register(&http, "crm", receiver.url(), ends).await;
    http.publish(&short("short")).await;
    http.execute("short", &json!({})).await;
    wait_until("the sink to fail", async || {
        sink(&http, "crm").await["state"] == json!("failing")
    })
    .await;
    assert!(sink(&http, "crm").await["note"].as_str().unwrap().contains("panicked"));
    // It is released, and another node sends to it.
    drop((node, http));
    let other = Node::start(&database, "two");
    let pause = json!({"isPaused": false});
    change(other.http.as_ref().unwrap(), pause).await;
    let client = database.connect().await;
    client
        .run("UPDATE mainspring.webhook_delivery SET due_at = now()")
        .await;
    receiver.wait_for(1).await;
}
