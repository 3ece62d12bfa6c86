//! Requests that are repeated under their `Idempotency-Key`.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{Received, endpoint, instances, request, responds, script, serving, waits_at, workflow};
use crate::support::single_node::{SingleNode, head};

fn keyed(node: &SingleNode, path: &str, key: &str) -> RequestBuilder {
    request(&node.http, Method::POST, path).header("Idempotency-Key", key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_gets_the_first_end_whatever_it_was() {
    let starts = |path: &str| endpoint("in", path, &["POST"], json!({}));
    let definitions = [
        workflow(
            "naps",
            &[
                starts("naps"),
                json!({"id": "nap", "type": "Elsa.Delay", "timeSpan": "01:00:00"}),
            ],
        ),
        workflow(
            "fails",
            &[
                starts("fails"),
                json!({"id": "fault", "type": "Elsa.Fault", "message": "no"}),
            ],
        ),
        workflow("ends", &[starts("ends")]),
        workflow(
            "files",
            &[
                starts("files"),
                json!({"id": "out", "type": "Elsa.WriteFileHttpResponse", "content": script("getBody()")}),
            ],
        ),
    ];
    let node = serving(&[], &definitions).await;
    for (path, status) in [("naps", 202), ("fails", 500), ("ends", 200), ("files", 200)] {
        // As large as files of the spool are.
        let body = "x".repeat(300_000);
        let first = Received::of(keyed(&node, path, "k").body(body.clone())).await;
        assert_eq!(first.status, status, "{path} {}", first.text);
        assert!(!first.text.is_empty() || path == "ends", "{path}");
        let again = Received::of(keyed(&node, path, "k").body(body)).await;
        assert!(again.status == status && again.text == first.text, "{path}");
        let id = "x-elsa-workflow-instance-id";
        assert_eq!(again.header(id), first.header(id), "{path}");
        assert_eq!(instances(&node.http, path).await.len(), 1, "{path}");
        let other = Received::of(keyed(&node, path, "k").body("y")).await;
        other.assert_refused(422, "idempotency-key-reused");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_the_cookie_of_another_caller() {
    let cookie = json!({"responseHeaders": {
        "typeName": "Object", "expression": {"type": "Object", "value": "{\"Set-Cookie\": \"session=1\"}"}}});
    let login = workflow(
        "login",
        &[
            endpoint("in", "login", &["POST"], json!({})),
            responds("out", "'welcome'", cookie),
        ],
    );
    let who = workflow(
        "who",
        &[
            endpoint("in", "who", &["POST"], json!({})),
            responds("out", "getHeaders().Cookie ?? 'none'", json!({})),
        ],
    );
    let node = serving(&[], &[login, who]).await;
    let first = Received::of(keyed(&node, "login", "k")).await;
    assert_eq!(first.header("set-cookie"), "session=1");
    assert_eq!(first.expect(200), "welcome");
    let again = Received::of(keyed(&node, "login", "k")).await;
    again.assert_refused(409, "answer-not-kept");
    for caller in ["a", "b", "a"] {
        let seen = Received::of(keyed(&node, "who", "k").header("Cookie", caller)).await;
        assert_eq!(seen.expect(200), caller);
    }
    assert_eq!(Received::of(keyed(&node, "who", "k")).await.expect(200), "none");
    assert_eq!(instances(&node.http, "login").await.len(), 1);
    assert_eq!(instances(&node.http, "who").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_makes_no_body_read_without_a_route() {
    let waits = workflow(
        "waits",
        &[
            waits_at("mid", json!("once"), &["POST"], json!({})),
            responds("out", "'resumed ' + getBody()", json!({})),
        ],
    );
    let node = serving(&["--body-timeout", "60s"], &[waits]).await;
    // The body never comes, and the answer does not wait for it.
    let mut stream = node.connect().await;
    let begun = "POST /workflows/none HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: k\r\nContent-Length: 9\r\n\r\n";
    stream.write_all(begun.as_bytes()).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(20), head(&mut stream)).await;
    let answer = answer.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    // That of a request which may repeat one is read: its route is gone.
    node.http.dispatch("waits", &json!({"instanceId": "w"})).await;
    node.http.instance_becomes("w", "Suspended").await;
    let sent = |body: &'static str| {
        let text = keyed(&node, "once", "k").header("Content-Type", "text/plain");
        Received::of(text.body(body))
    };
    assert_eq!(sent("x").await.expect(200), "resumed x");
    assert_eq!(sent("x").await.expect(200), "resumed x");
    sent("y").await.assert_refused(422, "idempotency-key-reused");
    assert_eq!(super::get(&node.http, "once").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_was_too_large_has_a_fingerprint() {
    let limits = json!({
        "requestSizeLimit": 10, "exposeRequestTooLargeOutcome": true,
        "fileSizeLimit": 4, "exposeFileTooLargeOutcome": true,
    });
    let shown = script("getWorkflowInstanceId()");
    let out = json!({"id": "out", "type": "Elsa.WriteHttpResponse", "content": shown});
    let mut flow = workflow("large", &[]);
    flow["root"]["type"] = json!("Elsa.Flowchart");
    flow["root"]["activities"] = json!([endpoint("in", "large", &["POST"], limits), out]);
    flow["root"]["connections"] = json!([{
        "source": {"activity": "in", "port": "Request too large"}, "target": {"activity": "out", "port": "In"}}]);
    let node = serving(&[], &[flow]).await;
    let chunked = |key: &str, text: &'static str| {
        let bytes = futures_util::stream::iter(text.as_bytes().chunks(3).map(Ok::<_, std::io::Error>));
        keyed(&node, "large", key).body(reqwest::Body::wrap_stream(bytes))
    };
    let first: Value = Received::of(chunked("chunks", "0123456789abc")).await.expect(200);
    assert_eq!(
        Received::of(chunked("chunks", "0123456789abc")).await.expect(200),
        first
    );
    let other = Received::of(chunked("chunks", "x123456789abc")).await;
    other.assert_refused(422, "idempotency-key-reused");
    // One that says how large it is, is not read: the length is known.
    let declared = |text: &'static str| keyed(&node, "large", "declared").body(text);
    let first: Value = Received::of(declared("0123456789abc")).await.expect(200);
    assert_eq!(Received::of(declared("0123456789abc")).await.expect(200), first);
    let other = Received::of(declared("0123456789abcd")).await;
    other.assert_refused(422, "idempotency-key-reused");
}
