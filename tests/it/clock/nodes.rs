//! Nodes whose clocks are hours off, or jump: only the database's clock counts.

use std::sync::{Arc, Mutex};

use chrono::TimeDelta;
use serde_json::json;

use crate::support::node::{
    NAMES, Node, assert_each_exactly_once, assert_invariants, incarnations, publish, send_event, start_walk,
    wait_until_finished,
};
use crate::support::schedule_load::{Delays, Schedules, clock};
use crate::support::{Child, Clock, Connection, TIMEOUT, TestDatabase, poll_until};

/// No node has expired, no delay was early, and the journal has the database's time.
async fn agrees(client: &Connection, members: &[i64]) {
    assert_eq!(incarnations(client).await, members);
    let query = "WITH run AS (
                     SELECT instance_id, extract(epoch FROM max(happened_at) - min(happened_at))::float8 AS rested,
                            (substring(max(text) FROM '[0-9]+$')::integer % 800 + 100) / 1000.0::float8 AS due
                     FROM (SELECT instance_id, happened_at, '' AS text FROM mainspring.journal
                           WHERE activity_id = 'rest' AND event_name IN ('Started', 'Completed')
                           UNION ALL
                           SELECT i.id, NULL, i.id FROM mainspring.instance i) j
                     GROUP BY instance_id
                 )
                 SELECT count(*) FILTER (WHERE rested < due - 0.005), max(rested - due)::float8,
                        (SELECT max(abs(extract(epoch FROM now() - happened_at)))::float8 FROM mainspring.journal)
                 FROM run";
    let row = client.query_one(query, &[]).await.unwrap();
    let (early, late, off): (i64, f64, f64) = (row.get(0), row.get(1), row.get(2));
    println!("none was early, the latest {late:.3} s late; the oldest entry of the journal is {off:.1} s old");
    assert_eq!(early, 0, "delays that fired early");
    assert!(late < 60.0, "{late}");
    assert!(off < 1800.0, "{off}");
}

/// Waits until the clock of a node is ahead by so many seconds. A clock that went back does not show in its answers.
async fn believes(node: &Node, seconds: i64) {
    poll_until(TIMEOUT, "a node to go by its new clock", async || {
        let answer = node.http.as_ref()?.get("/health/live").await;
        let date = chrono::DateTime::parse_from_rfc2822(answer.header("date")).ok()?;
        let off = date.timestamp() - chrono::Utc::now().timestamp();
        ((off - seconds).abs() < 600).then_some(())
    })
    .await;
}

async fn load(nodes: &[Node], numbers: std::ops::Range<usize>) {
    for n in numbers {
        let http = nodes[n % 3].http.clone();
        let mut next = || http.clone();
        // The id contains the number, which determines the delay.
        let start = json!({"instanceId": format!("walk-{n}"), "input": {"n": n}});
        start_walk(n, &start, &mut next).await;
        send_event(n, &mut next).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_whose_clocks_are_hours_apart_and_jump_keep_the_time_of_the_database() {
    let database = TestDatabase::create().await;
    let clocks = ["+1h", "-1h", "+0"].map(Clock::new);
    // The library works.
    let path = clocks[0].0.display().to_string();
    let variables = Clock::variables(&path);
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let date = Child::program("date", &["+now %s"], &variables);
    let printed: u64 = date.wait_for_line("now ", TIMEOUT).parse().unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    assert!(printed > now + 3000, "{printed} {now}");
    let mut nodes: Vec<Node> = clocks
        .iter()
        .zip(NAMES)
        .map(|(clock, name)| clock.node(&database, name))
        .collect();
    let said = nodes[0].child.stderr().join("\n");
    publish(nodes[0].http.as_ref().unwrap()).await;
    let client = database.connect().await;
    let members = incarnations(&client).await;
    load(&nodes, 0..30).await;
    wait_until_finished(&client, 30).await;
    agrees(&client, &members).await;
    // Now they jump, with delays under way.
    load(&nodes, 30..45).await;
    clocks[0].set("-3h");
    clocks[1].set("+3h");
    clocks[2].set("+1d");
    load(&nodes, 45..60).await;
    believes(&nodes[2], 86_400).await;
    wait_until_finished(&client, 60).await;
    agrees(&client, &members).await;
    for node in &mut nodes {
        assert!(!node.child.has_ended(), "{said}");
    }
    assert_each_exactly_once(&database, &client, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_and_delays_keep_the_time_of_the_database_when_clocks_jump() {
    let database = TestDatabase::create().await;
    let clocks = ["+1h", "-1h", "+0"].map(Clock::new);
    let mut nodes: Vec<Node> = clocks
        .iter()
        .zip(NAMES)
        .map(|(clock, name)| clock.node(&database, name))
        .collect();
    let client = database.connect().await;
    let schedules = Schedules {
        schedules: 6,
        period: 1,
    };
    let sleepers = Delays {
        least: 60,
        longest: 3_000,
        lanes: 2,
    };
    let addresses = Arc::new(Mutex::new(nodes.iter().map(|node| node.http.clone()).collect()));
    believes(&nodes[0], 3_600).await;
    Delays::publish(nodes[0].http.as_ref().unwrap()).await;
    let start = schedules.publish(nodes[1].http.as_ref().unwrap(), &client).await;
    let load = sleepers.start(&addresses);
    // Longer than it takes a process to see that its clock was set.
    let goes_on = async || {
        schedules
            .wait_past(&client, clock(&client).await + TimeDelta::seconds(2))
            .await
    };
    goes_on().await;
    // Forward and back, by hours and by a day.
    for (offsets, (node, ahead)) in [
        (["-3h", "+3h", "+1d"], (2, 86_400)),
        (["+5h", "-1h", "-1d"], (0, 18_000)),
    ] {
        for (clock, offset) in clocks.iter().zip(offsets) {
            clock.set(offset);
        }
        believes(&nodes[node], ahead).await;
        goes_on().await;
    }
    let slept = load.stop().await;
    // What one does that is late by its own clock, no other one does for it any more.
    for node in [0, 1] {
        nodes[node].child.kill9();
    }
    goes_on().await;
    let end = clock(&client).await;
    let shown = schedules.each_once(&client, start, end).await;
    let latest = sleepers.each_once(&client, slept).await;
    println!("{shown:?}; the latest of {slept} sleepers was late by {latest:?}");
    assert!(shown.latest < TimeDelta::minutes(2), "{shown:?}");
    assert!(latest < TIMEOUT * 2, "{latest:?}");
    assert_invariants(&database).await;
}
