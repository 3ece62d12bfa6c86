//! A cancel wins over everything that was accepted before it, however much that is.

use mainspring::Engine;
use mainspring::id::InstanceId;
use mainspring::runtime::{ResumeRequest, StartRequest};
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, event, start};
use crate::support::{TIMEOUT, TestDatabase, poll_until};

/// What every iteration of the loop leaves in the journal.
const EFFECTS: &str = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'effect'";

/// A node without workers, and a workflow that has an effect with each event.
async fn idle() -> TestEngine {
    let database = TestDatabase::create().await;
    let engine = Engine::builder(database.url()).node_id("idle").workers(0);
    let engine = engine.start().await.unwrap();
    let test = TestEngine { database, engine };
    let text = |value: &str| json!({"typeName": "String", "expression": {"type": "Literal", "value": value}});
    let forever = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}});
    let turn = json!({"type": "Elsa.Sequence", "id": "turn", "activities": [
        {"type": "Elsa.Event", "id": "wait", "eventName": text("go")},
        {"type": "Elsa.WriteLine", "id": "effect", "text": text("effect")}
    ]});
    let root = json!({"type": "Elsa.While", "id": "loop", "condition": forever, "body": turn});
    test.publish(json!({"definitionId": "loop", "root": root})).await;
    test
}

async fn worker(test: &TestEngine) -> Engine {
    let engine = Engine::builder(test.database.url()).node_id("worker");
    engine.start().await.unwrap()
}

async fn dispatch(test: &TestEngine) {
    let request = StartRequest {
        instance_id: Some("i".into()),
        ..start("loop")
    };
    test.engine.dispatch(request).await.unwrap();
}

/// An instance that waits for its event, and no node that runs anything.
async fn waiting(test: &TestEngine) {
    let worker = worker(test).await;
    dispatch(test).await;
    test.reaches(&"i".into(), "Suspended").await;
    worker.shutdown().await;
}

async fn count(test: &TestEngine, sql: &str) -> i64 {
    test.database.connect().await.query_one(sql, &[]).await.unwrap().get(0)
}

async fn accepted(test: &TestEngine, rows: i64) {
    poll_until(TIMEOUT, "the rows to be accepted", async || {
        (count(test, "SELECT count(*) FROM mainspring.work").await == rows).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_wins_over_thousands_of_rows_before_it() {
    let test = idle().await;
    waiting(&test).await;
    let id = InstanceId::from("i");
    let fanout = test.engine.trigger_event(event("go", Value::Null)).await.unwrap();
    assert_eq!(fanout.resumed, 1);
    // As 2,499 more publishes leave them.
    let more = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body)
                SELECT tenant_id, instance_id, kind, body FROM mainspring.work, generate_series(2, 2500)";
    let client = test.database.connect().await;
    assert_eq!(client.execute(more, &[]).await.unwrap(), 2499);
    let resume = {
        let (engine, request) = (
            test.engine.clone(),
            ResumeRequest {
                instance_id: id.clone(),
                ..ResumeRequest::default()
            },
        );
        tokio::spawn(async move { engine.resume(request).await })
    };
    accepted(&test, 2501).await;
    let cancel = {
        let (engine, id) = (test.engine.clone(), id.clone());
        tokio::spawn(async move { engine.cancel(&id).await })
    };
    accepted(&test, 2502).await;
    let worker = worker(&test).await;
    assert!(cancel.await.unwrap().unwrap());
    let refused = resume.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), "already-resumed");
    accepted(&test, 0).await;
    test.reaches(&id, "Cancelled").await;
    assert_eq!(count(&test, EFFECTS).await, 0, "side effects after the cancel");
    // Only the resume has a caller; events that matched nothing are not kept for an ended instance.
    let notes = "SELECT count(*) FROM mainspring.unmatched_work";
    assert_eq!(count(&test, notes).await, 1);
    assert_eq!(count(&test, "SELECT count(*) FROM mainspring.inbox").await, 0);
    worker.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_in_the_same_process_learns_that_its_resume_matched_nothing() {
    let test = idle().await;
    waiting(&test).await;
    let id = InstanceId::from("i");
    test.engine.trigger_event(event("go", Value::Null)).await.unwrap();
    let more = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, available_at)
                SELECT tenant_id, instance_id, kind, body, now() + interval '1 hour'
                FROM mainspring.work, generate_series(1, 150)";
    let client = test.database.connect().await;
    client.execute(more, &[]).await.unwrap();
    // A node that claims nothing, as its only row is not due, and accepts all the same.
    let later = "UPDATE mainspring.work SET available_at = now() + interval '1 hour'";
    client.execute(later, &[]).await.unwrap();
    let worker = worker(&test).await;
    let waits = {
        let request = ResumeRequest {
            instance_id: id.clone(),
            ..ResumeRequest::default()
        };
        let gate = test.database.connect().await;
        // Holds the lock of the row, so that no claim gets it.
        gate.batch_execute("BEGIN; LOCK TABLE mainspring.timer IN SHARE ROW EXCLUSIVE MODE")
            .await
            .unwrap();
        let engine = worker.clone();
        let waits = tokio::spawn(async move { engine.resume(request).await });
        accepted(&test, 152).await;
        client.execute(later, &[]).await.unwrap();
        gate.batch_execute("ROLLBACK").await.unwrap();
        waits
    };
    assert!(worker.cancel(&id).await.unwrap());
    assert_eq!(waits.await.unwrap().unwrap_err().code(), "already-resumed");
    accepted(&test, 0).await;
    assert_eq!(count(&test, EFFECTS).await, 0);
    worker.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_includes_a_start_that_two_processes_died_with() {
    let test = idle().await;
    let id = InstanceId::from("i");
    dispatch(&test).await;
    let client = test.database.connect().await;
    let suspect = "UPDATE mainspring.work SET crashes = 2";
    assert_eq!(client.execute(suspect, &[]).await.unwrap(), 1);
    let cancel = {
        let (engine, id) = (test.engine.clone(), id.clone());
        tokio::spawn(async move { engine.cancel(&id).await })
    };
    accepted(&test, 2).await;
    let worker = worker(&test).await;
    assert!(cancel.await.unwrap().unwrap());
    test.reaches(&id, "Cancelled").await;
    let ran = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'wait'";
    assert_eq!(count(&test, ran).await, 0, "it has begun");
    worker.shutdown().await;
    test.assert_clean_end().await;
}
