//! Requests that meet: two at one bookmark, a pause, a client that leaves, a node that is killed before it has answered.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Received, echo, endpoint, instances, request, responds, script, serving, waits_at, workflow};
use crate::support::node::{Node, assert_invariants};
use crate::support::{Gate, TIMEOUT, TestDatabase, long, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_requests_at_one_bookmark_one_runs() {
    let rounds = if long() { 1000 } else { 40 };
    let database = TestDatabase::create().await;
    let (one, two) = (Node::start(&database, "one"), Node::start(&database, "two"));
    let (first, second) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    let path = script("`meet/${getWorkflowInstanceId()}`");
    let meets = workflow(
        "meets",
        &[
            endpoint("in", "meets", &["POST"], json!({})),
            responds("a", "getWorkflowInstanceId()", json!({})),
            waits_at("mid", path, &["POST"], json!({})),
            responds("b", "'mine'", json!({})),
        ],
    );
    first.publish(&meets).await;
    let (mut ran, mut gone, mut met) = (0, 0, 0);
    for round in 0..rounds {
        let at = if round % 2 == 0 { &first } else { &second };
        let id = Received::of(request(at, Method::POST, "meets")).await.expect(200);
        let path = format!("meet/{}", id.as_str().unwrap());
        let both = [&first, &second].map(|http| Received::of(request(http, Method::POST, &path)));
        for answer in futures_util::future::join_all(both).await {
            match answer.status {
                200 => ran += 1,
                404 => gone += 1,
                _ => {
                    answer.assert_refused(409, "already-resumed");
                    met += 1;
                }
            }
        }
    }
    eprintln!("of {rounds} pairs {met} met at the bookmark, and {gone} came after it");
    assert_eq!((ran, gone + met), (rounds, rounds));
    assert!(met > 0, "no pair met");
    assert_eq!(instances(&first, "meets").await.len(), rounds);
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_gets_its_answer_although_others_wait_at_the_path() {
    let waits = workflow(
        "waits",
        &[
            waits_at("mid", json!("meet"), &["POST"], json!({})),
            responds("out", "getWorkflowInstanceId()", json!({})),
        ],
    );
    let node = serving(&[], &[waits]).await;
    let keyed = || request(&node.http, Method::POST, "meet").header("Idempotency-Key", "k");
    for id in ["one", "two", "three"] {
        node.http.dispatch("waits", &json!({"instanceId": id})).await;
        node.http.instance_becomes(id, "Suspended").await;
        // The first is resumed; then one other waits there, then two, which an answer must not resume.
        assert_eq!(Received::of(keyed()).await.expect(200), "one");
    }
    Received::of(keyed().body("another"))
        .await
        .assert_refused(422, "idempotency-key-reused");
    assert_eq!(
        Received::of(request(&node.http, Method::POST, "meet")).await.status,
        409
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_cluster_says_when_to_try_again() {
    let node = serving(&[], &[echo("here", "here", &["GET"], "'here'")]).await;
    assert_eq!(super::get(&node.http, "here").await.expect(200), "here");
    for (change, seconds) in [("pause", "60"), ("force-drain", "5")] {
        node.http
            .post(&format!("admin/workflow-runtime/{change}"), &json!({}))
            .await
            .expect(200);
        let refused = super::get(&node.http, "here").await;
        refused.assert_refused(503, "runtime-paused");
        assert_eq!(refused.header("retry-after"), seconds);
        node.http
            .post("admin/workflow-runtime/resume", &json!({}))
            .await
            .expect(200);
        wait_until("requests to be served", async || {
            super::get(&node.http, "here").await.status == 200
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_cancels_nothing() {
    let gate = Gate::new();
    let database = TestDatabase::create().await;
    let node = Node::start_with(&database, "one", &["--check-in", "200ms"], &gate.stalls("burst.before"));
    let http = node.http.clone().unwrap();
    http.publish(&echo("here", "here", &["POST"], "getBody()")).await;
    let mut stream = tokio::net::TcpStream::connect(http.address()).await.unwrap();
    let sent =
        "POST /workflows/here HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi";
    stream.write_all(sent.as_bytes()).await.unwrap();
    gate.reached().await;
    // The server closes its side once it has seen that the client has.
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut answer)).await;
    closed.expect("the server to close").unwrap();
    assert!(answer.is_empty(), "nothing was answered");
    gate.open();
    wait_until("the instance to finish", async || {
        let all = instances(&http, "here").await;
        all.first().is_some_and(|one| one["subStatus"] == "Finished")
    })
    .await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_with_its_key_gets_the_answer_of_a_killed_node() {
    let database = TestDatabase::create().await;
    let other = Node::start(&database, "two");
    let alive = other.http.clone().unwrap();
    let resumed = workflow(
        "waits",
        &[
            waits_at("mid", json!("wait"), &["POST"], json!({})),
            responds("out", "'resumed ' + getBody()", json!({})),
        ],
    );
    for definition in [
        echo("here", "here", &["POST"], "getWorkflowInstanceId() + getBody()"),
        resumed,
    ] {
        alive.publish(&definition).await;
    }
    let send = async |http: &crate::support::Http, path: &str, key: &str, body: &'static str| {
        let sent = request(http, Method::POST, path)
            .header("Idempotency-Key", key)
            .header("Content-Type", "text/plain")
            .body(body);
        sent.send().await
    };
    for path in ["here", "wait"] {
        if path == "wait" {
            alive.dispatch("waits", &json!({"instanceId": "w"})).await;
            alive.instance_becomes("w", "Suspended").await;
        }
        let mut node = Node::start_with(&database, "one", &["--check-in", "200ms"], "request.ended=abort");
        let http = node.http.clone().unwrap();
        assert!(
            send(&http, path, "k", "x").await.is_err(),
            "the node was killed before it answered"
        );
        wait_until("the node to be gone", async || node.child.has_ended()).await;
        let again = send(&alive, path, "k", "x").await.unwrap();
        assert_eq!(again.status().as_u16(), 200);
        let text = again.text().await.unwrap();
        match path {
            "here" => {
                let ran = instances(&alive, "here").await;
                assert_eq!(ran.len(), 1);
                assert_eq!(text, format!("{}x", ran[0]["id"].as_str().unwrap()));
            }
            _ => assert_eq!(text, "resumed x"),
        }
        let other = send(&alive, path, "k", "y").await.unwrap();
        assert_eq!(other.status().as_u16(), 422, "{path}");
        // Another caller has keys of its own, and nothing of this one's.
        let foreign = request(&alive, Method::POST, path)
            .header("Idempotency-Key", "k")
            .header("Authorization", "Bearer b");
        let foreign = Received::of(foreign.header("Content-Type", "text/plain").body("x")).await;
        match path {
            "here" => assert_ne!(foreign.expect(200), json!(text)),
            _ => assert_eq!(foreign.status, 404),
        }
    }
    assert_invariants(&database).await;
}
