//! Two versions of the program in one cluster: the older one lacks an activity, and leaves what uses it to the others.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants, publish, wait_until_finished};
use crate::support::{Connection, Gate, Http, TIMEOUT, TestDatabase, poll_until, wait_until};

/// An activity type that the older version lacks.
const MISSING: &str = "Elsa.SetName";

const NEW: [&str; 2] = ["--check-in", "200ms"];
const OLD: [&str; 4] = ["--check-in", "200ms", "--disable-activity", MISSING];

/// Two lines with the missing activity, a delay and an event between them.
fn definition() -> Value {
    let script = |type_name: &str, text: &str| json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": text}});
    json!({
        "definitionId": "named",
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.WriteLine", "id": "first", "text": script("String", "'named ' + getInput('n')")},
            {"type": MISSING, "id": "name", "value": script("String", "'n' + getInput('n')")},
            {"type": "Elsa.Delay", "id": "rest", "timeSpan": script("TimeSpan", "'00:00:00.200'")},
            {"type": "Elsa.Event", "id": "word", "eventName": script("String", "'named-' + getInput('n')")},
            {"type": "Elsa.WriteLine", "id": "second", "text": script("String", "'named ' + getInput('n')")}
        ]}
    })
}

async fn publish_named(http: &Http) {
    http.publish(&definition()).await;
}

fn http(node: &Node) -> &Http {
    node.http.as_ref().unwrap()
}

async fn dispatch(http: &Http, workflow: &str, n: usize) {
    http.dispatch(workflow, &json!({"input": {"n": n}})).await;
}

async fn event(http: &Http, name: String) {
    http.trigger(&name, &json!({})).await;
}

/// The activity types that each node publishes as missing.
async fn missing(http: &Http, wanted: &[(&str, bool)]) {
    wait_until("the nodes to publish what they lack", async || {
        let listed = http.get("cluster/nodes").await.expect(200);
        let said: Vec<(String, Value)> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| (node["nodeId"].as_str().unwrap().to_owned(), node["lacks"].clone()))
            .collect();
        wanted.iter().all(|(name, lacks)| {
            let types = if *lacks { json!([MISSING]) } else { json!([]) };
            said.contains(&((*name).to_owned(), types))
        })
    })
    .await;
}

fn wrote(node: &Node, beginning: &str) -> usize {
    let lines = node.child.stdout();
    lines.iter().filter(|line| line.starts_with(beginning)).count()
}

