//! Nodes that tell each other: work that one accepts and another runs, and what becomes of it when nobody is told.
//!
//! Where a hint is to be the cause, check-ins are so rare that none comes while the test runs.

use std::time::Duration;

use serde_json::json;

use super::nodes::{Node, all_finish, each_exactly_once, publish};
use crate::support::{Connection, TestDatabase, poll_until};

const NEVER: [&str; 4] = ["--check-in", "10m", "--tolerance", "1h"];
const OFTEN: [&str; 4] = ["--check-in", "200ms", "--tolerance", "5s"];

/// Long enough for a busy machine, and much shorter than the check-ins that must not be the cause.
const SOON: Duration = Duration::from_secs(60);

fn doorman(database: &TestDatabase, failpoints: &str) -> Node {
    let arguments = [&NEVER[..], &["--workers", "0"]].concat();
    Node::start_with(database, "door", &arguments, failpoints)
}

async fn waiting(client: &Connection, count: i64) {
    let query = "SELECT count(*) FROM mainspring.bookmark WHERE name = 'Elsa.Event'";
    poll_until(SOON, "instances to wait for their events", async || {
        let waiting: i64 = client.query_one(query, &[]).await.ok()?.get(0);
        (waiting == count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_without_workers_accepts_runs_elsewhere_at_once() {
    let database = TestDatabase::create().await;
    let door = doorman(&database, "");
    let _runner = Node::start_with(&database, "runner", &NEVER, "");
    let http = door.http.as_ref().unwrap();
    publish(http).await;
    let client = database.connect().await;
    let count = 5;
    for n in 0..count {
        let start = json!({"input": {"n": n}});
        http.post("workflow-definitions/walk/dispatch", &start)
            .await
            .expect(200);
    }
    waiting(&client, count).await;
    for n in 0..count {
        http.post(&format!("events/go-{n}/trigger"), &json!({}))
            .await
            .expect(200);
    }
    all_finish(&client, count).await;
    each_exactly_once(&database, &client, count).await;
    // A door that waits gets its answer.
    let line = json!({"definitionId": "line", "root": {"type": "Elsa.Event", "id": "line", "eventName": "never"}});
    http.post("workflow-definitions", &json!({"model": line, "publish": true}))
        .await
        .expect(200);
    let answer = http
        .post("workflow-definitions/line/execute", &json!({}))
        .await
        .expect(200);
    assert_eq!(answer["workflowState"]["subStatus"], "Suspended", "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_hint_a_check_in_finds_the_work() {
    let database = TestDatabase::create().await;
    let door = doorman(&database, "wake.lost=error");
    let _runner = Node::start_with(&database, "runner", &OFTEN, "");
    let http = door.http.as_ref().unwrap();
    publish(http).await;
    let client = database.connect().await;
    for n in 0..3 {
        http.post("workflow-definitions/walk/dispatch", &json!({"input": {"n": n}}))
            .await
            .expect(200);
        http.post(&format!("events/go-{n}/trigger"), &json!({}))
            .await
            .expect(200);
    }
    all_finish(&client, 3).await;
    each_exactly_once(&database, &client, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_connection_for_hints_looks_when_it_has_a_new_one() {
    let database = TestDatabase::create().await;
    let door = doorman(&database, "wake.lost=error");
    let _runner = Node::start_with(&database, "runner", &NEVER, "");
    let http = door.http.as_ref().unwrap();
    publish(http).await;
    // Accepted while nobody is told.
    http.post("workflow-definitions/walk/dispatch", &json!({"input": {"n": 0}}))
        .await
        .expect(200);
    http.post("events/go-0/trigger", &json!({})).await.expect(200);
    let server = database.connect_to_server().await;
    let killed = server
        .query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = $1 AND application_name LIKE '%/runner' AND query LIKE 'LISTEN %'",
            &[&database.name()],
        )
        .await
        .unwrap();
    assert_eq!(killed.len(), 1);
    let client = database.connect().await;
    all_finish(&client, 1).await;
    each_exactly_once(&database, &client, 1).await;
}
