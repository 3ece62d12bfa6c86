//! Answers to calls whose row became a dead letter, matched nothing, or was for a deleted instance of the same id.

use std::time::{Duration, Instant};

use mainspring::Engine;
use mainspring::id::InstanceId;
use mainspring::runtime::{DeadLetterFilter, LinkUseRequest, LinkUsed, ResumeLinkRequest, ResumeRequest, StartRequest};
use tokio::sync::oneshot::error::TryRecvError;

use crate::support::engine::{TestEngine, idempotency, start, start_as, waits_for};
use crate::support::{TIMEOUT, TestDatabase, poll_until};

/// Makes every row of work unreadable, at its last retry.
const CORRUPT_WORK: &str = "UPDATE mainspring.work SET failures = 19, kind = CASE kind WHEN 3 THEN 1 ELSE kind END,
                             body = '{\"bookmarkId\": 7, \"correlationId\": 7}'";

async fn idle() -> TestEngine {
    let test = TestEngine::idle().await;
    test.publish(waits_for("waiter", "Never", false)).await;
    test
}

/// An instance that waits, and no node with workers.
async fn waiting(test: &TestEngine, id: &str) {
    let worker = test.worker().await;
    let request = start_as(id, "waiter");
    test.engine.dispatch(request).await.unwrap();
    test.reaches(&id.into(), "Suspended").await;
    worker.shutdown().await;
}

