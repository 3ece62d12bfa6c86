//! Schedules on three nodes: each occurrence fires once, whichever node is killed at whichever moment.

use std::time::Duration;

use chrono::{DateTime, Utc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::support::failpoints::FIRE;
use crate::support::node::{NAMES, Node, assert_invariants, start_three};
use crate::support::{Connection, Http, TIMEOUT, TestDatabase, poll_until, wait_until};

/// How many schedules there are, and how often each fires.
const SCHEDULES: usize = 4;
const INTERVAL: Duration = Duration::from_millis(250);

fn definition(n: usize) -> Value {
    json!({
        "definitionId": format!("tick{n}"),
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            // All that was missed fires, however late: each occurrence has its instance.
            {"type": "Elsa.Timer", "id": "timer", "canStartWorkflow": true, "interval": "00:00:00.250", "belowASecond": true,
             "misfire": {"policy": "FireAll", "upTo": 1000, "lateFrom": "01:00:00"}},
            {"type": "Elsa.WriteLine", "id": "line", "text": {"typeName": "String", "expression":
                {"type": "JavaScript", "value": "getOutputFrom('timer', 'Result').occurrence"}}}
        ]}
    })
}

async fn publish_all(http: &Http) {
    for n in 0..SCHEDULES {
        http.publish(&definition(n)).await;
    }
}

async fn fired(client: &Connection) -> i64 {
    let sql = "SELECT sum(fired)::bigint FROM mainspring.schedule";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn fires_on(client: &Connection, more: i64) {
    let from = fired(client).await;
    let probe = async || (fired(client).await >= from + more).then_some(());
    poll_until(TIMEOUT, "schedules to go on", probe).await;
}

/// Stops the schedules, waits for what they started, and compares that with what there was to start.
async fn each_occurrence_once(database: &TestDatabase, client: &Connection) {
    client
        .run("UPDATE mainspring.schedule SET paused = true, version = version + 1")
        .await;
    let unfinished =
        "SELECT (SELECT count(*) FROM mainspring.work) + (SELECT count(*) FROM mainspring.instance WHERE status = 0)";
    wait_until("all instances to end", async || client.count(unfinished).await == 0).await;
    let sql = "SELECT definition_id, anchor, last_occurrence, fired, misfired, skipped FROM mainspring.schedule";
    let schedules = client.query(sql, &[]).await.unwrap();
    assert_eq!(schedules.len(), SCHEDULES);
    for row in schedules {
        let definition: String = row.get(0);
        let (anchor, last): (DateTime<Utc>, DateTime<Utc>) = (row.get(1), row.get(2));
        let due = (last - anchor).num_microseconds().unwrap() / i64::try_from(INTERVAL.as_micros()).unwrap();
        let counted: (i64, i64, i64) = (row.get(3), row.get(4), row.get(5));
        assert_eq!(counted, (due, 0, 0), "{definition}: fired, misfired and skipped");
        let sql = "SELECT count(*), count(DISTINCT i.id), count(DISTINCT j.activity_state->>'Text'),
                          count(*) FILTER (WHERE i.sub_status = 3)
                   FROM mainspring.instance i
                   JOIN mainspring.journal j ON j.instance_id = i.id AND j.activity_id = 'line' AND j.event_name = 'Completed'
                   WHERE i.definition_id = $1";
        let row = client.query_one(sql, &[&definition]).await.unwrap();
        let counts: [i64; 4] = [row.get(0), row.get(1), row.get(2), row.get(3)];
        assert_eq!(
            counts, [due; 4],
            "{definition}: lines, instances, occurrences, finished"
        );
    }
    assert_invariants(database).await;
}

async fn restart(database: &TestDatabase, nodes: &mut [Node], target: usize, failpoints: &str) {
    nodes[target].child.kill9();
    nodes[target] = Node::start_armed(database, NAMES[target], failpoints).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_occurrence_fires_once_through_kills_at_every_failpoint_and_at_random() {
    let database = TestDatabase::create().await;
    let mut nodes = start_three(&database, &[]);
    publish_all(nodes[0].http.as_ref().unwrap()).await;
    let client = database.connect().await;
    fires_on(&client, 8).await;
    for (round, point) in FIRE.into_iter().chain(FIRE).enumerate() {
        let target = round % 3;
        restart(
            &database,
            &mut nodes,
            target,
            &format!("{point}=abort@{}", 2 + round % 3),
        )
        .await;
        let child = &mut nodes[target].child;
        wait_until(point, async || child.has_ended()).await;
        restart(&database, &mut nodes, target, "").await;
        fires_on(&client, 8).await;
    }
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..3 {
        let target = random.random_range(0..3);
        restart(&database, &mut nodes, target, "").await;
        // A random moment, not a wait.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..400))).await;
    }
    // All at once, and for a while.
    for node in &mut nodes {
        node.child.kill9();
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for target in 0..3 {
        restart(&database, &mut nodes, target, "").await;
    }
    fires_on(&client, 24).await;
    each_occurrence_once(&database, &client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_workers_fires_what_others_run() {
    let database = TestDatabase::create().await;
    let settings = ["--check-in", "200ms", "--workers", "0"];
    let scheduler = Node::start_with(&database, "one", &settings, "");
    publish_all(scheduler.http.as_ref().unwrap()).await;
    let client = database.connect().await;
    fires_on(&client, 8).await;
    assert_eq!(client.rows("instance").await, 0);
    let _worker = Node::start(&database, "two");
    each_occurrence_once(&database, &client).await;
}
