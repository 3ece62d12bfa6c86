//! Every public route, fed with what no client should send, with and without credentials. The same seed gives the same
//! requests: `--long` sends more of them, over the same generator.

use crate::support::routes::{Route, routes};
use crate::support::single_node::{KEY, SingleNode, literal, waits_for};
use crate::support::{LONG_TIMEOUT, long};

mod requests;
mod wire;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::{Value, json};

use requests::{Known, Random, request};
use wire::{Answer, Line};

const SEED: u64 = 0x6d61_696e_7370_7269;
/// Clients at the same time.
const CLIENTS: usize = 8;
/// What the node may grow by between the first third and the end, beside a quarter: caches fill.
const GROWTH: u64 = 96 << 20;

/// What all clients saw.
#[derive(Default)]
struct Seen {
    statuses: BTreeMap<u16, usize>,
    hung_up: usize,
    wrong: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_breaks_a_node() {
    let all = if long() { 120_000 } else { 4_000 };
    let settings = [
        "--body-timeout",
        "500ms",
        "--answer-timeout",
        "1s",
        "--log",
        "warn",
        "--body-memory",
        "64",
    ];
    let mut node = SingleNode::with_key(&settings).await;
    let token = prepare(&node).await;
    let routes = routes();
    let (known, seen) = (Known::new(token), Mutex::new(Seen::default()));
    let (sent, memory) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let client = async |number: usize| {
        let mut random = Random::new(SEED + number as u64);
        let mut line = Line::new(&node.address);
        loop {
            let at = sent.fetch_add(1, Ordering::Relaxed);
            if at >= all {
                return;
            }
            if at > 0 && at % (all / 6) == 0 {
                memory.lock().unwrap().push(node.memory("VmRSS:"));
            }
            let route = &routes[random.below(routes.len())];
            let request = request(&mut random, route, &known);
            let answer = line.exchange(&request).await;
            note(&seen, route, &request.bytes, answer, &known);
        }
    };
    join_all((0..CLIENTS).map(client)).await;

    let Seen {
        statuses,
        hung_up,
        wrong,
    } = seen.into_inner().unwrap();
    let mut memory = memory.into_inner().unwrap();
    memory.push(node.memory("VmRSS:"));
    let mebibytes: Vec<u64> = memory.iter().map(|bytes| bytes >> 20).collect();
    println!(
        "{all} requests over {} routes: {statuses:?}, {hung_up} without an answer; MiB after each sixth: {mebibytes:?}",
        routes.len()
    );
    // After a third, and at the end.
    let (first, last) = (memory[1], memory[memory.len() - 1]);
    assert!(
        wrong.is_empty(),
        "{} of them:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(10)].join("\n\n")
    );
    for status in [200, 400, 401, 403, 404, 405, 415] {
        assert!(
            statuses.contains_key(&status),
            "never {status}: the generator misses what it is for"
        );
    }
    assert!(last < first + first / 4 + GROWTH, "{first} bytes became {last}");
    node.http.get("/health/ready").await.expect(200);
    node.child.signal("TERM");
    assert_eq!(node.child.wait(LONG_TIMEOUT).code(), Some(0));
    node.assert_invariants();
}

/// Workflows for the requests, and a link that is valid once.
async fn prepare(node: &SingleNode) -> String {
    let line = json!({"id": "w", "type": "Elsa.WriteLine", "text": literal("here")});
    node.publish("hello", line.clone()).await;
    let both = json!({"id": "s", "type": "Elsa.Sequence", "activities": [waits_for("Go"), line]});
    node.publish("waits", both).await;
    let delay = json!({"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "00:10:00"}});
    node.publish("sleeps", json!({"id": "d", "type": "Elsa.Delay", "timeSpan": delay}))
        .await;
    let started = node.http.post("workflow-definitions/waits/execute", &json!({})).await;
    let id = started.header("x-elsa-workflow-instance-id").to_owned();
    let made = node
        .http
        .post(&format!("workflow-instances/{id}/resume-links"), &json!({}))
        .await;
    let url = made.expect(200)["url"].as_str().unwrap().to_owned();
    url.rsplit('/').next().unwrap().to_owned()
}

/// Judges an answer.
fn note(seen: &Mutex<Seen>, route: &Route, request: &[u8], answer: Result<Option<Answer>, String>, known: &Known) {
    let mut seen = seen.lock().unwrap();
    let wrong = match answer {
        Err(why) => Some(why),
        Ok(None) => {
            seen.hung_up += 1;
            None
        }
        Ok(Some(answer)) => {
            *seen.statuses.entry(answer.status).or_default() += 1;
            if let Some(id) = answer.header("x-elsa-workflow-instance-id") {
                known.instance(id);
            }
            complaint(&answer, &route.path)
        }
    };
    if let Some(why) = wrong {
        let shown = String::from_utf8_lossy(&request[..request.len().min(1_500)]).replace(KEY, "KEY");
        seen.wrong.push(format!("{why}\nto {shown}"));
    }
}

/// What is wrong with an answer: a 5xx that is neither a 503 with its reason nor what a run came to.
fn complaint(answer: &Answer, path: &str) -> Option<String> {
    if answer.status < 500 {
        return None;
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let code = body["code"].as_str().unwrap_or_default();
    let fine = match answer.status {
        503 if path.starts_with("/health/") => body["status"] == "not-ready",
        503 => !code.is_empty() && answer.header("retry-after").is_some(),
        // The workflow faulted or was dead-lettered.
        500 => body["workflowState"].is_object() || code == "given-up",
        _ => false,
    };
    (!fine).then(|| format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)))
}
