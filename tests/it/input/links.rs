//! Requests that show a resume link, or nothing at all, cannot take what others need.

use futures_util::future::{join_all, select_all};
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::client_builder;
use crate::support::single_node::{KEY, SingleNode, head, waits_for};
use crate::support::{Http, LONG_TIMEOUT, poll_until};

/// More than requests may be worked on at the same time.
const MANY: usize = 1_030;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_bodies_without_a_genuine_link_block_no_client() {
    let node = SingleNode::with_key(&[]).await;
    let stalled = "POST /workflows/resume/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                   Content-Length: 100\r\n\r\n{";
    let heads = join_all((0..MANY).map(async |_| {
        let mut stream = node.connect().await;
        stream.write_all(stalled.as_bytes()).await.unwrap();
        (head(&mut stream).await, stream)
    }));
    // Each is answered although its body never comes, and none of them has a place.
    let answered = heads.await;
    node.http.get("workflow-definitions").await.expect(200);
    for (head, _) in &answered {
        assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    }
}

/// Permits of requests with a link, at least; see `MIN_KEYLESS_PERMITS` of the API.
const LINK_PERMITS: usize = 16;

/// A node with an instance that waits, and the path of a resume link for it.
async fn node_with_link(settings: &[&str]) -> (SingleNode, String) {
    let node = SingleNode::with_key(settings).await;
    node.publish("waits", waits_for("Go")).await;
    let started = node.http.post("workflow-definitions/waits/execute", &json!({})).await;
    let id = started.header("x-elsa-workflow-instance-id").to_owned();
    let link = format!("workflow-instances/{id}/resume-links");
    let link = node.http.post(&link, &json!({})).await.expect(200);
    let path = link["url"].as_str().unwrap().to_owned();
    (node, path)
}

