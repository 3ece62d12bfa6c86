//! A retry and a burst never overwrite each other, and a retry is made in one commit or not at all.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use mainspring::id::InstanceId;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::engine::{TestEngine, entered, gated, start_as};
use crate::support::failpoints::VARIABLES;
use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::{SingleNode, literal};
use crate::support::{Gate, Http, TIMEOUT, TestDatabase, wait_until};

const RETRY: &str = "alterations/workflows/retry";
const CONTINUE: &str = "ContinueWithIncidentsStrategy";

/// Starts the workflow `later`, which is not published yet, beside the other branch.
fn faults(strategy: &str, other: &Value) -> Value {
    json!({"definitionId": "faults", "options": {"incidentStrategyType": strategy},
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.Parallel", "id": "both", "activities": [
                other,
                {"type": "Elsa.Sequence", "id": "inner", "activities": [
                    {"type": "Elsa.DispatchWorkflow", "id": "child", "workflowDefinitionId": literal("later"),
                     "waitForCompletion": {"typeName": "Boolean", "expression": {"type": "Literal", "value": true}}},
                    {"type": "Elsa.WriteLine", "id": "after", "text": literal("after")}]}]},
            {"type": "Elsa.WriteLine", "id": "last", "text": literal("last")}]}})
}

fn line(id: &str) -> Value {
    json!({"type": "Elsa.WriteLine", "id": id, "text": literal(id)})
}

fn event(name: &str, then: &Value) -> Value {
    json!({"type": "Elsa.Sequence", "id": "other", "activities": [
        {"type": "Elsa.Event", "id": "wait", "eventName": literal(name)}, then]})
}

fn later() -> Value {
    json!({"definitionId": "later", "root": line("hello")})
}

fn of(ids: &[&str]) -> Value {
    json!({ "workflowInstanceIds": ids })
}

/// What a retry of one instance has answered: whether it is successful, whether anything is executed, and its messages.
fn only(answer: &Value) -> (bool, bool, String) {
    let [result] = answer["results"].as_array().unwrap().as_slice() else {
        panic!("{answer}");
    };
    let entries = result["log"]["logEntries"].as_array().unwrap();
    let messages: Vec<&str> = entries.iter().map(|entry| entry["message"].as_str().unwrap()).collect();
    (
        result["isSuccessful"] == true,
        result["workflowHasScheduledWork"] == true,
        messages.join("; "),
    )
}

async fn journal(http: &Http, id: &str) -> Vec<(String, String)> {
    let read = http
        .get(&format!("workflow-instances/{id}/journal?pageSize=200"))
        .await
        .expect(200);
    let entries = read["items"].as_array().unwrap().iter();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    entries
        .map(|entry| (text(entry, "activityId"), text(entry, "eventName")))
        .collect()
}

#[tokio::test]
async fn a_retried_instance_ends_as_if_it_had_not_faulted() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    for (n, strategy) in ["FaultStrategy", CONTINUE].into_iter().enumerate() {
        let id = format!("i{n}");
        let model = faults(strategy, &event("go", &line("gone")));
        http.publish(&model).await;
        http.dispatch("faults", &json!({"instanceId": id})).await;
        let sub_status = if strategy == CONTINUE { "Suspended" } else { "Faulted" };
        wait_until("the fault", async || {
            let found = http.get(&format!("workflow-instances/{id}")).await.body;
            found["subStatus"] == sub_status && found["incidentCount"] == 1
        })
        .await;
        // It faults again: the workflow is still not published.
        let (is_successful, has_work, message) = only(&http.post(RETRY, &of(&[&id])).await.expect(200));
        assert!(is_successful && has_work, "{message}");
        assert!(message.contains("child") && message.contains("attempt 2"), "{message}");
        wait_until("the next fault", async || {
            let faulted = journal(http, &id).await.into_iter();
            let faulted = faulted.filter(|(activity, event)| activity == "child" && event == "Faulted");
            faulted.count() == 2
        })
        .await;
        http.publish(&json!({"definitionId": format!("later{n}"), "root": line("hello")}))
            .await;
        http.publish(&later()).await;
        // An event that came meanwhile is kept for the branch that waited.
        http.trigger("go", &json!({})).await;
        let answer = http
            .post(RETRY, &json!({"workflowInstanceIds": [id], "activityIds": ["child"]}))
            .await;
        let (is_successful, _, message) = only(&answer.expect(200));
        assert!(is_successful && message.contains("attempt 3"), "{message}");
        http.instance_becomes(&id, "Finished").await;
        let entries = journal(http, &id).await;
        for activity in ["gone", "after", "last", "both", "inner"] {
            let ended = entries
                .iter()
                .filter(|(id, event)| id == activity && event == "Completed");
            assert_eq!(ended.count(), 1, "{activity}: {entries:?}");
        }
        assert_eq!(entries.iter().filter(|(_, event)| event == "Retried").count(), 2);
        let found = http.get(&format!("workflow-instances/{id}")).await.expect(200);
        assert_eq!(found["incidentCount"], 0);
        let (is_successful, has_work, message) = only(&http.post(RETRY, &of(&[&id])).await.expect(200));
        assert!(!is_successful && !has_work, "{message}");
        assert!(
            message.contains("has faulted") && message.contains("Finished"),
            "{message}"
        );
        http.post("workflow-definitions/later/retract", &json!({}))
            .await
            .expect(200);
        node.assert_invariants();
    }
}