async fn nothing_faulted(database: &TestDatabase, client: &Connection) {
    let faulted = "SELECT (SELECT count(*) FROM mainspring.instance WHERE incident_count > 0 OR sub_status = 5)
                        + (SELECT count(*) FROM mainspring.dead_letter)";
    assert_eq!(client.count(faulted).await, 0);
    assert_invariants(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_cannot_run_it_leaves_to_one_that_can() {
    let database = TestDatabase::create().await;
    let new = Node::start_with(&database, "new", &NEW, "");
    let old = Node::start_with(&database, "old", &OLD, "");
    let third = Node::start_with(&database, "third", &OLD, "");
    let refused = http(&old)
        .post("workflow-definitions", &json!({"model": definition(), "publish": true}))
        .await;
    refused.assert_refused(400, "invalid-definition");
    publish_named(http(&new)).await;
    publish(http(&old)).await;
    missing(http(&third), &[("new", false), ("old", true), ("third", true)]).await;
    let client = database.connect().await;
    let (runs, clients) = (12, [http(&old), http(&third), http(&new)]);
    for n in 0..runs {
        let client = clients[n % 3];
        if n % 2 == 0 {
            dispatch(client, "named", n).await;
        } else {
            // The caller waits for the node that runs it.
            let answer = client.execute("named", &json!({"input": {"n": n}})).await;
            assert_eq!(answer["workflowState"]["subStatus"], "Suspended", "{answer}");
        }
        dispatch(client, "walk", n).await;
    }
    for n in 0..runs {
        event(clients[(n + 1) % 3], format!("named-{n}")).await;
        event(clients[(n + 1) % 3], format!("go-{n}")).await;
    }
    wait_until_finished(&client, 2 * runs as i64).await;
    wait_until("all messages to be logged", async || wrote(&new, "named ") >= 2 * runs).await;
    assert_eq!(
        (wrote(&new, "named "), wrote(&old, "named "), wrote(&third, "named ")),
        (2 * runs, 0, 0)
    );
    nothing_faulted(&database, &client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_node_can_run_waits_is_reported_and_blocks_no_node() {
    let database = TestDatabase::create().await;
    let new = Node::start_with(&database, "new", &NEW, "");
    let old = Node::start_with(&database, "old", &OLD, "");
    publish_named(http(&new)).await;
    publish(http(&old)).await;
    missing(http(&old), &[("old", true)]).await;
    let client = database.connect().await;
    // Some of them wait for their delay, some for their event.
    for n in 0..4 {
        dispatch(http(&old), "named", n).await;
    }
    client.wait_for_rows("bookmark", 4).await;
    new.child.signal("KILL");
    for n in 4..8 {
        dispatch(http(&old), "named", n).await;
    }
    for n in 0..8 {
        event(http(&old), format!("named-{n}")).await;
    }
    // The queue begins with what the living node cannot run, and continues behind it.
    for n in 0..20 {
        dispatch(http(&old), "walk", n).await;
        event(http(&old), format!("go-{n}")).await;
    }
    wait_until_finished(&client, 20).await;
    let queue = poll_until(TIMEOUT, "the queue to show it", async || {
        let queue = http(&old).get("cluster/queue").await.expect(200);
        let states: Vec<Value> = queue["items"].as_array().unwrap().clone();
        let nowhere = |kind: &str| {
            states
                .iter()
                .any(|item| item["kind"] == kind && item["state"] == "nowhere")
        };
        (nowhere("start")).then_some(states)
    })
    .await;
    assert!(!queue.iter().any(|item| item["state"] == "ready"), "{queue:?}");
    client
        .run("UPDATE mainspring.cluster_job SET next_run_at = now() WHERE name = 'report-unsupported'")
        .await;
    old.child
        .wait_for_log("no node knows all activities of a workflow")
        .await;
    // It does not poll again and again for what it cannot run.
    let commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let before = client.count(commits).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let transactions = client.count(commits).await - before;
    println!("{transactions} transactions in two idle seconds");
    assert!(transactions < 400, "{transactions} transactions in two idle seconds");
    let again = Node::start_with(&database, "again", &NEW, "");
    wait_until_finished(&client, 28).await;
    let named = || wrote(&new, "named ") + wrote(&again, "named ");
    wait_until("all messages to be logged", async || named() >= 16).await;
    assert_eq!((wrote(&old, "named "), named()), (0, 16));
    nothing_faulted(&database, &client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_know_yet_claims_it_and_releases_it_unharmed() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let mut new = Node::start_with(&database, "new", &[&NEW[..], &["--workers", "0"]].concat(), "");
    publish_named(http(&new)).await;
    for n in 0..3 {
        dispatch(http(&new), "named", n).await;
    }
    new.child.signal("TERM");
    assert!(new.child.wait(TIMEOUT).success());
    // As after a publish by a program of before there was such a column.
    client
        .run("UPDATE mainspring.definition SET activity_types = NULL")
        .await;
    // It claims before it has noted the types.
    let gate = Gate::new();
    let old = Node::start_with(&database, "old", &OLD, &gate.stalls("survey.begins"));
    old.child.wait_for_log("the instance is left to other nodes").await;
    gate.open();
    missing(http(&old), &[("old", true)]).await;
    assert_eq!(client.rows("work WHERE failures > 0 OR crashes > 0").await, 0);
    let _again = Node::start_with(&database, "again", &NEW, "");
    for n in 0..3 {
        event(http(&old), format!("named-{n}")).await;
    }
    wait_until_finished(&client, 3).await;
    assert_eq!(
        client
            .rows("definition WHERE 'Elsa.SetName' = ANY (activity_types)")
            .await,
        1
    );
    nothing_faulted(&database, &client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_faults_because_of_a_rolling_deployment() {
    const NAMES: [(&str, &str); 3] = [("a0", "a1"), ("b0", "b1"), ("c0", "c1")];
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let quick = ["--drain-notice", "100ms"];
    let settings = |of: &[&'static str]| [of, &quick[..]].concat();
    let mut nodes: Vec<Node> = NAMES
        .iter()
        .map(|(name, _)| Node::start_with(&database, name, &settings(&OLD), ""))
        .collect();
    publish(http(&nodes[0])).await;
    let mut started = [0, 0];
    for slot in 0..3 {
        let mut leaver = std::mem::replace(
            &mut nodes[slot],
            Node::start_with(&database, NAMES[slot].1, &settings(&NEW), ""),
        );
        if slot == 0 {
            publish_named(http(&nodes[0])).await;
        }
        let mut load = async |client: &Http| {
            dispatch(client, "named", started[0]).await;
            dispatch(client, "walk", started[1]).await;
            event(client, format!("named-{}", started[0])).await;
            event(client, format!("go-{}", started[1])).await;
            started = started.map(|count| count + 1);
        };
        for _ in 0..5 {
            load(http(&leaver)).await;
            for node in &nodes {
                load(http(node)).await;
            }
        }
        leaver.child.signal("TERM");
        assert!(leaver.child.wait(TIMEOUT).success());
        assert_eq!(wrote(&leaver, "named "), 0);
    }
    wait_until_finished(&client, started.iter().sum::<usize>() as i64).await;
    nothing_faulted(&database, &client).await;
    missing(http(&nodes[0]), &[("a1", false), ("b1", false), ("c1", false)]).await;
}
