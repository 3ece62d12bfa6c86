//! A node that is killed at each failpoint of a burst that sends a request: the burst is repeated by another node, or by the client
//! where it had files, and the target receives the request at least once, and always under the same key.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};

use super::{endpoint, request, responds, script, waits_at, workflow};
use crate::support::failpoints::{CALL, REQUEST};
use crate::support::node::{Node, assert_invariants};
use crate::support::receiver::{Received, Receiver};
use crate::support::{Http, TestDatabase, wait_until};

/// How often the armed node is asked: the other one may claim what it has accepted.
const ATTEMPTS: usize = 20;

/// A request to a path that names the instance.
fn send(target: &Receiver) -> Value {
    let url = format!("`{}/${{getWorkflowInstanceId()}}`", target.base());
    json!({"id": "send", "type": "Elsa.SendHttpRequest", "method": "POST", "url": script(&url)})
}

/// Waits for a request, sends one, answers, and waits for an event: its commit has all steps.
fn sends(target: &Receiver) -> Value {
    workflow(
        "sends",
        &[
            waits_at("mid", script("`go/${getWorkflowInstanceId()}`"), &["POST"], json!({})),
            send(target),
            responds("out", "'sent'", json!({})),
            json!({"id": "event", "type": "Elsa.Event", "eventName": "never"}),
        ],
    )
}

/// Resumes an instance through a node; an error where that was killed before its answer.
async fn resume(http: &Http, id: &str) -> Result<(u16, String), reqwest::Error> {
    let sent = request(http, Method::POST, &format!("go/{id}")).header("Idempotency-Key", id);
    let response = sent.send().await?;
    let status = response.status().as_u16();
    Ok((status, response.text().await?))
}

/// Resumes instances through the armed node until it is killed; returns the instance of which it was.
async fn killed(alive: &Http, armed: &mut Node, point: &str) -> String {
    let http = armed
        .http
        .clone()
        .expect("nothing passes the failpoint before a request");
    for _ in 0..ATTEMPTS {
        let started = alive.dispatch("sends", &json!({})).await;
        let id = started["workflowInstanceId"].as_str().unwrap().to_owned();
        alive.instance_becomes(&id, "Suspended").await;
        match resume(&http, &id).await {
            Ok(answer) => assert_eq!(answer, (200, "sent".to_owned()), "{id}"),
            Err(_) => {
                wait_until("the node to be gone", async || armed.child.has_ended()).await;
                return id;
            }
        }
    }
    panic!("no node ends at {point}");
}

async fn assert_sent_at_each(points: &[&str]) {
    let target = Receiver::start().await;
    let database = TestDatabase::create().await;
    let node = Node::start(&database, "alive");
    let alive = node.http.clone().unwrap();
    alive.publish(&sends(&target)).await;
    let mut ends = BTreeMap::new();
    for point in points {
        let mut armed = Node::start_armed(&database, "armed", &format!("{point}=abort")).await;
        let id = killed(&alive, &mut armed, point).await;
        let again = resume(&alive, &id).await.unwrap();
        assert_eq!(again, (200, "sent".to_owned()), "{id}");
        ends.insert(id, *point);
    }
    let mut sent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for request in target.received() {
        let keys = request.headers("idempotency-key");
        assert!(keys.len() == 1 && keys[0].len() > 20, "{request:?}");
        let id = request.path.trim_start_matches('/').to_owned();
        sent.entry(id).or_default().extend(keys);
    }
    for (id, point) in &ends {
        let keys = sent.get(id).unwrap_or_else(|| panic!("no request of {id}"));
        eprintln!("{point}: {} requests", keys.len());
        assert!(keys.iter().all(|key| *key == keys[0]), "{id}: {keys:?}");
        // Between the request and its commit: the repeated burst sends it again.
        let is_repeated = CALL[7..13].contains(point);
        assert!(!is_repeated || keys.len() > 1, "{id} is not repeated");
    }
    let own: BTreeSet<&String> = sent.values().flatten().collect();
    assert_eq!(own.len(), sent.len(), "each instance has a key of its own");
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_before_a_commit_loses_no_request_and_changes_no_key() {
    assert_sent_at_each(&CALL[..8]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_within_a_commit_loses_no_request_and_changes_no_key() {
    assert_sent_at_each(&CALL[8..]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_before_the_answer_loses_no_request_and_changes_no_key() {
    assert_sent_at_each(&REQUEST).await;
}

/// With the node its files are lost, and with them its row: only the client can repeat it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repeat_of_a_request_with_files_has_its_instance_and_its_keys() {
    let target = Receiver::start().await;
    let database = TestDatabase::create().await;
    let node = Node::start(&database, "alive");
    let alive = node.http.clone().unwrap();
    let starts = [
        endpoint("in", "up", &["POST"], json!({})),
        send(&target),
        responds("out", "'sent'", json!({})),
    ];
    alive.publish(&workflow("starts", &starts)).await;
    alive.publish(&sends(&target)).await;
    alive.dispatch("sends", &json!({"instanceId": "waits"})).await;
    alive.instance_becomes("waits", "Suspended").await;
    let upload = async |http: &Http, path: &str, key: &str| {
        let sent = request(http, Method::POST, path).header("Idempotency-Key", key);
        sent.body(vec![b'x'; 300_000]).send().await
    };
    let again = async |path: &str, key: &str| {
        let answer = upload(&alive, path, key).await.unwrap();
        let id = answer.headers().get("x-elsa-workflow-instance-id").cloned();
        (answer.status().as_u16(), answer.text().await.unwrap(), id)
    };
    for path in ["up", "go/waits"] {
        let mut armed = Node::start_armed(&database, "armed", "commit.begun=abort").await;
        let http = armed.http.clone().unwrap();
        assert!(upload(&http, path, "k").await.is_err());
        wait_until("the node to be gone", async || armed.child.has_ended()).await;
        let first = again(path, "k").await;
        assert_eq!((first.0, first.1.as_str()), (200, "sent"), "{path}");
        assert_eq!(again(path, "k").await, first, "{path}");
    }
    let keys = |sent: &Received| sent.headers("idempotency-key");
    let sent = target.received();
    assert_eq!(sent.len(), 4, "{sent:?}");
    for lost in [0, 2] {
        let (first, second) = (&sent[lost], &sent[lost + 1]);
        assert_eq!((&first.path, keys(first)), (&second.path, keys(second)));
    }
    // Another key is another request.
    assert_eq!(again("up", "other").await.0, 200);
    let other = target.received().pop().unwrap();
    assert!(
        sent.iter()
            .all(|sent| sent.path != other.path && keys(sent) != keys(&other))
    );
    // A key that has expired starts another instance, beside the one that it had started.
    let client = database.connect().await;
    let expire = "UPDATE mainspring.idempotency_key SET expires_at = now() - interval '1 second'";
    client.execute(expire, &[]).await.unwrap();
    assert_eq!(again("up", "k").await.0, 200);
    let after = target.received().pop().unwrap();
    assert!(
        sent.iter()
            .all(|sent| sent.path != after.path && keys(sent) != keys(&after))
    );
    assert_invariants(&database).await;
}
