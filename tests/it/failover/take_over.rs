//! A node that crashes, hangs or is cut off, and the other nodes that take over from it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::failpoints::REMOVAL;
use crate::support::node::{
    Node, TAKEN_OVER, assert_each_exactly_once, incarnations, publish, send_event, send_until_answered, start_walk,
    wait_until_finished, walk,
};
use crate::support::three_nodes::{TOLERANCE, ThreeNodes};
use crate::support::{Gate, TIMEOUT, TestDatabase, long, poll_until, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_a_killed_node_are_run_by_the_others() {
    let gate = Gate::new();
    // Not by expiry, which takes a minute and more here.
    let mut three = ThreeNodes::start(&gate.stalls("burst.before"), &["--tolerance", "60s"]).await;
    let dead = three.incarnation("one").await.unwrap();
    three.load(30).await;
    three.holds(dead, 10).await;
    let killed = Instant::now();
    three.nodes[0].child.kill9();
    three.wait_until_removed(dead).await;
    let taken_over = killed.elapsed();
    three.assert_clean_end(30).await;
    println!("taken over in {taken_over:?}, all finished in {:?}", killed.elapsed());
    assert!(taken_over < Duration::from_secs(45), "{taken_over:?}");
    let logs = |node: &Node| node.child.logs(TAKEN_OVER);
    assert!(three.nodes[1..].iter().any(logs), "no node logs the take-over");
    assert_eq!(three.client.rows("node").await, 2);
}

/// Stops a node at a point, past its tolerance, and lets it continue: it has written nothing meanwhile, and comes back.
async fn goes_on_after_a_stop(point: &str) {
    let gate = Gate::new();
    let three = ThreeNodes::start(&gate.stalls(point), &TOLERANCE).await;
    let stopped = three.incarnation("one").await.unwrap();
    three.load(20).await;
    gate.reached().await;
    three.nodes[0].child.signal("STOP");
    gate.open();
    three.wait_until_removed(stopped).await;
    wait_until_finished(&three.client, 20).await;
    three.nodes[0].child.signal("CONT");
    three.comes_back(stopped, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_stopped_with_bursts_in_flight_writes_nothing_and_comes_back() {
    goes_on_after_a_stop("commit.gathered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_stopped_in_the_middle_of_a_commit_writes_nothing_and_comes_back() {
    goes_on_after_a_stop("commit.written").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_connection_of_a_node_is_ended_its_work_goes_on() {
    let three = ThreeNodes::start("", &[]).await;
    let (addresses, count) = (three.nodes[1].http.clone(), 80);
    let load = async {
        for n in 0..count {
            let start = json!({"input": {"n": n}});
            // Through the node whose connections are ended, and another one where it cannot answer.
            let mut turn = n;
            let mut next = || {
                turn += 1;
                three.nodes[turn % 2].http.clone()
            };
            start_walk(n, &start, &mut next).await;
            send_event(n, &mut || addresses.clone()).await;
        }
    };
    let faults = async {
        let (mut ended, began) = (BTreeSet::new(), Instant::now());
        // The last statement of a connection shows its purpose.
        let query = "SELECT a.pid, left(a.query, 60) FROM pg_stat_activity a, mainspring.node n
                     WHERE a.datname = current_database() AND n.node_id = 'one'
                       AND a.application_name LIKE 'mainspring/%/' || n.incarnation || '/%' ORDER BY a.pid";
        // The liveness wait, the check-in, the lock session, and some of the pool.
        let all_met = |ended: &BTreeSet<String>| {
            let met = |what: &str| ended.iter().any(|query| query.contains(what));
            met("purpose: wait, with a timeout")
                && met("purpose: check in")
                && (met("token") || met("key"))
                && ended.len() >= 5
        };
        while !all_met(&ended) {
            assert!(began.elapsed() < TIMEOUT, "not all connections were ended: {ended:?}");
            let rows = three.client.query(query, &[]).await.unwrap();
            let other = rows.iter().find(|row| !ended.contains(&row.get::<_, String>(1)));
            if let Some(row) = other {
                ended.insert(row.get::<_, String>(1));
                let end = "SELECT pg_terminate_backend($1)";
                three.client.query(end, &[&row.get::<_, i32>(0)]).await.unwrap();
            }
            // A pause between faults, not a wait.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::join!(load, faults);
    three.assert_clean_end(count as i64).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_expires_when_the_whole_database_stalls() {
    let three = ThreeNodes::start("", &TOLERANCE).await;
    let before = incarnations(&three.client).await;
    for _ in 0..if long() { 3 } else { 1 } {
        // Longer than the tolerance: how long it takes is the point of it.
        three
            .client
            .run("BEGIN; LOCK TABLE mainspring.node IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(3); COMMIT")
            .await;
        // All nodes check in for longer than the tolerance.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            wait_until("all nodes to check in", async || {
                three
                    .client
                    .rows("node WHERE last_seen > now() - interval '500 ms'")
                    .await
                    == 3
            })
            .await;
        }
    }
    assert_eq!(incarnations(&three.client).await, before);
    three.load(5).await;
    three.assert_clean_end(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_node_completes_the_removal_that_a_second_one_dies_of() {
    for point in REMOVAL {
        let gate = Gate::new();
        // The last one of the ring watches the first one.
        let armed = [&*gate.stalls("burst.before"), "", &format!("{point}=abort")];
        let mut three = ThreeNodes::start_armed(armed, &[]).await;
        let dead = three.incarnation("one").await.unwrap();
        let remover = three.incarnation("three").await.unwrap();
        three.load(8).await;
        three.holds(dead, 1).await;
        three.nodes[0].child.kill9();
        wait_until(point, async || three.nodes[2].child.has_ended()).await;
        three.wait_until_removed(remover).await;
        three.wait_until_removed(dead).await;
        three.assert_clean_end(8).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_kills_every_process_is_dead_lettered_alone() {
    let database = TestDatabase::create().await;
    let poison = "burst.instance.poison=abort";
    // It may kill three.
    let mut nodes: Vec<Node> = ["one", "two", "three", "four"]
        .into_iter()
        .map(|name| Node::start_with(&database, name, &["--check-in", "200ms"], poison))
        .collect();
    let first = nodes[0].http.clone().unwrap();
    publish(&first).await;
    let client = database.connect().await;
    let count = 20;
    let mut turn = 0;
    let addresses: Vec<_> = nodes.iter().map(|node| node.http.clone()).collect();
    let mut next = || {
        turn += 1;
        addresses[turn % addresses.len()].clone()
    };
    for n in 0..count {
        walk(n, &mut next).await;
        if n == count / 2 {
            let poisoned = json!({"instanceId": "poison", "input": {"n": 1000}});
            send_until_answered("workflow-definitions/walk/dispatch", "poison", &poisoned, &mut next).await;
        }
    }
    let dead_letter = poll_until(TIMEOUT, "the row to be dead-lettered", async || {
        let query = "SELECT instance_id, crashes, kind::integer FROM mainspring.dead_letter";
        client.query_opt(query, &[]).await.unwrap()
    })
    .await;
    let dead_letter: (String, i32, i32) = (dead_letter.get(0), dead_letter.get(1), dead_letter.get(2));
    assert_eq!(dead_letter, ("poison".to_owned(), 3, 0));
    wait_until_finished(&client, count as i64).await;
    assert_each_exactly_once(&database, &client, count as i64).await;
    let dead = nodes.iter_mut().filter_map(|node| node.child.has_ended().then_some(()));
    assert_eq!(dead.count(), 3);
}
