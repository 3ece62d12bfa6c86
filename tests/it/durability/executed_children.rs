//! Children that run in the burst of their parent: each once, whenever the process dies, and none outlives a cancel.

use serde_json::{Value, json};

use crate::support::engine::{TestEngine, start, start_as};
use crate::support::failpoints::EXECUTED;
use crate::support::node::{Node, assert_invariants, send_until_answered};
use crate::support::single_node::literal;
use crate::support::{Connection, Gate, LONG_TIMEOUT, TIMEOUT, TestDatabase, long, poll_until};

const NODE: [&str; 2] = ["--check-in", "200ms"];

fn line(id: &str) -> Value {
    json!({"type": "Elsa.WriteLine", "id": id, "text": id})
}

fn workflow(id: &str, activities: Value) -> Value {
    json!({"definitionId": id, "root": {"type": "Elsa.Sequence", "id": "root", "activities": activities}})
}

fn executes(child: &str, waits: bool) -> Value {
    let waits = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": waits}});
    json!({"type": "Elsa.ExecuteWorkflow", "id": "run", "workflowDefinitionId": literal(child), "waitForCompletion": waits})
}

fn gate() -> Value {
    json!({"type": "Elsa.Event", "id": "gate", "eventName": literal("Go")})
}

/// Executes the workflow `child` three times, one after another.
fn parent(waits: bool) -> Value {
    let items = json!({"typeName": "Object", "expression": {"type": "Literal", "value": [1, 2, 3]}});
    let each = json!({"type": "Elsa.ForEach", "id": "each", "items": items, "body": executes("child", waits)});
    workflow("parent", json!([each, line("end")]))
}

async fn completed(client: &Connection, activity: &str) -> i64 {
    let query = "SELECT count(*) FROM mainspring.journal WHERE activity_id = $1 AND event_name = 'Completed'";
    client.query_one(query, &[&activity]).await.unwrap().get(0)
}

async fn ends_with(database: &TestDatabase, client: &Connection, children: i64) {
    poll_until(LONG_TIMEOUT, "the parent to end", async || {
        (completed(client, "end").await > 0).then_some(())
    })
    .await;
    assert_eq!(completed(client, "work").await, children);
    assert_eq!(completed(client, "end").await, 1);
    assert_eq!(
        client
            .count("SELECT count(*) FROM mainspring.instance WHERE parent_instance_id = 'p'")
            .await,
        children
    );
    assert_eq!(client.count("SELECT count(*) FROM mainspring.child").await, 0);
    assert_eq!(
        client
            .count("SELECT count(*) FROM mainspring.instance WHERE status = 0")
            .await,
        0
    );
    assert_invariants(database).await;
}

