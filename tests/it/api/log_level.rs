//! The log: its form, the words that operators search for, and levels that change while the nodes run.

use serde_json::{Value, json};

use crate::support::node::{Node, publish, send_event};
use crate::support::{Http, TestDatabase, wait_until};

const PATH: &str = "cluster/log-level";

fn start(database: &TestDatabase, name: &'static str, settings: &[&str]) -> (Node, Http) {
    let settings = [&["--check-in", "200ms"], settings].concat();
    let node = Node::start_with(database, name, &settings, "");
    let http = node.http.clone().unwrap();
    (node, http)
}

fn said(nodes: &[&Node], line: &str) -> usize {
    let lines = nodes.iter().flat_map(|node| node.child.stderr());
    lines.filter(|said| said.contains(line)).count()
}

/// Starts a walk, and waits until it has ended.
async fn walk(http: &Http, id: &str, n: usize) {
    http.dispatch("walk", &json!({"instanceId": id, "input": {"n": n}}))
        .await;
    send_event(n, &mut || Some(http.clone())).await;
    http.instance_becomes(id, "Finished").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_level_changes_at_all_nodes_or_at_one_and_for_one_instance() {
    let database = TestDatabase::create().await;
    let (one, first) = start(&database, "one", &["--log", "info"]);
    let (two, second) = start(&database, "two", &["--log", "info"]);
    publish(&first).await;
    let at_start = first.get(PATH).await.expect(200);
    assert_eq!(at_start["nodeId"], "one");
    assert!(at_start["settings"].as_str().unwrap().starts_with("info"), "{at_start}");
    assert_eq!(at_start["levels"], json!([]));

    let of_watched = json!({"level": "debug", "workflowInstanceId": "watched"});
    let set = first.put(PATH, &of_watched).await.expect(200);
    assert_eq!(
        set["levels"],
        json!([{"workflowInstanceId": "watched", "level": "debug"}])
    );
    wait_until("the other node to follow", async || {
        second.get(PATH).await.expect(200)["levels"] == set["levels"]
    })
    .await;
    walk(&second, "other", 7).await;
    walk(&second, "watched", 8).await;
    let acquired = "Acquired distributed lock for workflow instance";
    let released = "Released distributed lock for workflow instance";
    for line in [acquired, released] {
        wait_until(line, async || said(&[&one, &two], &format!("{line} watched")) > 0).await;
        assert_eq!(said(&[&one, &two], &format!("{line} other")), 0);
    }

    let definition = json!({"level": "DEBUG", "definitionId": "walk", "thisNodeOnly": true});
    let set = second.put(PATH, &definition).await.expect(200);
    assert_eq!(set["levels"].as_array().unwrap().len(), 2, "{set}");
    for http in [&first, &second] {
        http.put(PATH, &json!({"workflowInstanceId": "watched"}))
            .await
            .expect(200);
    }
    assert_eq!(first.get(PATH).await.expect(200)["levels"], json!([]));
    let left = second.get(PATH).await.expect(200);
    assert_eq!(left["levels"], json!([{"definitionId": "walk", "level": "debug"}]));

    let refused = first.put(PATH, &json!({"level": "loud"})).await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("invalid-field")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_and_a_schedule_have_a_line_of_one_node_for_each_occurrence() {
    let database = TestDatabase::create().await;
    let (one, first) = start(&database, "one", &["--log", "info"]);
    let (two, _) = start(&database, "two", &["--log", "info"]);
    publish(&first).await;
    walk(&first, "walked", 1).await;
    let nodes = [&one, &two];
    let resumed = "ResumeWorkflowTask executed for bookmark";
    wait_until(resumed, async || said(&nodes, resumed) > 0).await;
    let lines = nodes.iter().flat_map(|node| node.child.stderr());
    let lines: Vec<String> = lines.filter(|line| line.contains(resumed)).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("node=") && lines[0].contains("instance=walked"),
        "{lines:?}"
    );

    let tick = json!({"definitionId": "tick", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Timer", "id": "t", "canStartWorkflow": true, "interval": {"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "00:00:01"}}}]}});
    first.publish(&tick).await;
    let fired = "a schedule has fired";
    wait_until(fired, async || said(&nodes, fired) >= 2).await;
    let lines = nodes.iter().flat_map(|node| node.child.stderr());
    let lines: Vec<String> = lines.filter(|line| line.contains(fired)).collect();
    let mut occurrences: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split_once("occurrence=")?.1.split(' ').next())
        .collect();
    assert_eq!(occurrences.len(), lines.len(), "{lines:?}");
    assert!(
        lines
            .iter()
            .all(|line| line.contains("node=") && line.contains("schedule="))
    );
    occurrences.sort_unstable();
    occurrences.dedup();
    assert_eq!(occurrences.len(), lines.len(), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_json_each_line_of_the_log_is_an_object() {
    let database = TestDatabase::create().await;
    let (node, http) = start(&database, "one", &["--log", "debug", "--log-format", "json"]);
    publish(&http).await;
    walk(&http, "w", 3).await;
    let released = "Released distributed lock for workflow instance w";
    wait_until(released, async || node.child.logs(released)).await;
    let lines = node.child.stderr();
    let objects: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let registered = objects.iter().find(|line| line["message"] == "the node is registered");
    let registered = registered.unwrap();
    assert_eq!(
        (&registered["level"], &registered["node"]),
        (&json!("INFO"), &json!("one"))
    );
    assert!(registered["timestamp"].is_string());
    let in_burst = objects
        .iter()
        .find(|line| line["message"] == "a burst is committed")
        .unwrap();
    let span = &in_burst["span"];
    assert_eq!((&span["instance"], &span["definition"]), (&json!("w"), &json!("walk")));
}
