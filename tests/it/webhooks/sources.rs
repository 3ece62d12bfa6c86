//! Events that webhook sources send.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{SECRET, signature};
use crate::support::single_node::SingleNode;
use crate::support::{Answer, Child, Http, TestDatabase, wait_until};

const OTHER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

const THIRD: &str = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

struct Sources(PathBuf);

impl Sources {
    fn write() -> Self {
        let content = json!({"sources": [
            {"name": "Shop", "secret": SECRET, "furtherSecrets": [OTHER],
             "eventTypes": ["order.paid", {"eventType": "order.sent", "payloadType": "ObjectDictionary", "displayName": "Order sent"}]},
            {"name": "Other shop", "secret": THIRD,
             "eventTypes": ["order.paid", {"eventType": "order.lost", "activityType": "Orders.Lost"}]},
        ]});
        let path = std::env::temp_dir().join(format!("mainspring-sources-{}.json", uuid::Uuid::new_v4()));
        std::fs::write(&path, content.to_string()).unwrap();
        Self(path)
    }

    async fn serve(&self) -> SingleNode {
        let file = self.0.to_str().unwrap().to_owned();
        SingleNode::with_key(&["--check-in", "200ms", "--webhooks-file", &file]).await
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// Sends an event without the key of the server.
async fn send(node: &SingleNode, secret: &str, id: &str, timestamp: i64, event: &Value) -> Answer {
    let timestamp = timestamp.to_string();
    let signed = signature(secret, id, &timestamp, event.to_string().as_bytes());
    let headers = [
        ("webhook-id", id),
        ("webhook-timestamp", timestamp.as_str()),
        ("webhook-signature", signed.as_str()),
    ];
    let http = Http::new(&format!("http://{}", node.address));
    http.send(reqwest::Method::POST, "webhooks", &headers, Some(event))
        .await
        .unwrap()
}

fn paid(order: u32) -> Value {
    json!({"eventType": "order.paid", "payload": {"order": order}, "timestamp": "2026-01-01T00:00:00Z"})
}

fn output(name: &str) -> Value {
    json!({"typeName": "Object", "memoryReference": {"id": name}})
}

/// A workflow that an event starts, and that waits for another one.
fn workflow() -> Value {
    let variables = ["paid", "sent", "event"].map(|name| json!({"id": name, "name": name, "typeName": "Object"}));
    json!({"definitionId": "orders", "root": {"id": "root", "type": "Elsa.Sequence", "variables": variables, "activities": [
        {"id": "paid", "type": "Webhooks.Shop.OrderPaid", "payload": output("paid"), "result": output("event"),
         "customProperties": {"canStartWorkflow": true}},
        {"id": "sent", "type": "Webhooks.Shop.OrderSent", "payload": output("sent")},
        {"id": "line", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": "JavaScript",
            "value": "`order ${variables.paid.order} sent by ${variables.sent.by}, ${variables.event.eventType}`"}}},
    ]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_starts_and_resumes_workflows_once_for_its_id() {
    let sources = Sources::write();
    let node = sources.serve().await;
    node.http.publish(&workflow()).await;
    let shown = node.http.get("descriptors/activities").await.expect(200);
    let items = shown["items"].as_array().unwrap();
    let of_type = |name: &str| items.iter().find(|item| item["typeName"] == name).cloned();
    let sent = of_type("Webhooks.Shop.OrderSent").expect("the activity of an event");
    assert_eq!(
        (&sent["category"], &sent["displayName"], &sent["kind"]),
        (&json!("Shop"), &json!("Order sent"), &json!("Trigger"))
    );
    let payload = sent["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|output| output["name"] == "Payload")
        .unwrap();
    let query = of_type("Elsa.HttpEndpoint").unwrap();
    let query = query["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|output| output["name"] == "QueryStringData");
    assert_eq!(
        payload["typeName"],
        query.unwrap()["typeName"],
        "a dictionary of objects"
    );
    assert!(of_type("Webhooks.OtherShop.OrderPaid").is_some() && of_type("Orders.Lost").is_some());
    for _ in 0..3 {
        send(&node, SECRET, "msg-1", now(), &paid(7)).await.expect(200);
    }
    let client = node.database.connect().await;
    client
        .wait_for_rows("bookmark WHERE name = 'Webhooks.Shop.OrderSent'", 1)
        .await;
    // The same id with another content is a mistake of its sender.
    send(&node, SECRET, "msg-1", now(), &paid(8))
        .await
        .assert_refused(422, "idempotency-key-reused");
    // As in Elsa, the case of a name does not matter.
    let sent = json!({"EventType": "order.sent", "Payload": {"by": "ship"}});
    // A further secret, while one replaces the other.
    send(&node, OTHER, "msg-2", now(), &sent).await.expect(200);
    client
        .wait_for_rows("instance WHERE status = 1 AND sub_status = 3", 1)
        .await;
    wait_until("the line", async || {
        node.child
            .stdout()
            .iter()
            .any(|line| line.contains("order 7 sent by ship, order.paid"))
    })
    .await;
    assert_eq!(client.rows("instance").await, 1);
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_no_secret_signs_starts_nothing() {
    let sources = Sources::write();
    let node = sources.serve().await;
    node.http.publish(&workflow()).await;
    send(&node, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", "m1", now(), &paid(1))
        .await
        .assert_refused(401, "wrong-signature");
    send(&node, SECRET, "m1", now() - 301, &paid(1))
        .await
        .assert_refused(401, "stale-webhook");
    send(&node, SECRET, "m1", now() + 400, &paid(1))
        .await
        .assert_refused(401, "stale-webhook");
    let unsigned = Http::new(&format!("http://{}", node.address));
    unsigned
        .post("webhooks", &paid(1))
        .await
        .assert_refused(401, "wrong-signature");
    send(&node, SECRET, "", now(), &paid(1))
        .await
        .assert_refused(400, "invalid-webhook");
    let headers = [
        ("webhook-id", "m1"),
        ("webhook-timestamp", "x"),
        ("webhook-signature", "v1,x"),
    ];
    let bad = unsigned
        .send(reqwest::Method::POST, "webhooks", &headers, Some(&paid(1)))
        .await;
    bad.unwrap().assert_refused(401, "stale-webhook");
    // As in Elsa; nothing is looked at but the type.
    unsigned
        .post("webhooks", &json!({"eventType": "unknown"}))
        .await
        .expect(200);
    unsigned
        .post("webhooks", &json!({}))
        .await
        .assert_refused(400, "invalid-field");
    let large = json!({"eventType": "order.paid", "payload": "x".repeat(10 << 20)});
    unsigned
        .post("webhooks", &large)
        .await
        .assert_refused(413, "body-too-large");
    let client = node.database.connect().await;
    assert_eq!((client.rows("instance").await, client.rows("work").await), (0, 0));
    // Everything else still needs the key.
    unsigned.get("webhook-sinks").await.assert_refused(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_that_cannot_be_told_apart_are_refused_at_the_start() {
    let database = TestDatabase::create().await;
    for (sources, part) in [
        (
            json!([{"name": "Shop", "eventTypes": ["order.paid"]}]),
            "the source \"Shop\" has no secret",
        ),
        (
            json!([
                {"name": "Shop", "secret": SECRET, "furtherSecrets": [OTHER], "eventTypes": ["a"]},
                {"name": "Other", "secret": OTHER, "eventTypes": ["b"]},
            ]),
            "have a secret in common",
        ),
    ] {
        let path = std::env::temp_dir().join(format!("mainspring-open-{}.json", uuid::Uuid::new_v4()));
        std::fs::write(&path, json!({ "sources": sources }).to_string()).unwrap();
        let url = database.url();
        let file = path.to_str().unwrap();
        let mut child = Child::start(
            &["serve", "--database-url", &url, "--listen", "127.0.0.1:0"],
            &[("MAINSPRING_WEBHOOKS_FILE", file)],
        );
        let status = child.wait(crate::support::TIMEOUT);
        assert!(!status.success() && child.logs(part), "{part}: {:?}", child.stderr());
        std::fs::remove_file(&path).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_sources_events_are_not_read() {
    let node = SingleNode::start(&[]).await;
    node.http.post("webhooks", &json!(["no event"])).await.expect(200);
}
