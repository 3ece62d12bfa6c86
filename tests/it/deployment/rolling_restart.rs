//! Nodes that stop one after another under load: no request fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::support::node::{
    NAMES, Node, TAKEN_OVER, assert_each_exactly_once, assert_invariants, publish, start_three, wait_until_finished,
    walk,
};
use crate::support::{Connection, Gate, Http, TIMEOUT, TestDatabase, wait_until};

/// The interval of the balancer's health checks.
const EVERY: Duration = Duration::from_millis(50);

/// The greatest age of a health check that counts.
const STALE: Duration = Duration::from_millis(500);

/// A node as the balancer sees it.
#[derive(Default)]
struct Seen {
    http: Option<Http>,
    ready: Option<Instant>,
}

/// Chooses among the ready nodes in turn.
#[derive(Clone, Default)]
struct Balancer {
    seen: Arc<[Mutex<Seen>; 3]>,
    turn: Arc<AtomicUsize>,
}

impl Balancer {
    fn knows(&self, slot: usize, http: Option<Http>) {
        let mut seen = self.seen[slot].lock().unwrap();
        (seen.http, seen.ready) = (http, None);
    }

    /// Polls the readiness of one node.
    async fn watch(self, slot: usize) {
        loop {
            let http = self.seen[slot].lock().unwrap().http.clone();
            if let Some(http) = http {
                let asked = Instant::now();
                let answer = http.send(Method::GET, "/health/ready", &[], None);
                let answer = tokio::time::timeout(Duration::from_secs(2), answer).await;
                let ready = matches!(answer, Ok(Ok(answer)) if answer.status == 200);
                self.seen[slot].lock().unwrap().ready = ready.then_some(asked);
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// The next node that is ready.
    async fn next(&self) -> Http {
        let began = Instant::now();
        loop {
            let slot = self.turn.fetch_add(1, Ordering::Relaxed) % 3;
            if let Some(http) = self.fresh(slot) {
                return http;
            }
            assert!(began.elapsed() < TIMEOUT, "no node is ready");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn fresh(&self, slot: usize) -> Option<Http> {
        let seen = self.seen[slot].lock().unwrap();
        let fresh = seen.ready.is_some_and(|asked| asked.elapsed() < STALE);
        fresh.then(|| seen.http.clone()).flatten()
    }

    /// One request, without a key and without a second try.
    async fn ask(&self, path: &str, body: &serde_json::Value) -> Result<(), String> {
        let http = self.next().await;
        match http.send(Method::POST, path, &[], Some(body)).await {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(format!("{path}: {} {}", answer.status, answer.body)),
            Err(error) => Err(format!("{path}: {error:?}")),
        }
    }
}

/// Starts instances and publishes their events until it is stopped.
async fn load(balancer: Balancer, numbers: Arc<AtomicUsize>, enough: Arc<AtomicBool>) -> Vec<String> {
    let mut failed = Vec::new();
    while !enough.load(Ordering::Relaxed) {
        let n = numbers.fetch_add(1, Ordering::Relaxed);
        let route = if n.is_multiple_of(2) { "execute" } else { "dispatch" };
        let (start, event) = (
            format!("workflow-definitions/walk/{route}"),
            format!("events/go-{n}/trigger"),
        );
        for (path, body) in [(start, json!({"input": {"n": n}})), (event, json!({}))] {
            failed.extend(balancer.ask(&path, &body).await.err());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    failed
}

async fn rows_of(client: &Connection, name: &str) -> i64 {
    let query = "SELECT (SELECT count(*) FROM mainspring.node WHERE node_id = $1)
                      + (SELECT count(*) FROM mainspring.removed_node)
                      + (SELECT count(*) FROM mainspring.work w WHERE claimed_by IS NOT NULL AND NOT EXISTS
                          (SELECT 1 FROM mainspring.node n WHERE n.incarnation = w.claimed_by))";
    client.query_one(query, &[&name]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_no_request_and_no_workflow() {
    let database = TestDatabase::create().await;
    let mut nodes = start_three(&database, &[]);
    publish(nodes[0].http.as_ref().unwrap()).await;
    let client = database.connect().await;
    let balancer = Balancer::default();
    let watches: Vec<_> = (0..3)
        .map(|slot| {
            balancer.knows(slot, nodes[slot].http.clone());
            tokio::spawn(balancer.clone().watch(slot))
        })
        .collect();
    let (numbers, enough) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let lanes: Vec<_> = (0..6)
        .map(|_| tokio::spawn(load(balancer.clone(), Arc::clone(&numbers), Arc::clone(&enough))))
        .collect();
    for slot in 0..3 {
        let asked = Instant::now();
        nodes[slot].child.signal("TERM");
        let status = nodes[slot].child.wait(TIMEOUT);
        let said = nodes[slot].child.stderr().join("\n");
        assert!(status.success() && said.contains("left in good order"), "{said}");
        println!("{} was gone after {:?}", NAMES[slot], asked.elapsed());
        // Nothing is left to take over.
        assert_eq!(rows_of(&client, NAMES[slot]).await, 0);
        balancer.knows(slot, None);
        nodes[slot] = Node::start(&database, NAMES[slot]);
        balancer.knows(slot, nodes[slot].http.clone());
    }
    enough.store(true, Ordering::Relaxed);
    let mut failed = Vec::new();
    for lane in lanes {
        failed.extend(lane.await.unwrap());
    }
    let count = numbers.load(Ordering::Relaxed) as i64;
    assert!(
        failed.is_empty(),
        "{} of {} requests failed: {failed:#?}",
        failed.len(),
        count * 2
    );
    println!("{} requests, none failed", count * 2);
    assert!(count > 30, "{count}");
    wait_until_finished(&client, count).await;
    assert_each_exactly_once(&database, &client, count).await;
    for node in &nodes {
        let said = node.child.stderr().join("\n");
        assert!(!said.contains(TAKEN_OVER), "{said}");
    }
    watches.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Waits until a node has checked in after another one has joined.
async fn heard(client: &Connection, first: &str, second: &str) {
    wait_until("the first node to check in again", async || {
        let query = "SELECT n.last_seen > t.started_at + interval '1 s' FROM mainspring.node n, mainspring.node t
                     WHERE n.node_id = $1 AND t.node_id = $2";
        client
            .query_one(query, &[&first, &second])
            .await
            .unwrap()
            .get::<_, bool>(0)
    })
    .await;
}

/// Requests to a node that is not ready any more, and bursts in flight that it cannot finish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_node_still_serves_claims_nothing_and_releases_what_it_cannot_finish() {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    // It dies of any of these instances.
    let late: Vec<String> = (0..10).map(|n| format!("burst.instance.late{n}=abort")).collect();
    let failpoints = format!("{};{}", gate.stalls("burst.before"), late.join(";"));
    let first = ["--check-in", "200ms", "--drain-notice", "6s", "--drain-timeout", "4s"];
    let mut one = Node::start_with(&database, "one", &first, &failpoints);
    let http = one.http.clone().unwrap();
    publish(&http).await;
    let client = database.connect().await;
    let mut next = || Some(http.clone());
    for n in 0..10 {
        walk(n, &mut next).await;
    }
    gate.reached().await;
    let claimed = async || -> i64 {
        let query = "SELECT count(*) FROM mainspring.work w JOIN mainspring.node n ON n.incarnation = w.claimed_by
                     WHERE n.node_id = 'one'";
        client.query_one(query, &[]).await.unwrap().get(0)
    };
    wait_until("everything to be claimed", async || claimed().await == 10).await;
    let two = Node::start(&database, "two");
    heard(&client, "one", "two").await;
    let asked = Instant::now();
    one.child.signal("TERM");
    http.readiness_becomes(503).await;
    println!("not ready after {:?}", asked.elapsed());
    for n in 0..10 {
        let start = json!({"instanceId": format!("late{n}"), "input": {"n": 100 + n}});
        let answer = http.post("workflow-definitions/walk/dispatch", &start).await;
        assert_eq!(answer.header("connection"), "close");
        answer.expect(200);
        http.trigger(&format!("go-{}", 100 + n), &json!({})).await;
        // Under an id that the node generates, it could begin at once; it would stall there, and be seen.
        let start = json!({"input": {"n": 200 + n}});
        http.dispatch("walk", &start).await;
        http.trigger(&format!("go-{}", 200 + n), &json!({})).await;
        assert!(claimed().await <= 10, "it claims more while it drains");
    }
    // It answers with the result of another node.
    let start = json!({"input": {"n": 300}});
    http.execute("walk", &start).await;
    assert!(claimed().await <= 10, "it claims what it executes while it drains");
    http.trigger("go-300", &json!({})).await;
    assert!(
        asked.elapsed() < Duration::from_secs(6),
        "this machine is too slow for this test"
    );
    let status = one.child.wait(TIMEOUT);
    let said = one.child.stderr().join("\n");
    assert!(status.success() && said.contains("left in good order"), "{said}");
    let gone = asked.elapsed();
    assert_eq!(rows_of(&client, "one").await, 0);
    wait_until_finished(&client, 31).await;
    println!("gone after {gone:?}, all finished {:?} later", asked.elapsed() - gone);
    assert_each_exactly_once(&database, &client, 31).await;
    let said = two.child.stderr().join("\n");
    assert!(!said.contains(TAKEN_OVER), "{said}");
}

/// The last node with workers runs work until it stops, though nodes without workers remain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_node_with_workers_runs_new_work_until_it_stops() {
    let database = TestDatabase::create().await;
    let settings = ["--check-in", "200ms", "--drain-notice", "6s"];
    let mut one = Node::start_with(&database, "one", &settings, "");
    let api_node = Node::start_with(&database, "api-node", &["--check-in", "200ms", "--workers", "0"], "");
    let http = one.http.clone().unwrap();
    publish(&http).await;
    let client = database.connect().await;
    heard(&client, "one", "api-node").await;
    let asked = Instant::now();
    one.child.signal("TERM");
    http.readiness_becomes(503).await;
    let start = json!({"input": {"n": 0}});
    let accepted = http.dispatch("walk", &start).await;
    let id = accepted["workflowInstanceId"].as_str().unwrap().to_owned();
    assert!(
        asked.elapsed() < Duration::from_secs(6),
        "this machine is too slow for this test"
    );
    let api_node = api_node.http.clone().unwrap();
    api_node.instance_becomes(&id, "Suspended").await;
    let status = one.child.wait(TIMEOUT);
    assert!(status.success(), "{:?}", one.child.stderr());
    assert_invariants(&database).await;
}