#[tokio::test]
async fn nonsense_is_answered_for_each_instance_and_changes_nothing() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    http.publish(&faults(CONTINUE, &event("go", &line("gone")))).await;
    http.dispatch("faults", &json!({"instanceId": "i"})).await;
    http.instance_becomes("i", "Suspended").await;
    http.dispatch("faults", &json!({"instanceId": "c"})).await;
    http.instance_becomes("c", "Suspended").await;
    http.post("cancel/workflow-instances/c", &json!({})).await;
    http.instance_becomes("c", "Cancelled").await;
    let body = json!({"workflowInstanceIds": ["i", "none", "c", "i"], "activityIds": ["wait", "nope"]});
    let answer = http.post(RETRY, &body).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    let ids: Vec<&str> = results
        .iter()
        .map(|it| it["workflowInstanceId"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["i", "none", "c"]);
    assert!(
        results
            .iter()
            .all(|it| it["isSuccessful"] == false && it["workflowHasScheduledWork"] == false)
    );
    assert_eq!(results[0]["log"]["logEntries"].as_array().unwrap().len(), 2);
    assert_eq!(results[0]["log"]["logEntries"][0]["logLevel"], "Error");
    let many: Vec<String> = (0..100_000).map(|n| format!("i{n}")).collect();
    for body in [
        json!({}),
        json!({"workflowInstanceIds": []}),
        json!({ "workflowInstanceIds": many }),
        json!({"workflowInstanceIds": 1}),
    ] {
        http.post(RETRY, &body).await.assert_refused(400, "invalid-field");
    }
    http.post("admin/workflow-runtime/pause", &json!({})).await;
    http.post(RETRY, &of(&["i"]))
        .await
        .assert_refused(503, "runtime-paused");
    http.post("admin/workflow-runtime/resume", &json!({})).await;
    let found = http.get("workflow-instances/i").await.expect(200);
    assert_eq!(
        (&found["subStatus"], &found["incidentCount"]),
        (&json!("Suspended"), &json!(1))
    );
    node.assert_invariants();
}

