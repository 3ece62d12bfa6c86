//! Unresponsive connections, slow ones, and a node that is stopped, with default settings.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::node::{incarnations, send_event, send_until_answered, start_walk, wait_until_finished, walk};
use crate::support::three_nodes::{TOLERANCE, ThreeNodes};
use crate::support::{Gate, Proxy, TIMEOUT, TestDatabase, long, poll_until, wait_until};

/// With tests beside it.
const CHECK_IN: [&str; 2] = ["--check-in", "200ms"];

/// Three nodes; the first one is behind a proxy and stalls with its bursts in flight.
async fn with_a_proxy(gate: &Gate, settings: &[&str]) -> (Proxy, ThreeNodes) {
    let database = TestDatabase::create().await;
    let proxy = Proxy::before(&database.url()).await;
    let (far, near) = (proxy.url().to_owned(), database.url());
    let failpoints = [&*gate.stalls("burst.before"), "", ""];
    let three = ThreeNodes::start_at(database, [&far, &near, &near], failpoints, settings).await;
    (proxy, three)
}

/// Starts this many instances that only the first node has claimed; returns the calls that wait for them.
async fn claims_in_flight(three: &ThreeNodes, first: i64, count: usize) -> JoinSet<Option<u16>> {
    let http = three.nodes[0].http.clone().unwrap();
    let mut asks = JoinSet::new();
    for n in 0..count {
        let (http, start) = (http.clone(), json!({"input": {"n": n}}));
        asks.spawn(async move {
            // Whatever it answers, if it does: others run what it has accepted.
            let path = "workflow-definitions/walk/execute";
            let answer = http.send(Method::POST, path, &[], Some(&start)).await;
            answer.ok().map(|answer| answer.status)
        });
        let (event, second) = (format!("events/go-{n}/trigger"), three.nodes[1].http.clone());
        send_until_answered(&event, &format!("e{n}"), &json!({}), &mut || second.clone()).await;
    }
    three.holds(first, count as i64).await;
    asks
}

async fn answers_503(three: &ThreeNodes) -> Duration {
    let http = three.nodes[0].http.clone().unwrap();
    let asked = Instant::now();
    let start = json!({"input": {"n": 1000}});
    let answer = http
        .send(Method::POST, "workflow-definitions/walk/dispatch", &[], Some(&start))
        .await;
    assert_eq!(answer.unwrap().status, 503);
    asked.elapsed()
}

