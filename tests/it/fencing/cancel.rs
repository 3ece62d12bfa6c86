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
    let bench = TestEngine { database, engine };
    let text = |value: &str| json!({"typeName": "String", "expression": {"type": "Literal", "value": value}});
    let forever = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}});
    let turn = json!({"type": "Elsa.Sequence", "id": "turn", "activities": [
        {"type": "Elsa.Event", "id": "wait", "eventName": text("go")},
        {"type": "Elsa.WriteLine", "id": "effect", "text": text("effect")}
    ]});
    let root = json!({"type": "Elsa.While", "id": "loop", "condition": forever, "body": turn});
    bench.publish(json!({"definitionId": "loop", "root": root})).await;
    bench
}

async fn worker(bench: &TestEngine) -> Engine {
    let engine = Engine::builder(bench.database.url()).node_id("worker");
    engine.start().await.unwrap()
}

async fn dispatch(bench: &TestEngine) {
    let request = StartRequest {
        instance_id: Some("i".into()),
        ..start("loop")
    };
    bench.engine.dispatch(request).await.unwrap();
}

/// An instance that waits for its event, and no node that runs anything.
async fn waiting(bench: &TestEngine) {
    let worker = worker(bench).await;
    dispatch(bench).await;
    bench.reaches(&"i".into(), "Suspended").await;
    worker.shutdown().await;
}

async fn count(bench: &TestEngine, sql: &str) -> i64 {
    bench.database.connect().await.query_one(sql, &[]).await.unwrap().get(0)
}

async fn accepted(bench: &TestEngine, rows: i64) {
    poll_until(TIMEOUT, "the rows to be accepted", async || {
        (count(bench, "SELECT count(*) FROM mainspring.work").await == rows).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_wins_over_thousands_of_rows_before_it() {
    let bench = idle().await;
    waiting(&bench).await;
    let id = InstanceId::from("i");
    let fanout = bench.engine.trigger_event(event("go", Value::Null)).await.unwrap();
    assert_eq!(fanout.resumed, 1);
    // As 2,499 more publishes leave them.
    let more = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body)
                SELECT tenant_id, instance_id, kind, body FROM mainspring.work, generate_series(2, 2500)";
    let client = bench.database.connect().await;
    assert_eq!(client.execute(more, &[]).await.unwrap(), 2499);
    let resume = {
        let (engine, request) = (
            bench.engine.clone(),
            ResumeRequest {
                instance_id: id.clone(),
                ..ResumeRequest::default()
            },
        );
        tokio::spawn(async move { engine.resume(request).await })
    };
    accepted(&bench, 2501).await;
    let cancel = {
        let (engine, id) = (bench.engine.clone(), id.clone());
        tokio::spawn(async move { engine.cancel(&id).await })
    };
    accepted(&bench, 2502).await;
    let worker = worker(&bench).await;
    assert!(cancel.await.unwrap().unwrap());
    let refused = resume.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), "already-resumed");
    accepted(&bench, 0).await;
    bench.reaches(&id, "Cancelled").await;
    assert_eq!(count(&bench, EFFECTS).await, 0, "side effects after the cancel");
    // Only the resume has a caller; events that matched nothing are not kept for an ended instance.
    let notes = "SELECT count(*) FROM mainspring.unmatched_work";
    assert_eq!(count(&bench, notes).await, 1);
    assert_eq!(count(&bench, "SELECT count(*) FROM mainspring.inbox").await, 0);
    worker.shutdown().await;
    bench.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_in_the_same_process_learns_that_its_resume_matched_nothing() {
    let bench = idle().await;
    waiting(&bench).await;
    let id = InstanceId::from("i");
    bench.engine.trigger_event(event("go", Value::Null)).await.unwrap();
    let more = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, available_at)
                SELECT tenant_id, instance_id, kind, body, now() + interval '1 hour'
                FROM mainspring.work, generate_series(1, 150)";
    let client = bench.database.connect().await;
    client.execute(more, &[]).await.unwrap();
    // A node that claims nothing, as its only row is not due, and accepts all the same.
    let later = "UPDATE mainspring.work SET available_at = now() + interval '1 hour'";
    client.execute(later, &[]).await.unwrap();
    let worker = worker(&bench).await;
    let waits = {
        let request = ResumeRequest {
            instance_id: id.clone(),
            ..ResumeRequest::default()
        };
        let gate = bench.database.connect().await;
        // Holds the lock of the row, so that no claim gets it.
        gate.batch_execute("BEGIN; LOCK TABLE mainspring.timer IN SHARE ROW EXCLUSIVE MODE")
            .await
            .unwrap();
        let engine = worker.clone();
        let waits = tokio::spawn(async move { engine.resume(request).await });
        accepted(&bench, 152).await;
        client.execute(later, &[]).await.unwrap();
        gate.batch_execute("ROLLBACK").await.unwrap();
        waits
    };
    assert!(worker.cancel(&id).await.unwrap());
    assert_eq!(waits.await.unwrap().unwrap_err().code(), "already-resumed");
    accepted(&bench, 0).await;
    assert_eq!(count(&bench, EFFECTS).await, 0);
    worker.shutdown().await;
    bench.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_includes_a_start_that_two_processes_died_with() {
    let bench = idle().await;
    let id = InstanceId::from("i");
    dispatch(&bench).await;
    let client = bench.database.connect().await;
    let suspect = "UPDATE mainspring.work SET crashes = 2";
    assert_eq!(client.execute(suspect, &[]).await.unwrap(), 1);
    let cancel = {
        let (engine, id) = (bench.engine.clone(), id.clone());
        tokio::spawn(async move { engine.cancel(&id).await })
    };
    accepted(&bench, 2).await;
    let worker = worker(&bench).await;
    assert!(cancel.await.unwrap().unwrap());
    bench.reaches(&id, "Cancelled").await;
    let ran = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'wait'";
    assert_eq!(count(&bench, ran).await, 0, "it has begun");
    worker.shutdown().await;
    bench.ends_well().await;
}
