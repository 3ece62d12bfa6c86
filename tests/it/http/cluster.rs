//! Requests to several nodes at once: behind a load balancer while nodes end and come back, and at a route that moves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::json;
use tokio::task::JoinSet;

use super::{client, echo, endpoint, responds, workflow};
use crate::support::haproxy::HaProxy;
use crate::support::node::{NAMES, Node, assert_invariants, start_three};
use crate::support::{Http, LONG_TIMEOUT, TestDatabase, long, wait_until};

/// Clients that send one request after the other.
const CLIENTS: usize = 16;

/// How long one request is repeated.
const GIVE_UP: Duration = Duration::from_secs(60);

/// How soon after a move each node serves the new owner, in 99 of 100 moves.
const MOST_TO_MOVE: Duration = Duration::from_millis(20);

/// What clients of the balanced workflow have seen.
#[derive(Default)]
struct Seen {
    next: AtomicUsize,
    /// Attempts that were not answered with 200.
    repeated: AtomicUsize,
    /// Whether each request must be answered at once.
    is_calm: AtomicBool,
    /// The instance that answered each request.
    answers: Mutex<BTreeMap<usize, String>>,
    refusals: Mutex<Vec<String>>,
}

/// Sends the requests of one client, each until it is answered.
async fn send_all(address: String, seen: Arc<Seen>, count: usize) {
    let client = client();
    loop {
        let number = seen.next.fetch_add(1, SeqCst);
        if number >= count {
            return;
        }
        let began = Instant::now();
        let id = loop {
            let was_calm = seen.is_calm.load(SeqCst);
            let sent = client
                .post(format!("http://{address}/workflows/orders/{number}"))
                .header("Idempotency-Key", format!("order-{number}"))
                .header("Content-Type", "text/plain")
                .body("an order");
            let refusal = match sent.send().await {
                Ok(response) => match (response.status().as_u16(), response.text().await) {
                    (200, Ok(text)) => break text,
                    (status @ 502..=504, text) => format!("{status}: {text:?}"),
                    (200, Err(error)) => error.to_string(),
                    (status, text) => panic!("request {number} is answered {status}: {text:?}"),
                },
                Err(error) => format!("{error:?}"),
            };
            seen.repeated.fetch_add(1, SeqCst);
            if was_calm && seen.is_calm.load(SeqCst) {
                seen.refusals
                    .lock()
                    .unwrap()
                    .push(format!("request {number}: {refusal}"));
            }
            assert!(began.elapsed() < GIVE_UP, "request {number} is not answered: {refusal}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        seen.answers.lock().unwrap().insert(number, id);
    }
}

/// Waits until the clients have sent so many requests.
async fn until(seen: &Seen, number: usize) {
    wait_until(&format!("request {number}"), async || seen.next.load(SeqCst) >= number).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_runs_once_while_nodes_behind_a_load_balancer_end() {
    let rounds = if long() { 40 } else { 1 };
    let step = if long() { 400 } else { 100 };
    // Three kills and three restarts a round, each between two steps of requests.
    let count = (rounds * 6 + 2) * step;
    let database = TestDatabase::create().await;
    let settings = ["--tolerance", "1s", "--drain-notice", "500ms"];
    let mut nodes = start_three(&database, &settings);
    let orders = workflow(
        "orders",
        &[
            endpoint("in", "orders/{number}", &["POST"], json!({})),
            responds("out", "getWorkflowInstanceId()", json!({})),
        ],
    );
    nodes[0].http.as_ref().unwrap().publish(&orders).await;
    let proxy = HaProxy::start(&NAMES).await;
    nodes.iter().for_each(|node| proxy.serve(node));
    proxy.waits_for(3).await;
    let seen = Arc::<Seen>::default();
    seen.is_calm.store(true, SeqCst);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(send_all(proxy.address(), Arc::clone(&seen), count));
    }
    let began = Instant::now();
    let mut due = step;
    for _ in 0..rounds {
        for is_kill in [true, false] {
            for (place, name) in NAMES.into_iter().enumerate() {
                until(&seen, due).await;
                due += step;
                if is_kill {
                    seen.is_calm.store(false, SeqCst);
                    nodes[place].child.kill9();
                } else {
                    nodes[place].child.signal("TERM");
                    wait_until("the node to end", async || nodes[place].child.has_ended()).await;
                }
                let settings = [&["--check-in", "200ms"], &settings[..]].concat();
                nodes[place] = Node::start_with(&database, name, &settings, "");
                proxy.serve(&nodes[place]);
                proxy.waits_for(3).await;
                seen.is_calm.store(true, SeqCst);
            }
        }
    }
    while let Some(ended) = tokio::time::timeout(LONG_TIMEOUT, clients.join_next())
        .await
        .expect("an end")
    {
        ended.unwrap();
    }
    let (repeated, took) = (seen.repeated.load(SeqCst), began.elapsed());
    eprintln!("{count} requests in {took:?}, {repeated} attempts without an answer");
    let refusals = seen.refusals.lock().unwrap().clone();
    assert!(refusals.is_empty(), "refused while no node was killed: {refusals:?}");
    let connection = database.connect().await;
    let finished = "instance WHERE definition_id = 'orders' AND sub_status = 3";
    connection.wait_for_rows(finished, count as i64).await;
    assert_eq!(connection.rows("instance").await, count as i64, "each request ran once");
    let answers = seen.answers.lock().unwrap().clone();
    let own: BTreeSet<&String> = answers.values().collect();
    assert_eq!(
        (answers.len(), own.len()),
        (count, count),
        "each request has an instance of its own"
    );
    for id in own {
        let own = format!("instance WHERE id = '{id}'");
        if !long() {
            assert_eq!(connection.rows(&own).await, 1, "{id}");
        }
    }
    assert_invariants(&database).await;
}

/// What clients of the moving route were answered: when each request was sent, and which definition has run, if one has.
#[derive(Default)]
struct Answered(Mutex<Vec<(Instant, Option<String>)>>);

impl Answered {
    /// Sends a request to a node, and notes which definition answers it.
    async fn ask(&self, client: &Client, http: &Http) -> (Instant, Option<String>) {
        let url = format!("http://{}/workflows/moving", http.address());
        let sent = Instant::now();
        let response = client.post(url).send().await.expect("an answer");
        let status = response.status().as_u16();
        let text = response.text().await.expect("the whole answer");
        let owner = match status {
            200 => Some(text),
            404 => None,
            503 if text.contains("route-moved") => None,
            _ => panic!("{status}: {text}"),
        };
        self.0.lock().unwrap().push((sent, owner.clone()));
        (sent, owner)
    }

    /// Asks a node again and again until this definition answers; when the request was sent that it answers, and when the
    /// answer came.
    async fn until(&self, client: &Client, http: &Http, owner: &str) -> (Instant, Instant) {
        let asking = async {
            loop {
                let (sent, by) = self.ask(client, http).await;
                if by.as_deref() == Some(owner) {
                    return (sent, Instant::now());
                }
            }
        };
        let asked = tokio::time::timeout(GIVE_UP, asking).await;
        asked.unwrap_or_else(|_| panic!("{owner} does not answer at {}", http.address()))
    }
}

/// The times below which 50 and 99 of 100 are, and the longest.
fn percentiles(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort();
    [50, 99, 100].map(|part| times[(times.len() - 1) * part / 100])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_moves_is_served_by_its_new_owner_on_each_node() {
    let moves = if long() { 300 } else { 12 };
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    let https: Vec<Http> = nodes.iter().map(|node| node.http.clone().unwrap()).collect();
    let answered = Arc::<Answered>::default();
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for place in 0..6 {
        let (http, answered, stop) = (https[place % 3].clone(), Arc::clone(&answered), Arc::clone(&stop));
        clients.spawn(async move {
            let client = client();
            while !stop.load(SeqCst) {
                answered.ask(&client, &http).await;
            }
        });
    }
    let mut owners: Vec<(Instant, &str)> = Vec::new();
    let (mut moved, mut seen) = (Vec::new(), Vec::new());
    let names = ["first", "second"];
    let asking = client();
    for number in 0..moves {
        let (next, before) = (names[number % 2], names[(number + 1) % 2]);
        if number > 0 {
            let path = format!("workflow-definitions/{before}/retract");
            https[number % 3].post(&path, &json!({})).await.expect(200);
        }
        let model = echo(next, "moving", &["POST"], &format!("'{next}'"));
        https[number % 3].publish(&model).await;
        let published = Instant::now();
        owners.push((published, next));
        // Each node serves it soon, also one that has not published it.
        let all = https.iter().map(|http| answered.until(&asking, http, next));
        let all = futures_util::future::join_all(all).await;
        let latest = |times: Vec<Instant>| times.into_iter().max().unwrap().duration_since(published);
        moved.push(latest(all.iter().map(|(sent, _)| *sent).collect()));
        seen.push(latest(all.iter().map(|(_, came)| *came).collect()));
    }
    stop.store(true, SeqCst);
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    let (moved, seen) = (percentiles(moved), percentiles(seen));
    let answered = answered.0.lock().unwrap().clone();
    eprintln!(
        "{moves} moves, {} requests. After a move, all three nodes give to the new owner what is sent after {moved:?}, and the first \
         of it is answered after {seen:?} (p50, p99, the longest)",
        answered.len()
    );
    // The run behind an answer takes its own time, beside other requests and in a debug build.
    assert!(!long() || moved[1] <= MOST_TO_MOVE, "{moved:?}");
    for (sent, by) in answered.iter() {
        let owner = owners.iter().rev().find(|(since, _)| since < sent);
        if let (Some(by), Some((since, owner))) = (by, owner) {
            // A later move may be under way when it is served, but never one before.
            let at = owners.iter().position(|(at, _)| at == since).unwrap();
            let next = owners.get(at + 1).map(|(_, next)| *next);
            assert!(
                by == owner || Some(by.as_str()) == next,
                "{by} answers after {owner} was published"
            );
        }
    }
    let connection = database.connect().await;
    let served = answered.iter().filter(|(_, owner)| owner.is_some()).count() as i64;
    assert_eq!(
        connection.rows("instance").await,
        served,
        "each answer has one run, and each run an answer"
    );
    assert_invariants(&database).await;
}
