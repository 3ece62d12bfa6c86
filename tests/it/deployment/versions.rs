//! Two versions of the program in one cluster: the older one lacks an activity, and leaves what uses it to the others.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants, publish, wait_until_finished};
use crate::support::{Connection, Http, TIMEOUT, TestDatabase, poll_until};

/// An activity type that the older version lacks.
const LACKING: &str = "Elsa.SetName";

const NEW: [&str; 2] = ["--check-in", "200ms"];
const OLD: [&str; 4] = ["--check-in", "200ms", "--disable-activity", LACKING];

/// Two lines with what is lacking, a delay and an event between them.
fn definition() -> Value {
    let script = |type_name: &str, text: &str| json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": text}});
    json!({
        "definitionId": "named",
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.WriteLine", "id": "first", "text": script("String", "'named ' + getInput('n')")},
            {"type": LACKING, "id": "name", "value": script("String", "'n' + getInput('n')")},
            {"type": "Elsa.Delay", "id": "rest", "timeSpan": script("TimeSpan", "'00:00:00.200'")},
            {"type": "Elsa.Event", "id": "word", "eventName": script("String", "'named-' + getInput('n')")},
            {"type": "Elsa.WriteLine", "id": "second", "text": script("String", "'named ' + getInput('n')")}
        ]}
    })
}

async fn publish_named(http: &Http) {
    http.post("workflow-definitions", &json!({"model": definition(), "publish": true}))
        .await
        .expect(200);
}

fn http(node: &Node) -> &Http {
    node.http.as_ref().unwrap()
}

async fn dispatch(http: &Http, workflow: &str, n: usize) {
    let path = format!("workflow-definitions/{workflow}/dispatch");
    http.post(&path, &json!({"input": {"n": n}})).await.expect(200);
}

async fn event(http: &Http, name: String) {
    http.post(&format!("events/{name}/trigger"), &json!({}))
        .await
        .expect(200);
}

/// The activity types that each node publishes as lacking.
async fn lacks(http: &Http, wanted: &[(&str, bool)]) {
    poll_until(TIMEOUT, "the nodes to publish what they lack", async || {
        let listed = http.get("cluster/nodes").await.expect(200);
        let said: Vec<(String, Value)> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| (node["nodeId"].as_str().unwrap().to_owned(), node["lacks"].clone()))
            .collect();
        let as_wanted = wanted.iter().all(|(name, lacks)| {
            let types = if *lacks { json!([LACKING]) } else { json!([]) };
            said.contains(&((*name).to_owned(), types))
        });
        as_wanted.then_some(())
    })
    .await;
}

fn wrote(node: &Node, beginning: &str) -> usize {
    let lines = node.child.stdout();
    lines.iter().filter(|line| line.starts_with(beginning)).count()
}

async fn count(client: &Connection, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

async fn nothing_faulted(database: &TestDatabase, client: &Connection) {
    let faulted = "SELECT (SELECT count(*) FROM mainspring.instance WHERE incident_count > 0 OR sub_status = 5)
                        + (SELECT count(*) FROM mainspring.dead_letter)";
    assert_eq!(count(client, faulted).await, 0);
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
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (400, &json!("invalid-definition"))
    );
    publish_named(http(&new)).await;
    publish(http(&old)).await;
    lacks(http(&third), &[("new", false), ("old", true), ("third", true)]).await;
    let client = database.connect().await;
    let (runs, clients) = (12, [http(&old), http(&third), http(&new)]);
    for n in 0..runs {
        let client = clients[n % 3];
        if n % 2 == 0 {
            dispatch(client, "named", n).await;
        } else {
            // The caller waits for the node that runs it.
            let answer = client
                .post("workflow-definitions/named/execute", &json!({"input": {"n": n}}))
                .await
                .expect(200);
            assert_eq!(answer["workflowState"]["subStatus"], "Suspended", "{answer}");
        }
        dispatch(client, "walk", n).await;
    }
    for n in 0..runs {
        event(clients[(n + 1) % 3], format!("named-{n}")).await;
        event(clients[(n + 1) % 3], format!("go-{n}")).await;
    }
    wait_until_finished(&client, 2 * runs as i64).await;
    poll_until(TIMEOUT, "all messages to be logged", async || {
        (wrote(&new, "named ") >= 2 * runs).then_some(())
    })
    .await;
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
    lacks(http(&old), &[("old", true)]).await;
    let client = database.connect().await;
    // Some of them wait for their delay, some for their event.
    for n in 0..4 {
        dispatch(http(&old), "named", n).await;
    }
    poll_until(TIMEOUT, "them to wait", async || {
        let waiting = "SELECT count(*) FROM mainspring.bookmark";
        (count(&client, waiting).await == 4).then_some(())
    })
    .await;
    new.child.signal("KILL");
    for n in 4..8 {
        dispatch(http(&old), "named", n).await;
    }
    for n in 0..8 {
        event(http(&old), format!("named-{n}")).await;
    }
    // The queue begins with what the living node cannot run, and goes on behind it.
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
        .batch_execute("UPDATE mainspring.cluster_job SET next_run_at = now() WHERE name = 'report-unrunnable'")
        .await
        .unwrap();
    poll_until(TIMEOUT, "the log to name it", async || {
        let said = old.child.stderr().join("\n");
        said.contains("no node knows all activities of a workflow")
            .then_some(())
    })
    .await;
    // It does not poll again and again for what it cannot run.
    let looks = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let before = count(&client, looks).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let transactions = count(&client, looks).await - before;
    println!("{transactions} transactions in two idle seconds");
    assert!(transactions < 400, "{transactions} transactions in two idle seconds");
    let again = Node::start_with(&database, "again", &NEW, "");
    wait_until_finished(&client, 28).await;
    let named = || wrote(&new, "named ") + wrote(&again, "named ");
    poll_until(TIMEOUT, "all messages to be logged", async || {
        (named() >= 16).then_some(())
    })
    .await;
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
        .batch_execute("UPDATE mainspring.definition SET activity_types = NULL")
        .await
        .unwrap();
    let old = Node::start_with(&database, "old", &OLD, "");
    poll_until(TIMEOUT, "the node to find out", async || {
        let said = old.child.stderr().join("\n");
        said.contains("the instance is left to other nodes").then_some(())
    })
    .await;
    lacks(http(&old), &[("old", true)]).await;
    let harmed = "SELECT count(*) FROM mainspring.work WHERE failures > 0 OR crashes > 0";
    assert_eq!(count(&client, harmed).await, 0);
    let _again = Node::start_with(&database, "again", &NEW, "");
    for n in 0..3 {
        event(http(&old), format!("named-{n}")).await;
    }
    wait_until_finished(&client, 3).await;
    let surveyed = "SELECT count(*) FROM mainspring.definition WHERE 'Elsa.SetName' = ANY (activity_types)";
    assert_eq!(count(&client, surveyed).await, 1);
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
    lacks(http(&nodes[0]), &[("a1", false), ("b1", false), ("c1", false)]).await;
}
