//! Notifications between nodes: work that one accepts and another runs, with and without a notification.
//!
//! Where a hint is to be the cause, check-ins are so rare that none comes while the test runs.

use serde_json::json;

use crate::support::node::{Node, assert_each_exactly_once, publish, wait_until_finished};
use crate::support::{Connection, Http, TIMEOUT, TestDatabase, assert_contains, assert_fields, poll_until, wait_until};

pub(super) const NEVER: [&str; 4] = ["--check-in", "10m", "--tolerance", "1h"];
pub(super) const OFTEN: [&str; 4] = ["--check-in", "200ms", "--tolerance", "5s"];

fn start_api_node(database: &TestDatabase, failpoints: &str) -> Node {
    let arguments = [&NEVER[..], &["--workers", "0"]].concat();
    Node::start_with(database, "api-node", &arguments, failpoints)
}

/// Ends the notification connection of a node as soon as it has one.
async fn deafen(server: &Connection, database: &TestDatabase, name: &str) {
    let query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = $1 AND application_name LIKE '%/' || $2 AND query ~ '^LISTEN |pg_notify\\(\\$1, p'";
    poll_until(TIMEOUT, "a connection for hints to end", async || {
        let ended = server.query(query, &[&database.name(), &name]).await.ok()?;
        (!ended.is_empty()).then_some(())
    })
    .await;
}

