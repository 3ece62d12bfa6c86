//! Children: each wakes its parent once, whichever node dies, and however it ends.

use std::time::Duration;

use mainspring::runtime::{InstanceFilter, Page};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::engine::{TestEngine, start, start_as};
use crate::support::failpoints::FAMILY;
use crate::support::node::{NAMES, Node, assert_invariants, send_until_answered, start_three};
use crate::support::single_node::literal;
use crate::support::{Connection, Http, LONG_TIMEOUT, TIMEOUT, TestDatabase, long, poll_until};

fn javascript(kind: &str, value: &str) -> Value {
    json!({"typeName": kind, "expression": {"type": "JavaScript", "value": value}})
}

fn line(id: &str) -> Value {
    json!({"type": "Elsa.WriteLine", "id": id, "text": id})
}

fn waits() -> Value {
    json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}})
}

fn workflow(id: &str, activities: Value) -> Value {
    json!({"definitionId": id, "root": {"type": "Elsa.Sequence", "id": "root", "activities": activities}})
}

/// One line.
fn child() -> Value {
    workflow("child", json!([line("work")]))
}

/// Waits for the event `Go`.
fn waiting_child() -> Value {
    workflow(
        "child",
        json!([{"type": "Elsa.Event", "id": "gate", "eventName": literal("Go")}, line("work")]),
    )
}

/// Starts so many children, counts them at the port, and says so at the end.
fn parent(count: usize) -> Value {
    let counts = |id: &str, name: &str| {
        json!({"type": "Elsa.SetVariable", "id": id, "variable": {"id": name, "name": name, "typeName": "Int32"},
            "value": javascript("Int32", &format!("get{name}() + 1"))})
    };
    let items = format!("Array.from({{length: {count}}}, (_, n) => n)");
    let variable = |name: &str| json!({"id": name, "name": name, "typeName": "Int32", "value": "0"});
    json!({"definitionId": "parent", "variables": [variable("Done"), variable("Failed")],
        "outputs": [{"name": "Counts", "type": "String"}],
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.BulkDispatchWorkflows", "id": "all", "workflowDefinitionId": literal("child"),
             "items": javascript("Object", &items),
             "childCompleted": counts("completed", "Done"), "childFaulted": counts("faulted", "Failed")},
            {"type": "Elsa.SetOutput", "id": "say", "outputName": literal("Counts"),
             "outputValue": javascript("String", "getDone() + ' and ' + getFailed()")},
            line("end")]}})
}

/// Dispatches one child, and waits for it.
fn single_parent() -> Value {
    workflow(
        "parent",
        json!([{"type": "Elsa.DispatchWorkflow", "id": "one", "workflowDefinitionId": literal("child"), "waitForCompletion": waits()}, line("end")]),
    )
}

async fn completed(client: &Connection, activity: &str) -> i64 {
    let query = "SELECT count(*) FROM mainspring.journal WHERE activity_id = $1 AND event_name = 'Completed'";
    client.query_one(query, &[&activity]).await.unwrap().get(0)
}

async fn until_completed(client: &Connection, activity: &str, count: i64) {
    poll_until(LONG_TIMEOUT * 2, activity, async || {
        (completed(client, activity).await >= count).then_some(())
    })
    .await;
}

