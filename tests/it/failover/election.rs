//! The active scheduler crashes: the time until the next one fires.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;

use crate::support::node::{NAMES, Node, assert_invariants};
use crate::support::schedule_load::{all_end, clock, script};
use crate::support::{Connection, TIMEOUT, TestDatabase, poll_until};

/// The tolerance is much longer than an election takes, which begins when the session of the active scheduler ends.
const CANDIDATE: [&str; 5] = ["--roles", "scheduler", "--single-scheduler", "--tolerance", "60s"];

async fn fired_by(client: &Connection) -> Option<String> {
    let sql = "SELECT last_node FROM mainspring.schedule WHERE last_fired_at > now() - interval '1 second'";
    client.query_opt(sql, &[]).await.ok()?.and_then(|row| row.get(0))
}

/// When the first occurrence after a time was fired, by the database's clock, as its instance reports.
async fn first_after(client: &Connection, time: DateTime<Utc>) -> DateTime<Utc> {
    let sql = "SELECT min((activity_state->>'Text')::timestamptz) FROM mainspring.journal
               WHERE activity_id = 'line' AND event_name = 'Completed' AND (activity_state->>'Text')::timestamptz > $1";
    poll_until(TIMEOUT, "the next one to fire", async || {
        client.query_one(sql, &[&time]).await.ok()?.get(0)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_scheduler_fires_at_once_when_the_active_one_is_killed() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let worker = Node::start_with(&database, "worker", &["--roles", "api,worker"], "");
    let mut nodes: Vec<Node> = NAMES
        .iter()
        .map(|name| Node::start_with(&database, name, &CANDIDATE, ""))
        .collect();
    let output = "getOutputFrom('timer', 'Result').firedAt";
    let ticks = json!({"definitionId": "ticks", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Timer", "id": "timer", "canStartWorkflow": true, "interval": "00:00:00.200", "belowASecond": true},
        {"type": "Elsa.WriteLine", "id": "line", "text": script("String", output)}
    ]}});
    worker.http.as_ref().unwrap().publish(&ticks).await;
    for _ in 0..2 {
        let active = poll_until(TIMEOUT, "an active scheduler", async || fired_by(&client).await).await;
        let target = nodes.iter_mut().find(|node| node.name == active).unwrap();
        target.child.kill9();
        let killed = clock(&client).await;
        let next = poll_until(TIMEOUT, "another active scheduler", async || {
            fired_by(&client).await.filter(|next| *next != active)
        })
        .await;
        let pause = first_after(&client, killed).await - killed;
        println!(
            "{active} was killed; {next} fired {} ms later",
            pause.num_microseconds().unwrap() as f64 / 1e3
        );
        // Not by the expiry of the killed node.
        assert!(pause < TimeDelta::seconds(30), "{pause}");
        // A candidate again, at the end of the queue.
        let target = nodes.iter_mut().find(|node| node.name == active).unwrap();
        *target = Node::start_with(&database, target.name, &CANDIDATE, "");
    }
    let stop = "UPDATE mainspring.schedule SET paused = true, version = version + 1";
    client.run(stop).await;
    all_end(&client).await;
    assert_invariants(&database).await;
    // Each occurrence is an instance, none is left out: it fires all of what is less than a minute late.
    let sql =
        "SELECT count(*), (SELECT (extract(epoch FROM last_occurrence - anchor) * 5)::bigint FROM mainspring.schedule)
               FROM mainspring.instance";
    let row = client.query_one(sql, &[]).await.unwrap();
    let counts: (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(counts.0, counts.1, "instances and occurrences");
}