async fn is_not_ready(three: &ThreeNodes) {
    let http = three.nodes[0].http.clone().unwrap();
    http.readiness_becomes(503).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_unresponsive_connections_is_taken_over_writes_nothing_and_comes_back() {
    let gate = Gate::new();
    let settings = [&CHECK_IN[..], &TOLERANCE, &["--answer-timeout", "12s"]].concat();
    let (proxy, three) = with_a_proxy(&gate, &settings).await;
    let silent = three.incarnation("one").await.unwrap();
    let asks = claims_in_flight(&three, silent, 20).await;
    proxy.stall();
    let stalled = Instant::now();
    // Called before it can detect the fault: every call has a deadline.
    let (took, ()) = tokio::join!(answers_503(&three), async {
        three.wait_until_removed(silent).await;
        is_not_ready(&three).await;
        // It runs what it has claimed, and cannot commit it.
        gate.open();
        wait_until_finished(&three.client, 20).await;
    });
    println!("a call during the stall was answered after {took:?}");
    assert!(took < TIMEOUT, "{took:?}");
    // Calls that wait for a burst have a deadline, too; 202 if the stall came too late for them.
    let statuses = asks.join_all().await;
    println!(
        "calls that waited for a burst were answered after {:?}: {statuses:?}",
        stalled.elapsed()
    );
    assert!(
        statuses.iter().all(|status| matches!(status, Some(202 | 503))),
        "{statuses:?}"
    );
    assert!(stalled.elapsed() < TIMEOUT * 2, "{:?}", stalled.elapsed());
    let took = answers_503(&three).await;
    println!("a call after the detection was answered after {took:?}");
    // Much less than a statement timeout.
    assert!(took < Duration::from_secs(if long() { 3 } else { 11 }), "{took:?}");
    proxy.resume_traffic();
    three.comes_back(silent, 20).await;
}

/// How long it takes until a node with default settings has been taken over and its work is done elsewhere.
async fn at_default_settings(fault: impl FnOnce(&Proxy, &ThreeNodes)) -> (Gate, Proxy, ThreeNodes, i64) {
    let gate = Gate::new();
    let (proxy, three) = with_a_proxy(&gate, &[]).await;
    let dead = three.incarnation("one").await.unwrap();
    let _asks = claims_in_flight(&three, dead, 40).await;
    let began = Instant::now();
    fault(&proxy, &three);
    gate.open();
    three.wait_until_removed(dead).await;
    let released = began.elapsed();
    // What it had claimed has begun on other nodes.
    let query = "SELECT count(DISTINCT instance_id) FROM mainspring.journal
                 WHERE activity_id = 'first' AND event_name = 'Completed'";
    wait_until("all to run on other nodes", async || {
        three.client.count(query).await == 40
    })
    .await;
    let elsewhere = began.elapsed();
    println!("released after {released:?}, all run on other nodes after {elsewhere:?}");
    // A busy machine is slow to run anything.
    assert!(
        elsewhere < Duration::from_secs(if long() { 10 } else { 40 }),
        "{elsewhere:?}"
    );
    wait_until_finished(&three.client, 40).await;
    (gate, proxy, three, dead)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_is_taken_over_in_time_with_default_settings() {
    let (_open, proxy, three, dead) = at_default_settings(|proxy, _| proxy.stall()).await;
    proxy.resume_traffic();
    three.comes_back(dead, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_stopped_is_taken_over_in_time_with_default_settings() {
    let (_open, _proxy, three, dead) = at_default_settings(|_, three| three.nodes[0].child.signal("STOP")).await;
    three.nodes[0].child.signal("CONT");
    three.comes_back(dead, 40).await;
}

/// One connection of a node becomes unresponsive, and the others do not.
async fn one_is_silent(what: &str) {
    let gate = Gate::new();
    let (proxy, three) = with_a_proxy(&gate, &CHECK_IN).await;
    gate.open();
    let query = "SELECT a.client_port, a.query FROM pg_stat_activity a, mainspring.node n
                 WHERE a.datname = current_database() AND n.node_id = 'one'
                   AND a.application_name LIKE 'mainspring/%/' || n.incarnation || '/%'";
    three.load(3).await;
    let port = poll_until(TIMEOUT, what, async || {
        let rows = three.client.query(query, &[]).await.unwrap();
        let found = rows.iter().find(|row| row.get::<_, String>(1).contains(what))?;
        Some(found.get::<_, i32>(0))
    })
    .await;
    let began = Instant::now();
    proxy.stall_connection(port as u16);
    let numbers = 3..23;
    for n in numbers {
        let (first, second) = (three.nodes[n % 2].http.clone(), three.nodes[1].http.clone());
        let start = json!({"input": {"n": n}});
        start_walk(n, &start, &mut || first.clone()).await;
        send_event(n, &mut || second.clone()).await;
    }
    wait_until_finished(&three.client, 23).await;
    println!(
        "with an unresponsive connection of the {what} all finished after {:?}",
        began.elapsed()
    );
    proxy.resume_traffic();
    three.assert_clean_end(23).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_check_in_connection_is_replaced() {
    one_is_silent("purpose: check in").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_lock_session_blocks_no_node_for_long() {
    one_is_silent("lock::provider::postgres::session").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_commit_connection_is_replaced() {
    if long() {
        one_is_silent("store::commit").await;
    };
}

/// Ten milliseconds each way, for all connections of all nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_network_breaks_nothing() {
    let database = TestDatabase::create().await;
    let proxy = Proxy::with_delay(&database.url(), Duration::from_millis(10)).await;
    let url = proxy.url().to_owned();
    let three = ThreeNodes::start_at(database, [&url, &url, &url], [""; 3], &CHECK_IN).await;
    let before = incarnations(&three.client).await;
    let count: usize = if long() { 2_000 } else { 60 };
    let began = Instant::now();
    let lanes = (0..10).map(|lane| {
        let three = &three;
        async move {
            for n in (lane..count).step_by(10) {
                let http = three.nodes[n % 3].http.clone();
                let mut next = || http.clone();
                walk(n, &mut next).await;
            }
        }
    });
    futures_util::future::join_all(lanes).await;
    let accepted = began.elapsed();
    wait_until_finished(&three.client, count as i64).await;
    println!(
        "10 ms each way: {count} starts and events accepted in {accepted:?}, finished after {:?} ({:.0} instances/s)",
        began.elapsed(),
        count as f64 / began.elapsed().as_secs_f64()
    );
    assert_eq!(incarnations(&three.client).await, before);
    three.assert_clean_end(count as i64).await;
}