/// Each child ran once, and so did its port.
async fn assert_each_once(database: &TestDatabase, client: &Connection, children: i64, parents: i64) {
    until_completed(client, "end", parents).await;
    assert_eq!(completed(client, "work").await, children);
    assert_eq!(completed(client, "end").await, parents);
    let unfinished = "SELECT count(*) FROM mainspring.instance WHERE status = 0";
    assert_eq!(client.count(unfinished).await, 0);
    assert_eq!(client.count("SELECT count(*) FROM mainspring.child").await, 0);
    assert_invariants(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_goes_on_after_a_kill_at_each_point() {
    // The first pass is the burst that starts the children, the later ones end them or continue with the parent. A short run
    // has each point once.
    let all = FAMILY
        .into_iter()
        .flat_map(|point| [(point, 1), (point, 3)])
        .enumerate();
    for (_, (point, pass)) in all.filter(|(number, _)| long() || matches!(number % 4, 0 | 3)) {
        let database = TestDatabase::create().await;
        let client = database.connect().await;
        let two = Node::start_with(&database, "two", &["--check-in", "200ms", "--workers", "0"], "");
        let http = two.http.clone().unwrap();
        http.publish(&child()).await;
        http.publish(&parent(3)).await;
        let mut one = Node::start_armed(&database, "one", &format!("{point}=abort@{pass}")).await;
        let started = json!({"instanceId": "p"});
        send_until_answered("workflow-definitions/parent/dispatch", "p", &started, &mut || {
            Some(http.clone())
        })
        .await;
        poll_until(TIMEOUT, "the armed node to die or the parent to end", async || {
            (one.child.has_ended() || completed(&client, "end").await > 0).then_some(())
        })
        .await;
        let _three = Node::start_with(&database, "three", &["--check-in", "200ms"], "");
        assert_each_once(&database, &client, 3, 1).await;
        assert_eq!(completed(&client, "completed").await, 3, "{point} {pass}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_children_wake_their_parent_while_nodes_are_killed() {
    let count: i64 = if long() { 10_000 } else { 1_500 };
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let mut nodes = start_three(&database, &[]);
    let http = nodes[2].http.clone().unwrap();
    http.publish(&child()).await;
    http.publish(&parent(usize::try_from(count).unwrap())).await;
    http.dispatch("parent", &json!({"instanceId": "p"})).await;
    for after in [count / 5, count / 2] {
        until_completed(&client, "completed", after).await;
        // The node that runs the parent: it has claimed the ends of its children.
        let holder = "SELECT n.node_id FROM mainspring.work w JOIN mainspring.node n ON n.incarnation = w.claimed_by
                      WHERE w.instance_id = 'p' LIMIT 1";
        let running = poll_until(TIMEOUT, "a node to run the parent", async || {
            let row = client.query_opt(holder, &[]).await.unwrap();
            let found = row.and_then(|row| NAMES.iter().position(|name| *name == row.get::<_, &str>(0)));
            if let Some(found) = found {
                return (!nodes[found].child.has_ended()).then_some(found);
            }
            // On a busy machine the parent may end between two reads.
            let is_over = completed(&client, "completed").await == count;
            is_over.then(|| nodes.iter_mut().position(|node| !node.child.has_ended()))?
        })
        .await;
        nodes[running].child.kill9();
    }
    let left: Vec<usize> = (0..nodes.len()).filter(|n| !nodes[*n].child.has_ended()).collect();
    assert_eq!(left.len(), 1, "both kills met a living node");
    assert_each_once(&database, &client, count, 1).await;
    assert_eq!(completed(&client, "completed").await, count);
    let http = nodes[left[0]].http.as_ref().unwrap();
    let path = "workflow-instances?parentWorkflowInstanceIds=p&pageSize=1";
    let listed = http.get(path).await.expect(200);
    assert_eq!(listed["totalCount"], count);
    assert_eq!(listed["items"][0]["parentWorkflowInstanceId"], "p");
    let detail = http.get("workflow-instances/p").await.expect(200);
    assert_eq!(detail["workflowState"]["output"]["Counts"], format!("{count} and 0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parents_whose_children_are_resumed_at_once_all_end() {
    let count = if long() { 1_000 } else { 150 };
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let nodes = start_three(&database, &[]);
    let http: Vec<Http> = nodes.iter().map(|node| node.http.clone().unwrap()).collect();
    http[0].publish(&waiting_child()).await;
    http[0].publish(&single_parent()).await;
    for n in 0..count {
        http[n % 3].dispatch("parent", &json!({})).await;
    }
    let gates = "SELECT count(*) FROM mainspring.bookmark WHERE name = 'Elsa.Event'";
    let count = i64::try_from(count).unwrap();
    poll_until(LONG_TIMEOUT, "all children to wait", async || {
        (client.count(gates).await == count).then_some(())
    })
    .await;
    // Each child by an event of its own, all at once, from all nodes.
    let waiting = "SELECT instance_id FROM mainspring.bookmark WHERE name = 'Elsa.Event'";
    let mut events = JoinSet::new();
    for (n, row) in client.query(waiting, &[]).await.unwrap().iter().enumerate() {
        let (node, body) = (
            http[n % 3].clone(),
            json!({"workflowInstanceId": row.get::<_, &str>(0)}),
        );
        events.spawn(async move { node.trigger("Go", &body).await });
    }
    while let Some(sent) = events.join_next().await {
        sent.unwrap();
    }
    assert_each_once(&database, &client, count, count).await;
}

/// Children that wait, of a parent that counts how they end.
async fn family(count: usize) -> (TestEngine, Vec<mainspring::id::InstanceId>) {
    let test = TestEngine::new().await;
    test.publish(waiting_child()).await;
    test.publish(parent(count)).await;
    test.engine.dispatch(start_as("p", "parent")).await.unwrap();
    let filter = InstanceFilter {
        parent_ids: vec!["p".into()],
        ..InstanceFilter::default()
    };
    let children = poll_until(TIMEOUT, "the children to wait", async || {
        let page = Page {
            page_size: 1000,
            ..Page::default()
        };
        let listed = test.engine.instances(&filter, page).await.unwrap();
        let all_wait = listed.items.iter().all(|item| item.sub_status == "Suspended");
        (all_wait && listed.items.len() == count).then_some(listed.items)
    })
    .await;
    assert!(
        children
            .iter()
            .all(|item| item.parent_workflow_instance_id == Some("p".into()))
    );
    (test, children.into_iter().map(|item| item.id).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_goes_on_by_its_ports_however_its_children_end() {
    let (test, children) = family(4).await;
    assert!(test.engine.delete(&children[0]).await.unwrap());
    assert!(test.engine.cancel(&children[1]).await.unwrap());
    // As a commit leaves it that failed nineteen times, whose burst is refused once more.
    let client = test.database.connect().await;
    let refuses = format!(
        "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, failures)
             VALUES ('', '{}', 1, '{{\"bookmarkId\": 7}}', 19)",
        children[2]
    );
    client.run(&refuses).await;
    test.engine
        .trigger_event(crate::support::engine::event("Go", json!({})))
        .await
        .unwrap();
    let state = test.finishes(&"p".into()).await;
    // A deleted, a cancelled and a dead-lettered one go by the port of faults.
    assert_eq!(state["output"]["Counts"], "1 and 3");
    let given_up = client.count("SELECT count(*) FROM mainspring.dead_letter").await;
    assert!(given_up > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_parent_leaves_no_living_child() {
    let (test, children) = family(20).await;
    assert!(test.engine.cancel(&"p".into()).await.unwrap());
    for child in &children {
        let state = test.reaches(child, "Cancelled").await;
        assert_eq!(state["parentWorkflowInstanceId"], "p");
    }
    test.reaches(&"p".into(), "Cancelled").await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executed_workflow_gives_its_result_and_a_missing_one_is_an_incident() {
    let test = TestEngine::new().await;
    let greets =
        json!([{"type": "Elsa.SetOutput", "id": "say", "outputName": literal("Word"), "outputValue": literal("hi")}]);
    let mut child = workflow("child", greets);
    child["outputs"] = json!([{"name": "Word", "type": "String"}]);
    test.publish(child).await;
    let mut outer = workflow(
        "outer",
        json!([
            {"type": "Elsa.ExecuteWorkflow", "id": "run", "workflowDefinitionId": javascript("String", "getInput('child')"),
             "result": {"typeName": "Object", "memoryReference": {"id": "r"}}},
            {"type": "Elsa.SetOutput", "id": "say", "outputName": literal("Word"), "outputValue": javascript("Object", "getR()")}]),
    );
    outer["variables"] = json!([{"id": "r", "name": "R", "typeName": "Object"}]);
    outer["outputs"] = json!([{"name": "Word", "type": "Object"}]);
    test.publish(outer).await;
    let mut request = start("outer");
    request.input.insert("child".to_owned(), "child".into());
    let id = test.engine.dispatch(request).await.unwrap();
    let state = test.finishes(&id).await;
    assert_eq!(state["output"]["Word"]["output"]["Word"], "hi");
    assert_eq!(state["output"]["Word"]["subStatus"], "Finished");
    let mut request = start("outer");
    request.input.insert("child".to_owned(), "nothing".into());
    let id = test.engine.dispatch(request).await.unwrap();
    let state = test.reaches(&id, "Faulted").await;
    let incident = &state["incidents"][0];
    assert_eq!(incident["activityId"], "run");
    let message = incident["message"].as_str().unwrap();
    assert!(
        message.contains("WorkflowDefinitionId") && message.contains("publish"),
        "{message}"
    );
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_child_outlives_the_deletion_of_its_definition() {
    let (test, _) = family(2).await;
    let client = test.database.connect().await;
    assert_eq!(test.engine.delete_definition(&"child".into()).await.unwrap(), 1);
    test.engine
        .trigger_event(crate::support::engine::event("Go", json!({})))
        .await
        .unwrap();
    let state = test.finishes(&"p".into()).await;
    assert_eq!(state["output"]["Counts"], "2 and 0");
    assert_eq!(client.count("SELECT count(*) FROM mainspring.child").await, 0);
    tokio::time::timeout(Duration::from_secs(60), test.assert_clean_end())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_is_deleted_between_two_waves_is_an_incident() {
    let test = TestEngine::new().await;
    let client = test.database.connect().await;
    // The second wave follows by a timer that is due at once: here in an hour, until the definition is deleted.
    client
        .run(
            "CREATE FUNCTION mainspring.later() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN NEW.available_at := now() + interval ''1 hour''; RETURN NEW; END';
             CREATE TRIGGER later BEFORE INSERT ON mainspring.timer FOR EACH ROW EXECUTE FUNCTION mainspring.later()",
        )
        .await;
    test.publish(child()).await;
    test.publish(parent(1_500)).await;
    test.engine.dispatch(start_as("p", "parent")).await.unwrap();
    poll_until(LONG_TIMEOUT, "the first wave to end", async || {
        let first = client
            .rows("journal WHERE activity_id = 'work' AND event_name = 'Completed'")
            .await
            == 1_000;
        (first && client.rows("timer WHERE instance_id = 'p'").await == 1).then_some(())
    })
    .await;
    assert_eq!(test.engine.delete_definition(&"child".into()).await.unwrap(), 1);
    client.run("UPDATE mainspring.timer SET available_at = now()").await;
    let state = test.reaches(&"p".into(), "Faulted").await;
    let incident = &state["incidents"][0];
    assert_eq!(incident["activityId"], "all");
    let message = incident["message"].as_str().unwrap();
    assert!(
        message.contains("WorkflowDefinitionId") && message.contains("publish"),
        "{message}"
    );
    assert_eq!(completed(&client, "work").await, 1_000);
    test.assert_clean_end().await;
}