/// The head of a resume request with a body of so many bytes, and the first byte of the body.
fn begun_resume(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_a_link_use_only_the_permits_of_links() {
    // Longer than the test: a body that does not arrive holds its permit.
    let (node, path) = node_with_link(&["--max-requests", "16", "--body-timeout", "10m"]).await;
    // One more than there are permits: one of them is rejected, whichever the server reads last.
    let mut open = Vec::new();
    for _ in 0..=LINK_PERMITS {
        let mut stream = node.connect().await;
        // With the key: without it, a body has to arrive soon.
        let key = format!("\r\nAuthorization: ApiKey {KEY}\r\nContent-Length:");
        let request = begun_resume(&path, 100).replacen("\r\nContent-Length:", &key, 1);
        stream.write_all(request.as_bytes()).await.unwrap();
        open.push(stream);
    }
    let answers = open.iter_mut().map(|stream| Box::pin(head(stream)));
    let (rejected, _, waiting) = select_all(answers).await;
    assert!(rejected.starts_with("HTTP/1.1 503 "), "{rejected}");
    drop(waiting);
    let client = Http::new(&format!("http://{}", node.address));
    let is_full = async || {
        let answer = client.get("/workflows/resume/x").await;
        assert_eq!(
            (answer.status, answer.header("retry-after"), &answer.body["code"]),
            (503, "1", &json!("too-many-requests"))
        );
    };
    is_full().await;
    poll_until(LONG_TIMEOUT, "the list, which needs no permit of links", async || {
        let answer = node.http.get("workflow-definitions").await;
        // A busy machine may have isolated the node for a moment.
        assert_ne!(answer.body["code"], "too-many-requests");
        (answer.status == 200).then_some(())
    })
    .await;
    is_full().await;
    drop(open);

    // The limit of a body is small with a link. What is too large is discarded, so that its sender gets the answer.
    poll_until(LONG_TIMEOUT, "a permit", async || {
        (client.get("/workflows/resume/x").await.status == 404).then_some(())
    })
    .await;
    let oversized = begun_resume(&path, 300 * 1024) + &" ".repeat(300 * 1024 - 1);
    let answer = node.head_of(&oversized).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oversized_body_that_never_arrives_is_answered_at_the_body_timeout() {
    let (node, path) = node_with_link(&["--body-timeout", "1s"]).await;
    let answer = node.head_of(&begun_resume(&path, 300 * 1024)).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_body_holds_a_place_for_links_for_seconds_and_with_a_dead_link_not_at_all() {
    let (node, path) = node_with_link(&["--body-timeout", "10m"]).await;
    let answer = node.head_of(&begun_resume(&path, 100)).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let client = Http::new(&format!("http://{}", node.address));
    client.post(&path, &json!({})).await.expect(200);
    let answer = node.head_of(&begun_resume(&path, 100)).await;
    assert!(answer.starts_with("HTTP/1.1 410 "), "{answer}");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiny_values_are_weighed_before_they_are_built() {
    let node = SingleNode::with_key(&["--body-memory", "64"]).await;
    let heavy = format!("{{\"definitionId\":[{}0]}}", "{\"\":0},".repeat(1_400_000));
    let client = client_builder().build().unwrap();
    let before = node.memory("VmHWM:");
    for path in ["elsa/api/workflow-instances", "elsa/api/events/e/trigger"] {
        let request = client
            .post(format!("http://{}/{path}", node.address))
            .header("authorization", format!("ApiKey {KEY}"))
            .header("content-type", "application/json")
            .body(heavy.clone());
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 413);
        let body: serde_json::Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(body["code"], "too-many-values", "{body}");
    }
    let grown = node.memory("VmHWM:").saturating_sub(before);
    assert!(grown < 200 << 20, "{} MiB", grown >> 20);
    node.http.trigger("e", &json!({"input": {"a": [1, 2, 3]}})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_of_a_link_uses_no_idempotency_key_of_a_client() {
    let node = SingleNode::with_key(&[]).await;
    node.publish("waits", waits_for("Go")).await;
    let start = async || {
        let started = node.http.post("workflow-definitions/waits/execute", &json!({})).await;
        started.header("x-elsa-workflow-instance-id").to_owned()
    };
    let (theirs, other, ours) = (start().await, start().await, start().await);
    let link = async |id: &str| {
        let made = node
            .http
            .post(&format!("workflow-instances/{id}/resume-links"), &json!({}))
            .await;
        made.expect(200)["url"].as_str().unwrap().to_owned()
    };
    let key = [("idempotency-key", "the-clients-key")];
    let client = Http::new(&format!("http://{}", node.address));
    let (theirs, other) = (link(&theirs).await, link(&other).await);
    // The holder of one link uses a key, again, and takes it neither from another holder nor from the client.
    for path in [&theirs, &theirs, &other] {
        let body = json!({"input": {"mine": 1}});
        let answer = client.send(Method::POST, path, &key, Some(&body)).await.unwrap();
        answer.expect(200);
    }
    let path = format!("workflow-instances/{ours}/resume");
    let answer = node
        .http
        .send(Method::POST, &path, &key, Some(&json!({})))
        .await
        .unwrap();
    assert_eq!(answer.expect(200)["workflowState"]["status"], "Finished");
    // The same key with another request of the same link is refused, as ever.
    let body = json!({"input": {"mine": 2}});
    let reused = client.send(Method::POST, &theirs, &key, Some(&body)).await.unwrap();
    reused.assert_refused(422, "idempotency-key-reused");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_links_are_counted_and_do_not_fill_the_log() {
    let node = SingleNode::with_key(&[]).await;
    let client = Http::new(&format!("http://{}", node.address));
    for number in 0..50 {
        let link = format!("{number:048}");
        assert_eq!(client.get(&format!("/workflows/resume/{link}")).await.status, 404);
    }
    let logged = poll_until(LONG_TIMEOUT, "the log to count them", async || {
        let lines = node.child.stderr();
        let logged: Vec<_> = lines
            .into_iter()
            .filter(|line| line.contains("by link or token"))
            .collect();
        (!logged.is_empty()).then_some(logged)
    });
    assert!(logged.await.len() < 10);
}
