//! Answers to calls whose row became a dead letter, matched nothing, or was for a deleted instance of the same id.

use std::time::Duration;

use mainspring::Engine;
use mainspring::id::InstanceId;
use mainspring::runtime::{DeadLetterFilter, Idempotency, ResumeRequest, StartRequest, TokenResume};

use crate::support::engine::{TestEngine, start, waits_for};
use crate::support::{TIMEOUT, TestDatabase, poll_until};

/// Makes every row of work unreadable, at its last retry.
const SPOILS: &str = "UPDATE mainspring.work SET failures = 19, kind = CASE kind WHEN 3 THEN 1 ELSE kind END,
                             body = '{\"bookmarkId\": 7, \"correlationId\": 7}'";

/// A node without workers: what it accepts waits for another node.
async fn idle() -> TestEngine {
    let database = TestDatabase::create().await;
    let engine = Engine::builder(database.url()).node_id("idle").workers(0);
    let engine = engine.start().await.unwrap();
    let bench = TestEngine { database, engine };
    bench.publish(waits_for("waiter", "Never", false)).await;
    bench
}

/// A node with workers.
async fn busy(bench: &TestEngine) -> Engine {
    let engine = Engine::builder(bench.database.url()).node_id("busy");
    engine.start().await.unwrap()
}

fn key(key: &str) -> Option<Idempotency> {
    Some(Idempotency {
        key: key.to_owned(),
        fingerprint: [1; 32],
    })
}

/// An instance that waits, and no node with workers.
async fn waiting(bench: &TestEngine, id: &str) {
    let worker = busy(bench).await;
    let request = StartRequest {
        instance_id: Some(id.into()),
        ..start("waiter")
    };
    bench.engine.dispatch(request).await.unwrap();
    bench.reaches(&id.into(), "Suspended").await;
    worker.shutdown().await;
}