/// Each point in the burst of the parent, with the first child and after one; a connection that is lost at a commit is in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_child_runs_once_after_a_failure_at_each_point() {
    // A short run has each point once.
    let kills = EXECUTED
        .iter()
        .flat_map(|point| [format!("{point}=abort"), format!("{point}=abort@2")])
        .enumerate()
        .filter(|(number, _)| long() || matches!(number % 4, 0 | 3))
        .map(|(_, kill)| kill);
    let cuts = ["commit.committed=cut", "commit.committed=cut@2"].map(str::to_owned);
    for failure in kills.chain(cuts) {
        let database = TestDatabase::create().await;
        let client = database.connect().await;
        let two = Node::start_with(&database, "two", &[NODE[0], NODE[1], "--workers", "0"], "");
        let http = two.http.clone().unwrap();
        http.publish(&workflow("child", json!([line("work")]))).await;
        http.publish(&parent(true)).await;
        let mut one = Node::start_armed(&database, "one", &failure).await;
        let started = json!({"instanceId": "p"});
        send_until_answered("workflow-definitions/parent/dispatch", "p", &started, &mut || {
            Some(http.clone())
        })
        .await;
        poll_until(TIMEOUT, "the armed node to die or the parent to end", async || {
            (one.child.has_ended() || completed(&client, "end").await > 0).then_some(())
        })
        .await;
        let _three = Node::start_with(&database, "three", &NODE, "");
        ends_with(&database, &client, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_waits_wakes_its_parent_once_though_the_process_died_between_their_commits() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let two = Node::start_with(&database, "two", &[NODE[0], NODE[1], "--workers", "0"], "");
    let http = two.http.clone().unwrap();
    http.publish(&workflow("child", json!([gate(), line("work")]))).await;
    http.publish(&workflow("parent", json!([executes("child", true), line("end")])))
        .await;
    let mut one = Node::start_armed(&database, "one", "child.committed=abort").await;
    http.dispatch("parent", &json!({"instanceId": "p"})).await;
    poll_until(TIMEOUT, "the armed node to die", async || {
        one.child.has_ended().then_some(())
    })
    .await;
    // The child may end before its parent is committed, which then wakes itself.
    http.trigger("Go", &json!({})).await;
    let _three = Node::start_with(&database, "three", &NODE, "");
    ends_with(&database, &client, 1).await;
}

/// A cancel of the parent while its child runs, and after the commit of the child: no child lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_of_the_parent_reaches_a_child_in_its_burst() {
    for (point, children) in [("child.running", 0), ("child.committed", 1)] {
        let database = TestDatabase::create().await;
        let client = database.connect().await;
        let two = Node::start_with(&database, "two", &[NODE[0], NODE[1], "--workers", "0"], "");
        let http = two.http.clone().unwrap();
        http.publish(&workflow("child", json!([gate(), line("work")]))).await;
        http.publish(&workflow("parent", json!([executes("child", true), line("end")])))
            .await;
        let stall = Gate::new();
        let _one = Node::start_armed(&database, "one", &stall.stalls(point)).await;
        http.dispatch("parent", &json!({"instanceId": "p"})).await;
        stall.reached().await;
        let cancel = tokio::spawn({
            let http = http.clone();
            async move { http.post("cancel/workflow-instances/p", &json!({})).await }
        });
        poll_until(TIMEOUT, "the cancel to be accepted", async || {
            let accepted = "SELECT count(*) FROM mainspring.work WHERE kind = 3";
            let ended = "SELECT count(*) FROM mainspring.instance WHERE id = 'p' AND sub_status = 4";
            (client.count(accepted).await + client.count(ended).await > 0).then_some(())
        })
        .await;
        stall.open();
        cancel.await.unwrap();
        http.instance_becomes("p", "Cancelled").await;
        poll_until(TIMEOUT, "the children to end", async || {
            let living = "SELECT count(*) FROM mainspring.child";
            (client.count(living).await == 0).then_some(())
        })
        .await;
        let cancelled = "SELECT count(*) FROM mainspring.instance WHERE parent_instance_id = 'p' AND sub_status = 4";
        assert_eq!(client.count(cancelled).await, children, "{point}");
        assert_invariants(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_that_executes_itself_ends_with_an_incident_at_the_32nd_level() {
    let test = TestEngine::new().await;
    test.publish(workflow("itself", json!([executes("itself", true), line("end")])))
        .await;
    let executed = test.engine.execute(start("itself")).await.unwrap();
    assert_eq!(executed.sub_status(), Some("Finished"));
    let client = test.database.connect().await;
    assert_eq!(client.count("SELECT count(*) FROM mainspring.instance").await, 33);
    let faulted = "SELECT count(*) FROM mainspring.instance WHERE incident_count > 0";
    assert_eq!(client.count(faulted).await, 1);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_leave_the_burst_when_they_wait_and_at_every_level() {
    let test = TestEngine::new().await;
    test.publish(workflow("child", json!([gate(), line("work")]))).await;
    test.publish(workflow("middle", json!([executes("child", true), line("after")])))
        .await;
    test.publish(workflow("parent", json!([executes("middle", true), line("end")])))
        .await;
    test.engine.dispatch(start_as("p", "parent")).await.unwrap();
    test.reaches(&"p".into(), "Suspended").await;
    let client = test.database.connect().await;
    let waited_for = "SELECT count(*) FROM mainspring.child WHERE bookmark_id IS NOT NULL";
    assert_eq!(client.count(waited_for).await, 2);
    test.trigger("Go", json!({})).await;
    test.finishes(&"p".into()).await;
    assert_eq!(client.count("SELECT count(*) FROM mainspring.child").await, 0);
    // A child that yields is waited for until it rests.
    let lines: Vec<Value> = (0..1200).map(|n| line(&format!("l{n}"))).collect();
    test.publish(workflow("child", lines.into())).await;
    test.publish(workflow("parent", json!([executes("child", false), line("end")])))
        .await;
    test.engine.dispatch(start_as("q", "parent")).await.unwrap();
    test.finishes(&"q".into()).await;
    let ended = "SELECT count(*) FROM mainspring.instance WHERE parent_instance_id = 'q' AND sub_status = 3";
    assert_eq!(client.count(ended).await, 1);
    test.assert_clean_end().await;
}
