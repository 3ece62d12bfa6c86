//! Sinks that cannot be registered: each is refused with what to do, and nothing is written.

use serde_json::json;

use super::SECRET;
use crate::support::single_node::SingleNode;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_cannot_be_used_is_refused() {
    let node = SingleNode::start(&["--http-denied-target", "denied.example"]).await;
    let url = "https://crm.example/hooks";
    for (sink, status, code, part) in [
        (json!({"id": "a"}), 400, "invalid-sink", "url is missing"),
        (json!({"id": "a", "url": "crm"}), 400, "invalid-sink", "no absolute URL"),
        (
            json!({"id": "a", "url": "ftp://crm.example"}),
            400,
            "invalid-sink",
            "https://",
        ),
        (
            json!({"id": "a", "url": "https://u:p@crm.example"}),
            400,
            "invalid-sink",
            "signature",
        ),
        (
            json!({"id": "a", "url": "http://169.254.169.254/"}),
            400,
            "sink-url-denied",
            "http-allowed-target",
        ),
        (
            json!({"id": "a", "url": "https://denied.example/x"}),
            400,
            "sink-url-denied",
            "http-denied-target",
        ),
        (json!({"id": "a/b", "url": url}), 400, "invalid-sink", "letters"),
        (
            json!({"id": "a", "url": url, "secret": "c2hvcnQ="}),
            400,
            "invalid-secret",
            "openssl rand",
        ),
        (
            json!({"id": "a", "url": url, "secret": "!"}),
            400,
            "invalid-secret",
            "base64",
        ),
        (
            json!({"id": "a", "url": url, "eventTypes": ["Elsa.Nothing"]}),
            400,
            "invalid-sink",
            "WorkflowInstance.Finished",
        ),
        (
            json!({"id": "a", "url": url, "retryForSeconds": 99_999_999}),
            400,
            "invalid-sink",
            "retryForSeconds",
        ),
        (
            json!({"id": "a", "url": url, "isPaused": 7}),
            400,
            "invalid-field",
            "isPaused",
        ),
        (
            json!({"id": "a", "url": url, "eventTypes": [null]}),
            400,
            "invalid-field",
            "eventTypes",
        ),
        (
            json!({"id": "a", "url": url, "definitionIds": ["d".repeat(256)]}),
            400,
            "invalid-sink",
            "255",
        ),
    ] {
        let answer = node.http.post("webhook-sinks", &sink).await;
        let text = answer.body.to_string();
        answer.assert_refused(status, code);
        assert!(text.contains(part), "{sink}: {text}");
    }
    let client = node.database.connect().await;
    assert_eq!(client.rows("webhook_sink").await, 0);
    let good = json!({"id": "a", "url": "http://127.0.0.1:9/", "secret": SECRET, "isPaused": true});
    node.http.post("webhook-sinks", &good).await.expect(201);
    node.http
        .post("webhook-sinks", &good)
        .await
        .assert_refused(409, "sink-exists");
    let put = node.http.put("webhook-sinks/a", &json!({"secret": SECRET})).await;
    put.assert_refused(400, "invalid-field");
    let put = node.http.put("webhook-sinks/b", &json!({"url": url})).await;
    put.assert_refused(404, "sink-not-found");
    node.http
        .delete("webhook-sinks/b")
        .await
        .assert_refused(404, "sink-not-found");
    node.http
        .get("webhook-sinks/b/deliveries")
        .await
        .assert_refused(404, "sink-not-found");
    node.http
        .get("webhook-sinks/a/deliveries?cursor=x")
        .await
        .assert_refused(400, "invalid-field");
    node.http
        .post("webhook-sinks/b/deliveries/replay", &json!({}))
        .await
        .assert_refused(404, "sink-not-found");
    let put = json!({"url": "http://127.0.0.1:10/", "eventTypes": ["Elsa.RunTask"]});
    let changed = node.http.put("webhook-sinks/a", &put).await;
    let changed = changed.expect(200);
    assert_eq!(
        (&changed["url"], &changed["state"]),
        (&json!("http://127.0.0.1:10/"), &json!("active"))
    );
    // Null is no list, so it widens nothing.
    let patch = json!({"eventTypes": null, "name": "A"});
    let changed = node.http.patch("webhook-sinks/a", &patch).await;
    let changed = changed.expect(200);
    assert_eq!(
        (&changed["eventTypes"], &changed["name"], &changed["pending"]),
        (&json!(["Elsa.RunTask"]), &json!("A"), &json!(0))
    );
    let list = node.http.get("webhook-sinks").await.expect(200);
    assert_eq!(list["items"][0]["id"], "a");
    assert!(list["items"][0].get("pending").is_none(), "only of a single one");
}
