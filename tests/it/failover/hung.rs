//! A node that hangs: a part of it does nothing more, and its check-ins would continue. It ends its process, the others take
//! over, and a crash counts only against the rows whose bursts hang.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::support::node::{
    Node, assert_each_exactly_once, publish, send_event, start_walk, wait_until_finished, walk,
};
use crate::support::three_nodes::ThreeNodes;
use crate::support::{Connection, Gate, TIMEOUT, TestDatabase, poll_until, wait_until};

/// The exit code of a hung node.
const HUNG: Option<i32> = Some(4);

/// Three seconds are the least in which a part has to answer.
const SETTINGS: [&str; 4] = ["--tolerance", "3s", "--health-listen", "127.0.0.1:0"];

/// Waits for the end of a node; its exit code.
async fn exit_code(node: &mut Node) -> Option<i32> {
    let name = node.name;
    wait_until(&format!("{name} to end"), async || node.child.has_ended()).await;
    node.child.wait(TIMEOUT).code()
}

/// Three starts are claimed by the first node, whose bursts wait. Then a part of it answers no more.
async fn is_taken_over(part: &str, stalls: impl Fn(&Gate, &str) -> String, reason: &str) {
    let (burst, hang) = (Gate::new(), Gate::new());
    let point = format!("watchdog.answer.{part}");
    let failpoints = format!("{};{}", burst.stalls("burst.before"), stalls(&hang, &point));
    let mut three = ThreeNodes::start_armed([&failpoints, "", ""], &SETTINGS).await;
    let hung = three.incarnation("one").await.unwrap();
    let health = three.nodes[0].child.health().await;
    three.load(3).await;
    three.holds(hung, 3).await;
    health.get("/health/live").await.expect(200);
    health.get("/health/ready").await.expect(200);
    hang.open();
    let began = Instant::now();
    // First it is not ready, and live: load balancers choose another node.
    let (live, ready) = poll_until(TIMEOUT, "the node not to be ready", async || {
        let live = health.send(Method::GET, "/health/live", &[], None).await.ok()?;
        let ready = health.send(Method::GET, "/health/ready", &[], None).await.ok()?;
        (ready.status == 503).then_some((live, ready))
    })
    .await;
    let said = ready.body["reason"].as_str().unwrap_or_default();
    assert!(said.contains(reason), "{}", ready.body);
    println!("{part}: not ready after {:?}, live: {}", began.elapsed(), live.status);
    assert_eq!(exit_code(&mut three.nodes[0]).await, HUNG);
    let ended = began.elapsed();
    let one = &three.nodes[0].child;
    assert!(one.logs(&format!("this node hangs: {reason}")), "{:?}", one.stderr());
    three.wait_until_removed(hung).await;
    println!("{part}: ended after {ended:?}, taken over after {:?}", began.elapsed());
    // Its tolerance, and what a busy machine adds.
    assert!(ended < Duration::from_secs(20), "{ended:?}");
    let logs = |node: &Node| node.child.logs("a hung node is removed");
    assert!(three.nodes[1..].iter().any(logs), "no other node says why");
    three.assert_clean_end(3).await;
    assert_eq!(three.client.rows("crash").await, 0, "none of the three rows hung");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_runtime_hangs_ends_and_is_taken_over() {
    is_taken_over("runtime", Gate::blocks, "the threads of the runtime have not answered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_poller_hangs_ends_and_is_taken_over() {
    is_taken_over("poller", Gate::hangs, "the poller has not answered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_commit_writer_hangs_ends_and_is_taken_over() {
    is_taken_over("commit_writer", Gate::hangs, "the commit writer has not answered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_lock_session_hangs_ends_and_is_taken_over() {
    is_taken_over("lock_session", Gate::hangs, "the lock session has not answered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_supervisor_hangs_ends_and_is_taken_over() {
    is_taken_over("supervisor", Gate::hangs, "the supervisor has not answered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_scheduler_hangs_ends_and_is_taken_over() {
    is_taken_over("scheduler", Gate::hangs, "the scheduler has not answered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_acceptor_hangs_ends_and_is_taken_over() {
    is_taken_over("acceptor", Gate::hangs, "the acceptor of starts has not answered").await;
}

/// The crashes of a row of work, if there is one.
async fn crashes(client: &Connection, instance: &str) -> Option<i32> {
    let query = "SELECT crashes FROM mainspring.work WHERE instance_id = $1";
    client
        .query_opt(query, &[&instance])
        .await
        .unwrap()
        .map(|row| row.get(0))
}

/// Nodes of which a burst of the instance `poison` keeps a thread, and one of `there` waits until the gate is open. The first
/// one has claimed both.
async fn poisoned(
    names: &[&'static str],
    threads: &str,
    settings: &[&str],
    rests: &Gate,
) -> (TestDatabase, Vec<Node>, Gate) {
    let keeps = Gate::new();
    keeps.open();
    let database = TestDatabase::create().await;
    let failpoints = format!(
        "{};{}",
        keeps.blocks("burst.instance.poison"),
        rests.stalls("burst.instance.there")
    );
    let variables = [
        ("MAINSPRING_FAILPOINTS", &*failpoints),
        ("TOKIO_WORKER_THREADS", threads),
    ];
    let settings = [&SETTINGS[..2], &["--check-in", "200ms"], settings].concat();
    let start = |name: &&'static str| Node::start_at(&database.url(), name, &settings, &variables);
    let mut nodes = vec![start(&names[0])];
    let first = nodes[0].http.clone().unwrap();
    publish(&first).await;
    let client = database.connect().await;
    for (instance, n) in [("there", 0), ("poison", 1_000)] {
        let start = json!({"instanceId": instance, "input": {"n": n}});
        let path = "workflow-definitions/walk/dispatch";
        // The thread that would answer may be kept.
        let answer = first.send(Method::POST, path, &[], Some(&start));
        let _ = tokio::time::timeout(Duration::from_millis(500), answer).await;
        let claimed =
            "work w JOIN mainspring.node n ON n.incarnation = w.claimed_by WHERE n.node_id = 'one' AND w.instance_id";
        client.wait_for_rows(&format!("{claimed} = '{instance}'"), 1).await;
    }
    nodes.extend(names[1..].iter().map(start));
    (database, nodes, keeps)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_hangs_every_process_is_dead_lettered_alone() {
    let rests = Gate::new();
    let names = ["one", "two", "three", "four"];
    // With one thread each.
    let (database, mut nodes, _keeps) = poisoned(&names, "1", &[], &rests).await;
    let client = database.connect().await;
    let query = "SELECT instance_id, crashes, kind::integer FROM mainspring.dead_letter";
    let dead_letter = poll_until(TIMEOUT * 2, "the row to be dead-lettered", async || {
        client.query_opt(query, &[]).await.unwrap()
    })
    .await;
    let dead_letter: (String, i32, i32) = (dead_letter.get(0), dead_letter.get(1), dead_letter.get(2));
    assert_eq!(dead_letter, ("poison".to_owned(), 3, 0));
    let mut codes = Vec::new();
    for node in &mut nodes {
        if node.child.has_ended() {
            codes.push(node.child.wait(TIMEOUT).code());
        }
    }
    assert_eq!(codes, [HUNG; 3]);
    assert_eq!(crashes(&client, "there").await, Some(0), "it merely was there");
    assert_eq!(client.rows("crash").await, 0);
    rests.open();
    nodes.retain_mut(|node| !node.child.has_ended());
    let http = nodes[0].http.clone();
    let mut next = || http.clone();
    send_event(0, &mut next).await;
    walk(1, &mut next).await;
    wait_until_finished(&client, 2).await;
    assert_each_exactly_once(&database, &client, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_that_keeps_one_of_two_threads_hangs_its_node_once_its_time_is_over() {
    let rests = Gate::new();
    let time = ["--activity-timeout", "6s"];
    let (database, mut nodes, _keeps) = poisoned(&["one", "two"], "2", &time, &rests).await;
    let client = database.connect().await;
    // The other thread continues meanwhile.
    let http = nodes[0].http.clone();
    for n in 1..4 {
        start_walk(n, &json!({"input": {"n": n}}), &mut || http.clone()).await;
    }
    assert_eq!(exit_code(&mut nodes[0]).await, HUNG);
    let one = &nodes[0].child;
    let reason = "this node hangs: a burst that keeps a thread of the runtime has not answered for 6.0 s";
    assert!(one.logs(reason), "{:?}", one.stderr());
    wait_until("the rows to be released", async || {
        crashes(&client, "poison").await == Some(1)
    })
    .await;
    assert_eq!(crashes(&client, "there").await, Some(0), "it merely was there");
    assert_eq!(client.rows("crash").await, 0);
}