async fn waiting(client: &Connection, count: i64) {
    client.wait_for_rows("bookmark WHERE name = 'Elsa.Event'", count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_without_workers_accepts_runs_elsewhere_at_once() {
    let database = TestDatabase::create().await;
    let api_node = start_api_node(&database, "");
    let _runner = Node::start_with(&database, "runner", &NEVER, "");
    let http = api_node.http.as_ref().unwrap();
    publish(http).await;
    let client = database.connect().await;
    let count = 5;
    for n in 0..count {
        let start = json!({"input": {"n": n}});
        http.dispatch("walk", &start).await;
    }
    waiting(&client, count).await;
    for n in 0..count {
        http.trigger(&format!("go-{n}"), &json!({})).await;
    }
    wait_until_finished(&client, count).await;
    assert_each_exactly_once(&database, &client, count).await;
    // A waiting caller is answered.
    let line = json!({"definitionId": "line", "root": {"type": "Elsa.Event", "id": "line", "eventName": "never"}});
    http.publish(&line).await;
    let answer = http.execute("line", &json!({})).await;
    assert_eq!(answer["workflowState"]["subStatus"], "Suspended", "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_hint_a_check_in_finds_the_work() {
    let database = TestDatabase::create().await;
    let api_node = start_api_node(&database, "wake.lost=error");
    let _runner = Node::start_with(&database, "runner", &OFTEN, "");
    let http = api_node.http.as_ref().unwrap();
    publish(http).await;
    let client = database.connect().await;
    for n in 0..3 {
        http.dispatch("walk", &json!({"input": {"n": n}})).await;
        http.trigger(&format!("go-{n}"), &json!({})).await;
    }
    wait_until_finished(&client, 3).await;
    assert_each_exactly_once(&database, &client, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_notification_connection_polls_after_reconnecting() {
    let database = TestDatabase::create().await;
    let api_node = start_api_node(&database, "wake.lost=error");
    let _runner = Node::start_with(&database, "runner", &NEVER, "");
    let http = api_node.http.as_ref().unwrap();
    publish(http).await;
    // Accepted without any notification.
    http.dispatch("walk", &json!({"input": {"n": 0}})).await;
    http.trigger("go-0", &json!({})).await;
    let server = database.connect_to_server().await;
    deafen(&server, &database, "runner").await;
    let client = database.connect().await;
    wait_until_finished(&client, 1).await;
    assert_each_exactly_once(&database, &client, 1).await;
}

pub(super) fn named(version: usize) -> serde_json::Value {
    json!({"model": {"definitionId": "named", "name": format!("v{version}"), "root":
        {"type": "Elsa.WriteLine", "id": "say", "text": {"typeName": "String", "expression":
            {"type": "Literal", "value": format!("v{version}")}}}}, "publish": true})
}

pub(super) async fn shown(http: &Http) -> String {
    let path = "workflow-definitions/by-definition-id/named?versionOptions=Published";
    http.get(path).await.expect(200)["name"].as_str().unwrap().to_owned()
}

/// The other node comes to show the version, and a start there runs it, at once.
async fn runs_and_shows(http: &Http, version: usize) {
    let answer = http.execute("named", &json!({})).await;
    assert_eq!(answer["workflowState"]["definitionVersion"], version, "{answer}");
    wait_until("the other node to show the new version", async || {
        shown(http).await == format!("v{version}")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_reaches_all_nodes_also_those_that_were_disconnected() {
    let database = TestDatabase::create().await;
    let one = Node::start_with(&database, "one", &NEVER, "");
    let two = Node::start_with(&database, "two", &NEVER, "");
    let (one, other) = (one.http.as_ref().unwrap(), &two);
    let two = two.http.as_ref().unwrap();
    let server = database.connect_to_server().await;
    for version in 1..=12 {
        if version > 1 {
            // It has something to evict.
            assert_eq!(shown(two).await, format!("v{}", version - 1));
        }
        let deaf = version % 2 == 0;
        let (published, ()) = tokio::join!(
            async { one.post("workflow-definitions", &named(version)).await },
            async {
                if deaf {
                    deafen(&server, &database, "two").await;
                }
            }
        );
        published.expect(200);
        runs_and_shows(two, version).await;
    }
    let said = other.child.stderr().join("\n");
    assert_contains(
        &said,
        &["Received cache invalidation event for workflow definition named"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_missed_every_signal_learns_from_its_check_in() {
    let database = TestDatabase::create().await;
    let one = Node::start_with(&database, "one", &NEVER, "");
    let two = Node::start_with(&database, "two", &OFTEN, "signal.lost=error");
    let (one, two) = (one.http.as_ref().unwrap(), two.http.as_ref().unwrap());
    for version in 1..=3 {
        one.post("workflow-definitions", &named(version)).await.expect(200);
        runs_and_shows(two, version).await;
    }
    // A draft changes what is shown of the published version, too.
    let mut draft = named(4);
    draft["publish"] = json!(false);
    one.post("workflow-definitions", &draft).await.expect(200);
    wait_until("the published version to be the newest no longer", async || {
        let path = "workflow-definitions/by-definition-id/named?versionOptions=Published";
        two.get(path).await.expect(200)["isLatest"] == json!(false)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_new_connection_nothing_that_was_cached_is_shown() {
    let database = TestDatabase::create().await;
    let one = Node::start_with(&database, "one", &NEVER, "");
    let two = Node::start_with(&database, "two", &NEVER, "signal.lost=error");
    let (one, two) = (one.http.as_ref().unwrap(), two.http.as_ref().unwrap());
    one.post("workflow-definitions", &named(1)).await.expect(200);
    assert_eq!(shown(two).await, "v1");
    one.post("workflow-definitions", &named(2)).await.expect(200);
    assert_eq!(shown(two).await, "v1", "it has received no signal and not checked in");
    let server = database.connect_to_server().await;
    deafen(&server, &database, "two").await;
    runs_and_shows(two, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_occurrence_that_waits_for_what_another_node_runs_starts_when_that_has_ended() {
    let database = TestDatabase::create().await;
    let _fires = Node::start_with(
        &database,
        "fires",
        &[&NEVER[..], &["--roles", "scheduler"]].concat(),
        "",
    );
    // It has received no notification of the queued occurrence, and does not fire itself.
    let runs = Node::start_with(
        &database,
        "runs",
        &[&NEVER[..], &["--roles", "api,worker"]].concat(),
        "",
    );
    let http = runs.http.as_ref().unwrap();
    let client = database.connect().await;
    // A few occurrences, and none after them whose due time would start a poll.
    let now: chrono::DateTime<chrono::Utc> = client.query_one("SELECT now()", &[]).await.unwrap().get(0);
    let at = |seconds| (now + chrono::TimeDelta::seconds(seconds)).to_rfc3339();
    let timer = json!({"type": "Elsa.Timer", "id": "timer", "canStartWorkflow": true, "interval": "00:00:02",
        "overlap": "QueueOne", "startAt": at(2), "endAt": at(7)});
    let queue = json!({"definitionId": "queue", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        timer, {"type": "Elsa.Event", "id": "wait", "eventName": "go"}]}});
    http.publish(&queue).await;
    wait_until("an occurrence to wait", async || {
        let listed = http.get("cluster/schedules").await.expect(200);
        let schedule = &listed["items"][0];
        schedule["isQueued"] == true && schedule["nextOccurrence"].is_null()
    })
    .await;
    waiting(&client, 1).await;
    http.trigger("go", &json!({})).await;
    client.wait_for_rows("instance", 2).await;
    waiting(&client, 1).await;
    let listed = http.get("cluster/schedules").await.expect(200);
    assert_fields!(listed["items"][0], {"fired": 2, "isQueued": false});
}
