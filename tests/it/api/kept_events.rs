//! Events that nothing waits for are kept up to a budget of bytes.

use serde_json::{Value, json};

use crate::support::engine::waits_for;
use crate::support::node::{Node, assert_invariants};
use crate::support::{Answer, Http, TestDatabase, wait_until};

async fn trigger(http: &Http, name: &str, bytes: usize) -> Answer {
    let body = json!({"input": "x".repeat(bytes)});
    http.post(&format!("events/{name}/trigger"), &body).await
}

async fn kept_bytes(http: &Http) -> u64 {
    let queue = http.get("cluster/queue").await.expect(200);
    let items = queue["items"].as_array().unwrap().clone();
    let kept: Option<Value> = items.into_iter().find(|item| item["state"] == "kept");
    kept.map_or(0, |item| item["bytes"].as_u64().unwrap())
}

/// As many bytes as an attack of 150 events of 950 kB.
#[tokio::test(flavor = "multi_thread")]
async fn kept_events_cost_at_most_their_budget() {
    let database = TestDatabase::create().await;
    let settings = [
        "--inbox-mib",
        "16",
        "--inbox-mib-per-name",
        "8",
        "--inbox-lifetime",
        "1h",
    ];
    let node = Node::start_with(&database, "one", &settings, "");
    let http = node.http.clone().unwrap();
    let mut refused = 0;
    // 150 of them; more only where the first count comes later than that.
    for _ in 0..600 {
        let answer = trigger(&http, "unawaited", 950_000).await;
        if answer.status != 200 {
            answer.assert_refused(429, "inbox-full");
            assert!(answer.body["message"].as_str().unwrap().contains("'unawaited'"));
            refused += 1;
            if refused >= 20 {
                break;
            }
        }
    }
    assert_eq!(refused, 20);
    let bytes = kept_bytes(&http).await;
    assert!(bytes >= 8 << 20, "{bytes}");
    // Other names have room, up to the budget of all.
    if bytes < 15 << 20 {
        trigger(&http, "other", 1_000).await.expect(200);
    }
    // What an instance waits for is given to it.
    http.publish(&waits_for("waits", "unawaited", true)).await;
    wait_until("what was kept to start", async || kept_bytes(&http).await < 8 << 20).await;
    wait_until("room again", async || {
        trigger(&http, "unawaited", 1_000).await.status == 200
    })
    .await;
    drop(node);
    assert_invariants(&database).await;
}