/// Lets a caller wait for a row that is then dead-lettered, and returns its error.
async fn given_up<T: Send + 'static>(
    test: &TestEngine,
    call: impl Future<Output = mainspring::Result<T>> + Send + 'static,
) -> mainspring::Error {
    let call = tokio::spawn(call);
    let client = test.database.connect().await;
    poll_until(TIMEOUT, "the row to be accepted", async || {
        (client.execute(CORRUPT_WORK, &[]).await.ok()? == 1).then_some(())
    })
    .await;
    let worker = test.worker().await;
    let answer = call.await.unwrap().err().expect("it was dead-lettered");
    worker.shutdown().await;
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_lettered_row_is_reported_to_its_caller_and_to_every_retry() {
    let test = idle().await;
    let engine = test.engine.clone();
    let keyed = StartRequest {
        instance_id: Some("born".into()),
        idempotency: idempotency("start"),
        ..start("waiter")
    };
    let request = keyed.clone();
    let answer = given_up(&test, async move { engine.execute(request).await }).await;
    assert_eq!((answer.code(), answer.instance_id()), ("given-up", Some("born")));
    assert!(answer.is_dead_lettered() && !answer.is_transient());
    assert_eq!(test.engine.execute(keyed).await.unwrap_err().code(), "given-up");

    waiting(&test, "i").await;
    let keyed = ResumeRequest {
        instance_id: "i".into(),
        idempotency: idempotency("resume"),
        ..ResumeRequest::default()
    };
    let (engine, request) = (test.engine.clone(), keyed.clone());
    let answer = given_up(&test, async move { engine.resume(request).await }).await;
    assert_eq!((answer.code(), answer.instance_id()), ("given-up", Some("i")));
    let engine = test.engine.clone();
    let answer = given_up(&test, async move { engine.cancel(&"i".into()).await }).await;
    assert_eq!(answer.code(), "given-up");

    // Also after the dead letters are deleted.
    assert_eq!(test.engine.resume(keyed.clone()).await.unwrap_err().code(), "given-up");
    let of_it = DeadLetterFilter {
        instance_id: Some("i".into()),
        ..DeadLetterFilter::default()
    };
    for dead_letter in test
        .engine
        .dead_letters(&of_it, Default::default())
        .await
        .unwrap()
        .items
    {
        test.engine.delete_dead_letter(&dead_letter.id).await.unwrap();
    }
    assert_eq!(test.engine.resume(keyed).await.unwrap_err().code(), "given-up");
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_gets_the_same_answer_and_waits_for_it() {
    let test = idle().await;
    waiting(&test, "i").await;
    let keyed = |name: &str| ResumeRequest {
        instance_id: "i".into(),
        idempotency: idempotency(name),
        ..ResumeRequest::default()
    };
    for name in ["wins", "loses"] {
        test.engine.accept_resume(keyed(name)).await.unwrap();
    }
    // Both are queued when they are retried.
    let mut retries = Vec::new();
    for name in ["wins", "loses"] {
        let (engine, request) = (test.engine.clone(), keyed(name));
        retries.push(tokio::spawn(async move { engine.resume(request).await }));
    }
    let worker = test.worker().await;
    let won = retries.remove(0).await.unwrap().unwrap();
    assert_eq!(won.sub_status(), Some("Finished"));
    let lost = retries.remove(0).await.unwrap().unwrap_err();
    assert_eq!(lost.code(), "already-resumed");
    assert_eq!(
        test.engine.resume(keyed("wins")).await.unwrap().sub_status(),
        Some("Finished")
    );
    let again = test.engine.resume(keyed("loses")).await.unwrap_err();
    assert_eq!(again.code(), "already-resumed");
    worker.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_of_a_deleted_instance_does_not_resume_its_successor() {
    let test = idle().await;
    let id = InstanceId::from("again");
    waiting(&test, "again").await;
    let link = link_of(&test, &id).await;
    assert!(test.engine.delete(&id).await.unwrap());
    waiting(&test, "again").await;
    assert_eq!(use_of(&test, &link).await.unwrap_err().code(), "link-unknown");

    // A resume that was accepted before, and is run in a burst of the successor.
    let request = ResumeRequest {
        instance_id: id.clone(),
        idempotency: idempotency("late"),
        ..ResumeRequest::default()
    };
    test.engine.accept_resume(request.clone()).await.unwrap();
    let client = test.database.connect().await;
    let reborn = "WITH moved AS (UPDATE mainspring.burst_record SET at = at + interval '1 microsecond')
                  UPDATE mainspring.instance
                  SET created_at = created_at + interval '1 microsecond', updated_at = updated_at + interval '1 microsecond'";
    assert_eq!(client.execute(reborn, &[]).await.unwrap(), 1);
    let worker = test.worker().await;
    assert_eq!(test.engine.resume(request).await.unwrap_err().code(), "already-resumed");
    test.reaches(&id, "Suspended").await;
    let link = link_of(&test, &id).await;
    let LinkUsed::Resumed(met) = use_of(&test, &link).await.unwrap() else {
        panic!("it was not awaited")
    };
    assert_eq!(met.sub_status(), Some("Finished"));
    assert_eq!(use_of(&test, &link).await.unwrap_err().code(), "link-used");
    worker.shutdown().await;
    test.assert_clean_end().await;
}

/// The text of a new link of an instance.
async fn link_of(test: &TestEngine, id: &InstanceId) -> String {
    let made = test
        .engine
        .create_resume_link(id, ResumeLinkRequest::default())
        .await
        .unwrap();
    made.url.rsplit('/').next().unwrap().to_owned()
}

async fn use_of(test: &TestEngine, link: &str) -> mainspring::Result<LinkUsed> {
    let genuine = test.engine.verify_link(link).await?;
    test.engine.use_link(genuine, LinkUseRequest::default(), ()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_use_whose_client_is_gone_keeps_what_bounds_it_until_it_is_accepted() {
    let test = idle().await;
    waiting(&test, "i").await;
    let link = link_of(&test, &"i".into()).await;
    let genuine = test.engine.verify_link(&link).await.unwrap();
    let mut client = test.database.connect().await;
    let locked = client.transaction().await.unwrap();
    let row = "SELECT 1 FROM mainspring.resume_link FOR UPDATE";
    locked.execute(row, &[]).await.unwrap();
    let (bound, mut held) = tokio::sync::oneshot::channel::<()>();
    let engine = test.engine.clone();
    let using = tokio::spawn(async move { engine.use_link(genuine, LinkUseRequest::default(), bound).await });
    let observer = test.database.connect().await;
    let waits = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%resume_link%'";
    poll_until(TIMEOUT, "the use to wait for the link", async || {
        (observer.count(waits).await == 1).then_some(())
    })
    .await;
    using.abort();
    assert!(using.await.unwrap_err().is_cancelled());
    assert_eq!(held.try_recv(), Err(TryRecvError::Empty), "the use goes on");
    locked.rollback().await.unwrap();
    assert!(held.await.is_err(), "it is dropped");
    let accepted = "SELECT count(*) FROM mainspring.audit WHERE outcome = 0 /* accepted */";
    assert_eq!(observer.count(accepted).await, 1);
    test.engine.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_link_costs_no_statement() {
    let test = idle().await;
    waiting(&test, "i").await;
    let link = link_of(&test, &"i".into()).await;
    let client = test.database.connect().await;
    // What reads the keys, the links or the audit fails from now on.
    for table in ["token_key", "resume_link", "audit"] {
        client
            .run(&format!("ALTER TABLE mainspring.{table} RENAME TO hidden_{table}"))
            .await;
    }
    let mut forged = link.clone().into_bytes();
    for at in 6..forged.len() {
        // Another id or another code under a key that is known.
        let genuine = std::mem::replace(&mut forged[at], if link.as_bytes()[at] == b'A' { b'B' } else { b'A' });
        let text = String::from_utf8(forged.clone()).unwrap();
        assert_eq!(
            test.engine.verify_link(&text).await.unwrap_err().code(),
            "no-such-link",
            "{text}"
        );
        assert!(test.engine.verify_link(&text[..at]).await.is_err());
        forged[at] = genuine;
    }
    // The key is known, so a genuine one is verified without the database, and only its use needs it.
    let genuine = test.engine.verify_link(&link).await.unwrap();
    assert!(
        test.engine
            .use_link(genuine, LinkUseRequest::default(), ())
            .await
            .is_err()
    );
    // A key that is unknown is looked for at most once a second: of a thousand texts nearly all cost nothing.
    let (mut asked, began) = (0, Instant::now());
    for number in 0..1_000 {
        let text = format!("{number:048}");
        let error = test.engine.verify_link(&text).await.unwrap_err();
        asked += usize::from(error.code() != "no-such-link");
    }
    assert!(asked <= 2 + began.elapsed().as_secs() as usize, "{asked}");
    for table in ["token_key", "resume_link", "audit"] {
        client
            .run(&format!("ALTER TABLE mainspring.hidden_{table} RENAME TO {table}"))
            .await;
    }
    // No node has workers.
    let accepts = LinkUseRequest {
        is_async: true,
        ..LinkUseRequest::default()
    };
    assert!(matches!(
        test.engine.use_link(genuine, accepts, ()).await,
        Ok(LinkUsed::Accepted(_))
    ));
    test.engine.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_answered_at_their_deadline_without_the_database() {
    let database = TestDatabase::create().await;
    let builder = Engine::builder(database.url()).answer_timeout(Duration::from_millis(500));
    let test = TestEngine::start(database, builder).await;
    test.publish(waits_for("waiter", "Never", false)).await;
    let keyed = StartRequest {
        idempotency: idempotency("start"),
        ..start("waiter")
    };
    let waiting = test.engine.execute(keyed.clone()).await.unwrap();
    let resume = ResumeRequest {
        instance_id: waiting.instance_id.clone(),
        idempotency: idempotency("resume"),
        ..ResumeRequest::default()
    };
    test.engine.resume(resume.clone()).await.unwrap();
    let mut client = test.database.connect().await;
    let locked = client.transaction().await.unwrap();
    let locks = "LOCK TABLE mainspring.instance IN ACCESS EXCLUSIVE MODE";
    locked.batch_execute(locks).await.unwrap();
    // The retries find their rows consumed, and cannot read the state. A statement alone is given ten seconds.
    let both = async { tokio::join!(test.engine.execute(keyed), test.engine.resume(resume)) };
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
    test.assert_clean_end().await;
}

/// The row is deleted before the caller first polls for it: what is missing after the flush is not promised.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_row_is_gone_at_the_deadline_is_not_called_pending() {
    let database = TestDatabase::create().await;
    let builder = Engine::builder(database.url())
        .workers(0)
        .answer_timeout(Duration::from_millis(50));
    let test = TestEngine::start(database, builder).await;
    test.publish(waits_for("waiter", "Never", false)).await;
    let client = test.database.connect().await;
    let takes = "CREATE FUNCTION mainspring.take() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN DELETE FROM mainspring.work w WHERE w.id = NEW.id; RETURN NULL; END';
                 CREATE TRIGGER take AFTER INSERT ON mainspring.work FOR EACH ROW EXECUTE FUNCTION mainspring.take()";
    client.run(takes).await;
    let answer = test.engine.execute(start("waiter")).await;
    // The node saw no crash of the server, so the row was deleted. A busy server may answer after the deadline.
    let missing = answer.expect_err("it is promised");
    let is_honest = missing.is_not_found() || missing.is_unknown_outcome();
    assert!(is_honest, "{missing:?}");
    test.assert_clean_end().await;
}