#[tokio::test]
async fn a_retry_takes_the_activation_key_again_and_a_cancel_of_the_parent_reaches_it() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    let mut only_one = faults("FaultStrategy", &event("go", &line("gone")));
    only_one["options"]["activationStrategyType"] = json!("Singleton");
    http.publish(&only_one).await;
    let flag = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}});
    let parent = json!({"definitionId": "parent", "root": {"type": "Elsa.Sequence", "id": "steps", "activities": [
        {"type": "Elsa.DispatchWorkflow", "id": "start", "workflowDefinitionId": literal("faults"), "waitForCompletion": flag},
        {"type": "Elsa.Event", "id": "end", "eventName": literal("end")}]}});
    http.publish(&parent).await;
    http.dispatch("parent", &json!({"instanceId": "p"})).await;
    let children = "workflow-instances?definitionId=faults";
    wait_until("the child to fault", async || {
        http.get(children).await.body["items"][0]["subStatus"] == "Faulted"
    })
    .await;
    let child = http.get(children).await.body["items"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    wait_until("the parent to go on", async || {
        journal(http, "p")
            .await
            .contains(&("end".to_owned(), "Started".to_owned()))
    })
    .await;
    http.publish(&later()).await;
    http.dispatch("faults", &json!({"instanceId": "other"})).await;
    http.instance_becomes("other", "Suspended").await;
    let (is_successful, has_work, message) = only(&http.post(RETRY, &of(&[&child])).await.expect(200));
    assert!(
        !is_successful && !has_work && message.contains("activation strategy"),
        "{message}"
    );
    http.post("cancel/workflow-instances/other", &json!({})).await;
    http.instance_becomes("other", "Cancelled").await;
    let (is_successful, _, message) = only(&http.post(RETRY, &of(&[&child])).await.expect(200));
    assert!(is_successful, "{message}");
    http.instance_becomes(&child, "Suspended").await;
    let refused = http.post("workflow-definitions/faults/dispatch", &json!({})).await;
    refused.assert_refused(409, "cannot-start");
    node.assert_invariants();
    http.post("cancel/workflow-instances/p", &json!({})).await;
    http.instance_becomes(&child, "Cancelled").await;
    node.assert_invariants();
}

#[tokio::test]
async fn a_branch_that_waited_for_a_child_hears_of_an_end_during_the_fault() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    let flag = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}});
    http.publish(
        &json!({"definitionId": "slow", "root": {"type": "Elsa.Event", "id": "e", "eventName": literal("slow")}}),
    )
    .await;
    let other = json!({"type": "Elsa.DispatchWorkflow", "id": "other", "workflowDefinitionId": literal("slow"), "waitForCompletion": flag});
    http.publish(&faults("FaultStrategy", &other)).await;
    http.dispatch("faults", &json!({"instanceId": "i"})).await;
    http.instance_becomes("i", "Faulted").await;
    let child = http.get("workflow-instances?definitionId=slow").await.body["items"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    http.trigger("slow", &json!({})).await;
    http.instance_becomes(&child, "Finished").await;
    http.publish(&later()).await;
    let (is_successful, _, message) = only(&http.post(RETRY, &of(&["i"])).await.expect(200));
    assert!(is_successful, "{message}");
    http.instance_becomes("i", "Finished").await;
    node.assert_invariants();
}