/// Lets a caller wait for a row that is then dead-lettered, and returns its error.
async fn given_up<T: Send + 'static>(
    bench: &TestEngine,
    door: impl Future<Output = mainspring::Result<T>> + Send + 'static,
) -> mainspring::Error {
    let door = tokio::spawn(door);
    let client = bench.database.connect().await;
    poll_until(TIMEOUT, "the row to be accepted", async || {
        (client.execute(SPOILS, &[]).await.ok()? == 1).then_some(())
    })
    .await;
    let worker = busy(bench).await;
    let answer = door.await.unwrap().err().expect("it was dead-lettered");
    worker.shutdown().await;
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_lettered_row_is_reported_to_its_caller_and_to_every_retry() {
    let bench = idle().await;
    let engine = bench.engine.clone();
    let keyed = StartRequest {
        instance_id: Some("born".into()),
        idempotency: key("start"),
        ..start("waiter")
    };
    let request = keyed.clone();
    let answer = given_up(&bench, async move { engine.execute(request).await }).await;
    assert_eq!((answer.code(), answer.instance_id()), ("given-up", Some("born")));
    assert!(answer.is_dead_lettered() && !answer.is_transient());
    assert_eq!(bench.engine.execute(keyed).await.unwrap_err().code(), "given-up");

    waiting(&bench, "i").await;
    let keyed = ResumeRequest {
        instance_id: "i".into(),
        idempotency: key("resume"),
        ..ResumeRequest::default()
    };
    let (engine, request) = (bench.engine.clone(), keyed.clone());
    let answer = given_up(&bench, async move { engine.resume(request).await }).await;
    assert_eq!((answer.code(), answer.instance_id()), ("given-up", Some("i")));
    let engine = bench.engine.clone();
    let answer = given_up(&bench, async move { engine.cancel(&"i".into()).await }).await;
    assert_eq!(answer.code(), "given-up");

    // Also after the dead letters are deleted.
    assert_eq!(bench.engine.resume(keyed.clone()).await.unwrap_err().code(), "given-up");
    let of_it = DeadLetterFilter {
        instance_id: Some("i".into()),
        ..DeadLetterFilter::default()
    };
    for letter in bench
        .engine
        .dead_letters(&of_it, Default::default())
        .await
        .unwrap()
        .items
    {
        bench.engine.delete_dead_letter(&letter.id).await.unwrap();
    }
    assert_eq!(bench.engine.resume(keyed).await.unwrap_err().code(), "given-up");
    bench.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_gets_the_same_answer_and_waits_for_it() {
    let bench = idle().await;
    waiting(&bench, "i").await;
    let keyed = |name: &str| ResumeRequest {
        instance_id: "i".into(),
        idempotency: key(name),
        ..ResumeRequest::default()
    };
    for name in ["wins", "loses"] {
        bench.engine.accept_resume(keyed(name)).await.unwrap();
    }
    // Both are queued when they are retried.
    let mut retries = Vec::new();
    for name in ["wins", "loses"] {
        let (engine, request) = (bench.engine.clone(), keyed(name));
        retries.push(tokio::spawn(async move { engine.resume(request).await }));
    }
    let worker = busy(&bench).await;
    let won = retries.remove(0).await.unwrap().unwrap();
    assert_eq!(won.sub_status(), Some("Finished"));
    let lost = retries.remove(0).await.unwrap().unwrap_err();
    assert_eq!(lost.code(), "already-resumed");
    assert_eq!(
        bench.engine.resume(keyed("wins")).await.unwrap().sub_status(),
        Some("Finished")
    );
    let again = bench.engine.resume(keyed("loses")).await.unwrap_err();
    assert_eq!(again.code(), "already-resumed");
    worker.shutdown().await;
    bench.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_of_a_deleted_instance_does_not_resume_its_successor() {
    let bench = idle().await;
    let id = InstanceId::from("again");
    waiting(&bench, "again").await;
    let token = bench.engine.resume_token(&id, None, None).await.unwrap();
    assert!(bench.engine.delete(&id).await.unwrap());
    waiting(&bench, "again").await;
    let by_token = |token: &str| TokenResume {
        token: token.to_owned(),
        ..TokenResume::default()
    };
    let late = bench.engine.resume_by_token(by_token(&token)).await.unwrap_err();
    assert_eq!(late.code(), "already-resumed");

    // A resume that was accepted before, and is run in a burst of the successor.
    let request = ResumeRequest {
        instance_id: id.clone(),
        idempotency: key("late"),
        ..ResumeRequest::default()
    };
    bench.engine.accept_resume(request.clone()).await.unwrap();
    let client = bench.database.connect().await;
    let reborn = "UPDATE mainspring.instance SET created_at = created_at + interval '1 microsecond'";
    assert_eq!(client.execute(reborn, &[]).await.unwrap(), 1);
    let worker = busy(&bench).await;
    assert_eq!(
        bench.engine.resume(request).await.unwrap_err().code(),
        "already-resumed"
    );
    bench.reaches(&id, "Suspended").await;
    let token = bench.engine.resume_token(&id, None, None).await.unwrap();
    let met = bench.engine.resume_by_token(by_token(&token)).await.unwrap();
    assert_eq!(met.sub_status(), Some("Finished"));
    worker.shutdown().await;
    bench.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_token_costs_no_statement() {
    let bench = idle().await;
    waiting(&bench, "i").await;
    let token = bench.engine.resume_token(&"i".into(), None, None).await.unwrap();
    let lasting = Some(Duration::from_secs(3600));
    let expiring = bench.engine.resume_token(&"i".into(), None, lasting).await.unwrap();
    let client = bench.database.connect().await;
    let hides = "ALTER TABLE mainspring.token_key RENAME TO hidden";
    client.batch_execute(hides).await.unwrap();
    let forged = TokenResume {
        token: token.replace("v1.", "v1.x"),
        ..TokenResume::default()
    };
    let refused = bench.engine.accept_resume_by_token(forged).await.unwrap_err();
    assert_eq!(refused.code(), "invalid-token");
    // The key is known by now.
    for token in [expiring, token] {
        let genuine = TokenResume {
            token,
            ..TokenResume::default()
        };
        bench.engine.accept_resume_by_token(genuine).await.unwrap();
    }
    bench.engine.shutdown().await;
    client
        .batch_execute("ALTER TABLE mainspring.hidden RENAME TO token_key")
        .await
        .unwrap();
    bench.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_answered_at_their_deadline_without_the_database() {
    let database = TestDatabase::create().await;
    let engine = Engine::builder(database.url()).answer_timeout(Duration::from_millis(500));
    let engine = engine.start().await.unwrap();
    let bench = TestEngine { database, engine };
    bench.publish(waits_for("waiter", "Never", false)).await;
    let keyed = StartRequest {
        idempotency: key("start"),
        ..start("waiter")
    };
    let waiting = bench.engine.execute(keyed.clone()).await.unwrap();
    let resume = ResumeRequest {
        instance_id: waiting.instance_id.clone(),
        idempotency: key("resume"),
        ..ResumeRequest::default()
    };
    bench.engine.resume(resume.clone()).await.unwrap();
    let mut client = bench.database.connect().await;
    let locked = client.transaction().await.unwrap();
    let locks = "LOCK TABLE mainspring.instance IN ACCESS EXCLUSIVE MODE";
    locked.batch_execute(locks).await.unwrap();
    // The retries find their rows consumed, and cannot read the state. A statement alone is given ten seconds.
    let both = async { tokio::join!(bench.engine.execute(keyed), bench.engine.resume(resume)) };
    let (start, resume) = tokio::time::timeout(Duration::from_secs(6), both)
        .await
        .expect("the calls were not answered");
    for answer in [start, resume] {
        match answer {
            Ok(executed) => assert!(executed.pending, "{executed:?}"),
            Err(error) => assert!(error.is_unknown_outcome(), "{error}"),
        }
    }
    locked.rollback().await.unwrap();
    bench.ends_well().await;
}

/// The row is deleted before the caller first polls for it: what is missing after the flush is not promised.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_row_is_gone_at_the_deadline_is_not_called_pending() {
    let database = TestDatabase::create().await;
    let engine = Engine::builder(database.url())
        .workers(0)
        .answer_timeout(Duration::from_millis(50));
    let engine = engine.start().await.unwrap();
    let bench = TestEngine { database, engine };
    bench.publish(waits_for("waiter", "Never", false)).await;
    let client = bench.database.connect().await;
    let takes = "CREATE FUNCTION mainspring.take() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN DELETE FROM mainspring.work w WHERE w.id = NEW.id; RETURN NULL; END';
                 CREATE TRIGGER take AFTER INSERT ON mainspring.work FOR EACH ROW EXECUTE FUNCTION mainspring.take()";
    client.batch_execute(takes).await.unwrap();
    let answer = bench.engine.execute(start("waiter")).await;
    // The node saw no crash of the server, so the row was deleted. A busy server may answer after the deadline.
    let missing = answer.expect_err("it is promised");
    let is_honest = missing.is_not_found() || missing.is_unknown_outcome();
    assert!(is_honest, "{missing:?}");
    bench.ends_well().await;
}
