//! A cancel wins over everything that was accepted before it, and an isolated row runs, however much waits.

use mainspring::id::InstanceId;
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, resume_of, start_as};
use crate::support::single_node::literal;
use crate::support::wait_until;

/// What every iteration of the loop leaves in the journal.
const EFFECTS: &str = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'effect'";

/// A node without workers, and a workflow that has an effect with each event.
async fn idle() -> TestEngine {
    let test = TestEngine::idle().await;
    let forever = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}});
    let turn = json!({"type": "Elsa.Sequence", "id": "turn", "activities": [
        {"type": "Elsa.Event", "id": "wait", "eventName": literal("go")},
        {"type": "Elsa.WriteLine", "id": "effect", "text": literal("effect")}
    ]});
    let root = json!({"type": "Elsa.While", "id": "loop", "condition": forever, "body": turn});
    test.publish(json!({"definitionId": "loop", "root": root})).await;
    test
}

async fn dispatch(test: &TestEngine) {
    let request = start_as("i", "loop");
    test.engine.dispatch(request).await.unwrap();
}

/// An instance that waits for its event, and no node that runs anything.
async fn waiting(test: &TestEngine) {
    let worker = test.worker().await;
    dispatch(test).await;
    test.reaches(&"i".into(), "Suspended").await;
    worker.shutdown().await;
}

async fn count(test: &TestEngine, sql: &str) -> i64 {
    test.database.connect().await.query_one(sql, &[]).await.unwrap().get(0)
}

async fn accepted(test: &TestEngine, rows: i64) {
    wait_until("the rows to be accepted", async || {
        count(test, "SELECT count(*) FROM mainspring.work").await == rows
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_wins_over_thousands_of_rows_before_it() {
    let test = idle().await;
    waiting(&test).await;
    let id = InstanceId::from("i");
    let published = test.trigger("go", Value::Null).await;
    assert_eq!(published.resumed, 1);
    // As 2,499 more publishes leave them.
    let more = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body)
                SELECT tenant_id, instance_id, kind, body FROM mainspring.work, generate_series(2, 2500)";
    let client = test.database.connect().await;
    assert_eq!(client.execute(more, &[]).await.unwrap(), 2499);
    let resume = {
        let (engine, request) = (test.engine.clone(), resume_of(&id));
        tokio::spawn(async move { engine.resume(request).await })
    };
    accepted(&test, 2501).await;
    let cancel = test.cancels(&id);
    accepted(&test, 2502).await;
    let worker = test.worker().await;
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

/// A poll shows so many rows at most. The row that two processes crashed with is younger than all of them, and its instance stands
/// at it.
#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_row_runs_though_more_rows_than_a_poll_shows_are_older() {
    let test = idle().await;
    waiting(&test).await;
    assert_eq!(test.trigger("go", Value::Null).await.resumed, 1);
    let client = test.database.connect().await;
    let more = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, available_at)
                SELECT tenant_id, instance_id, kind, body, now() - interval '1 minute'
                FROM mainspring.work, generate_series(1, 600)";
    assert_eq!(client.execute(more, &[]).await.unwrap(), 600);
    let crashed = "UPDATE mainspring.work SET has_begun = true, crashes = 2, claim_no = 2, available_at = now()
                   WHERE id = (SELECT min(id) FROM mainspring.work)";
    assert_eq!(client.execute(crashed, &[]).await.unwrap(), 1);
    let worker = test.worker().await;
    accepted(&test, 0).await;
    // Each has its effect once, which has two entries.
    assert_eq!(count(&test, EFFECTS).await, 2 * 601);
    worker.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_in_the_same_process_learns_that_its_resume_matched_nothing() {
    let test = idle().await;
    waiting(&test).await;
    let id = InstanceId::from("i");
    test.trigger("go", Value::Null).await;
    let more = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, available_at)
                SELECT tenant_id, instance_id, kind, body, now() + interval '1 hour'
                FROM mainspring.work, generate_series(1, 150)";
    let client = test.database.connect().await;
    client.execute(more, &[]).await.unwrap();
    // A node that claims nothing, as its only row is not due, and accepts all the same.
    let later = "UPDATE mainspring.work SET available_at = now() + interval '1 hour'";
    client.execute(later, &[]).await.unwrap();
    let worker = test.worker().await;
    let waits = {
        let request = resume_of(&id);
        let gate = test.database.connect().await;
        // Holds the lock of the row, so that no claim gets it.
        gate.run("BEGIN; LOCK TABLE mainspring.timer IN SHARE ROW EXCLUSIVE MODE")
            .await;
        let engine = worker.clone();
        let waits = tokio::spawn(async move { engine.resume(request).await });
        accepted(&test, 152).await;
        client.execute(later, &[]).await.unwrap();
        gate.run("ROLLBACK").await;
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
    let cancel = test.cancels(&id);
    accepted(&test, 2).await;
    let worker = test.worker().await;
    assert!(cancel.await.unwrap().unwrap());
    test.reaches(&id, "Cancelled").await;
    let ran = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'wait'";
    assert_eq!(count(&test, ran).await, 0, "it has begun");
    worker.shutdown().await;
    test.assert_clean_end().await;
}