/// An instance with a fault, whose other branch is held in its burst.
async fn held() -> (TestEngine, Arc<AtomicUsize>, Arc<Semaphore>) {
    let (test, count, permits) = gated().await;
    test.publish(faults(CONTINUE, &event("go", &json!({"type": "Gate", "id": "gate"}))))
        .await;
    test.engine.dispatch(start_as("i", "faults")).await.unwrap();
    test.reaches(&"i".into(), "Suspended").await;
    test.trigger("go", Value::Null).await;
    entered(&count, 1).await;
    (test, count, permits)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_waits_for_the_burst_that_runs() {
    let (test, count, permits) = held().await;
    test.publish(later()).await;
    let other = test.beside().await;
    let mut retries = Vec::new();
    for engine in [test.engine.clone(), other.clone()] {
        retries.push(tokio::spawn(async move {
            engine.retry_instances(vec!["i".into()], Vec::new()).await
        }));
    }
    tokio::task::yield_now().await;
    assert!(retries.iter().all(|retry| !retry.is_finished()));
    permits.add_permits(1);
    let mut done = 0;
    for retry in retries {
        let [retried] = retry.await.unwrap().unwrap().try_into().unwrap();
        done += usize::from(retried.has_retried());
    }
    assert_eq!(done, 1, "each fault is retried once");
    test.finishes(&"i".into()).await;
    entered(&count, 1).await;
    other.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_that_begins_during_a_retry_runs_on_what_it_has_made() {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let one = Node::start_with(&database, "one", &["--check-in", "200ms"], &gate.stalls(VARIABLES[0]));
    let two = Node::start(&database, "two");
    let (retrier, http) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    http.publish(&faults(CONTINUE, &event("go", &line("gone")))).await;
    http.dispatch("faults", &json!({"instanceId": "i"})).await;
    http.instance_becomes("i", "Suspended").await;
    http.publish(&later()).await;
    let retrying = tokio::spawn(async move { retrier.post(RETRY, &of(&["i"])).await });
    gate.reached().await;
    http.trigger("go", &json!({})).await;
    wait_until("a node to find the lock held", async || {
        [&one, &two]
            .iter()
            .any(|node| node.child.logs("resume already in progress for workflow i"))
    })
    .await;
    gate.open();
    let (is_successful, ..) = only(&retrying.await.unwrap().expect(200));
    assert!(is_successful);
    http.instance_becomes("i", "Finished").await;
    let entries = journal(&http, "i").await;
    for activity in ["gone", "after", "last"] {
        let ended = entries
            .iter()
            .filter(|(id, event)| id == activity && event == "Completed");
        assert_eq!(ended.count(), 1, "{activity}: {entries:?}");
    }
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_has_retried_in_one_commit_or_not_at_all() {
    let database = TestDatabase::create().await;
    let two = Node::start(&database, "two");
    let http = two.http.clone().unwrap();
    http.publish(&faults("FaultStrategy", &event("go", &line("gone"))))
        .await;
    http.publish(&later()).await;
    http.post("workflow-definitions/later/retract", &json!({}))
        .await
        .expect(200);
    for (n, point) in [VARIABLES[0], "commit.begun", "commit.written", "commit.committed"]
        .into_iter()
        .enumerate()
    {
        let id = format!("i{n}");
        http.dispatch("faults", &json!({"instanceId": id})).await;
        http.instance_becomes(&id, "Faulted").await;
        http.post("workflow-definitions/later/publish", &json!({}))
            .await
            .expect(200);
        // Without workers: no other commit passes the point.
        let mut one = Node::start_armed_with(&database, "one", &["--workers", "0"], &format!("{point}=abort")).await;
        let target = one.http.clone().unwrap();
        let body = of(&[&id]);
        assert!(
            target
                .send(reqwest::Method::POST, RETRY, &[], Some(&body))
                .await
                .is_err()
        );
        one.child.wait(TIMEOUT);
        // Either it goes on, or it is as it was, and can be retried once its lock is free.
        wait_until("the instance to go on", async || {
            let retried = journal(&http, &id)
                .await
                .into_iter()
                .filter(|(_, event)| event == "Retried")
                .count();
            assert!(retried <= 1, "{point}");
            retried == 1 || only(&http.post(RETRY, &of(&[&id])).await.expect(200)).1
        })
        .await;
        http.instance_becomes(&id, "Suspended").await;
        http.trigger("go", &json!({})).await;
        http.instance_becomes(&id, "Finished").await;
        let entries = journal(&http, &id).await;
        assert_eq!(
            entries.iter().filter(|(_, event)| event == "Retried").count(),
            1,
            "{point}"
        );
        http.post("workflow-definitions/later/retract", &json!({}))
            .await
            .expect(200);
    }
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_instances_are_retried_at_once() {
    let test = TestEngine::new().await;
    test.publish(faults("FaultStrategy", &line("other"))).await;
    let ids: Vec<InstanceId> = (0..1_000).map(|n| format!("i{n}").as_str().into()).collect();
    for id in &ids {
        test.engine.dispatch(start_as(id.as_str(), "faults")).await.unwrap();
    }
    for id in &ids {
        test.reaches(id, "Faulted").await;
    }
    test.publish(later()).await;
    let retried = test.engine.retry_instances(ids.clone(), Vec::new()).await.unwrap();
    assert_eq!(retried.len(), ids.len());
    for (retried, id) in retried.iter().zip(&ids) {
        assert!(retried.instance_id == *id && retried.has_retried(), "{retried:?}");
    }
    for id in &ids {
        test.finishes(id).await;
    }
    test.assert_clean_end().await;
}
