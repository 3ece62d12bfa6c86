//! Two open sessions for each race that a commit can lose.

use std::sync::Arc;
use std::time::Duration;

use crate::assert_outcome;
use crate::id::{NodeId, StimulusHash};
use crate::store::commit::{CommitOutcome, WriterOptions};
use crate::store::event;
use crate::store::node::removal::{self, RemovalCause};
use crate::testing::store::{Fixture, burst, event, execute, journal, spawn, waiting};

#[tokio::test]
async fn a_removal_waits_for_the_commit_in_flight_and_refuses_the_next() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    // The commit stops with its fence row locked.
    let blocker = fixture.stop_at("i").await;
    let in_flight = spawn(&writer, journal(waiting(burst("i", Some(1)), "b2", 8), 1));
    fixture.a_session_waits().await;
    let removing = fixture.session().await;
    let fence = tokio::spawn(async move {
        removing.client.execute("DELETE FROM fence", &[]).await.unwrap();
    });
    tokio::time::timeout(Duration::from_millis(300), async {
        while !fence.is_finished() {
            tokio::task::yield_now().await
        }
    })
    .await
    .expect_err("the fence row was deleted while a commit was in flight");
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(in_flight.await.unwrap(), CommitOutcome::Committed(_));
    fence.await.unwrap();
    assert_outcome!(writer.write(burst("i", Some(2))).await, CommitOutcome::Fenced);
    assert_eq!(fixture.version("i").await, Some(2));
}

#[tokio::test]
async fn an_event_and_its_bookmark_never_miss_each_other_when_the_wait_comes_first() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let blocker = fixture.stop_at("i").await;
    let begins_to_wait = spawn(&writer, waiting(burst("i", Some(1)), "b9", 9));
    fixture.a_session_waits().await;
    let publishes = tokio::spawn({
        let (pool, class) = (writer.pool.clone(), fixture.base.schema().lock_class());
        async move { event::publish(&pool, class, &event("k", 9)).await.unwrap() }
    });
    // The publisher must wait for the commit before it searches for bookmarks.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while fixture
        .count(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        .await
        == 0
    {
        assert!(
            tokio::time::Instant::now() < deadline && !publishes.is_finished(),
            "the publisher did not wait"
        );
        tokio::task::yield_now().await;
    }
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(begins_to_wait.await.unwrap(), CommitOutcome::Committed(_));
    let published = publishes.await.unwrap();
    assert_eq!((published.resumed, published.kept), (1, false));
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_and_its_bookmark_never_miss_each_other_when_the_event_comes_first() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    // A publisher that matched nothing and has not committed its row in the inbox.
    let publisher = fixture.session().await;
    let hash = StimulusHash([9; 32]);
    publisher.client.batch_execute("BEGIN").await.unwrap();
    publisher
        .client
        .query(
            "SELECT pg_advisory_xact_lock($1, $2)",
            &[&fixture.base.schema().lock_class(), &hash.lock_key()],
        )
        .await
        .unwrap();
    publisher
        .client
        .execute(
            "INSERT INTO inbox (tenant_id, hash, name, expires_at) VALUES ('', $1, 'Elsa.Event', now() + '1 h')",
            &[&hash.0.as_slice()],
        )
        .await
        .unwrap();
    let begins_to_wait = spawn(&writer, waiting(burst("i", None), "b", 9));
    // It goes to the contended lane; a burst that needs no such key is not delayed meanwhile.
    fixture.a_session_waits().await;
    writer.commits(burst("other", None)).await;
    publisher.client.batch_execute("COMMIT").await.unwrap();
    assert_outcome!(begins_to_wait.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 0);
    assert_eq!(fixture.count("SELECT count(*) FROM work WHERE kind = 2").await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn one_event_key_fans_out_once() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer.commits(waiting(burst("i", None), "b", 9)).await;
    let class = fixture.base.schema().lock_class();
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let pool = writer.pool.clone();
        tasks.push(tokio::spawn(async move {
            event::publish(&pool, class, &event("same", 9)).await.unwrap().resumed
        }));
    }
    let mut resumed = 0;
    for task in tasks {
        resumed += task.await.unwrap();
    }
    assert_eq!(resumed, 1);
    let mut other = event("same", 9);
    other.request.fingerprint = vec![1; 32];
    let error = event::publish(&writer.pool, class, &other).await.unwrap_err();
    assert!(error.is_unprocessable(), "{error}");
    fixture.is_sound().await;
}

#[tokio::test]
async fn one_locked_instance_does_not_stall_its_batch() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    for instance in ["a", "b", "c"] {
        writer.commits(waiting(burst(instance, None), "b", 7)).await;
    }
    let blocker = fixture.begin("SELECT 1 FROM instance WHERE id = 'b' FOR UPDATE").await;
    let write = |instance: &'static str| {
        let writer = Arc::clone(&writer);
        tokio::spawn(async move { writer.write(waiting(burst(instance, Some(1)), "b2", 8)).await })
    };
    let (a, b, c) = (write("a"), write("b"), write("c"));
    assert_outcome!(a.await.unwrap(), CommitOutcome::Committed(_));
    assert_outcome!(c.await.unwrap(), CommitOutcome::Committed(_));
    assert!(!b.is_finished());
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(b.await.unwrap(), CommitOutcome::Committed(_));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_contended_request_gets_the_outcome_that_caused_its_loss() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let holder = fixture.begin("UPDATE instance SET version = version + 1").await;
    let loses = spawn(&writer, waiting(burst("i", Some(1)), "b2", 8));
    fixture.a_session_waits().await;
    holder.client.batch_execute("COMMIT").await.unwrap();
    assert_outcome!(loses.await.unwrap(), CommitOutcome::VersionConflict);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_row_that_stays_locked_ends_a_request_as_busy() {
    let fixture = Fixture::new().await;
    let options = WriterOptions {
        lock_timeout: Duration::from_millis(100),
        ..WriterOptions::default()
    };
    let writer = fixture.writer_with(&fixture.base, options).await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let _blocker = fixture.begin("SELECT 1 FROM instance FOR UPDATE").await;
    assert_outcome!(
        writer.write(waiting(burst("i", Some(1)), "b2", 8)).await,
        CommitOutcome::Busy
    );
    assert_eq!(fixture.version("i").await, Some(1));
}

#[tokio::test]
async fn two_bursts_of_one_instance_in_one_batch_both_get_their_answer() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let writer = Arc::clone(&writer);
        tasks.push(tokio::spawn(async move {
            writer.write(journal(burst("same", None), 1)).await
        }));
    }
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            CommitOutcome::Committed(_) => won += 1,
            outcome => assert_outcome!(outcome, CommitOutcome::VersionConflict),
        }
    }
    assert_eq!((won, fixture.count("SELECT count(*) FROM journal").await), (1, 1));
    fixture.is_sound().await;
}

#[tokio::test]
async fn two_writers_over_the_same_instances_neither_deadlock_nor_lose_an_answer() {
    let fixture = Fixture::new().await;
    let one = Arc::new(fixture.writer().await);
    let two = Arc::new(fixture.writer().await);
    for n in 0..20 {
        one.commits(waiting(burst(&format!("i{n:02}"), None), "b", n)).await;
    }
    let mut tasks = Vec::new();
    for n in 0..40u8 {
        for (round, writer) in [&one, &two].into_iter().enumerate() {
            // One runs upwards, the other downwards; both share every stimulus key.
            let number = if round == 0 { n % 20 } else { 19 - n % 20 };
            let (writer, name) = (Arc::clone(writer), format!("x{round}{n}"));
            tasks.push(tokio::spawn(async move {
                writer
                    .write(waiting(burst(&format!("i{number:02}"), Some(1)), &name, number))
                    .await
            }));
        }
    }
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            CommitOutcome::Committed(_) => won += 1,
            outcome => assert_outcome!(outcome, CommitOutcome::VersionConflict),
        }
    }
    assert_eq!(won, 20, "each instance went from version 1 to 2 once");
    fixture.is_sound().await;
}

#[tokio::test]
async fn claims_locked_by_an_ending_commit_are_released_by_the_next_pass() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    for _ in 0..3 {
        fixture.claimed_work("i", writer.incarnation).await;
    }
    let ending = fixture.begin("SELECT 1 FROM work ORDER BY id LIMIT 1 FOR UPDATE").await;
    let session = fixture.session().await;
    let incarnation = writer.incarnation;
    let removal = tokio::spawn(async move {
        removal::remove(
            &session.client,
            incarnation,
            &NodeId::new("test"),
            RemovalCause::Crashed,
        )
        .await
        .unwrap()
    });
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while fixture
        .count("SELECT count(*) FROM work WHERE claimed_by IS NULL")
        .await
        < 2
    {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    assert_eq!(
        fixture.count("SELECT count(*) FROM removed_node").await,
        1,
        "not forgotten while a claim is left"
    );
    ending.client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(removal.await.unwrap(), 3);
    assert_eq!(fixture.count("SELECT count(*) FROM removed_node").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_incarnation_stopped_in_the_middle_of_a_commit_is_ended_first() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    // A session of that incarnation that holds its fence row and never continues.
    let stopped = writer.connector.open().await.unwrap();
    execute(&stopped, "BEGIN; SELECT 1 FROM fence WHERE writer = 0 FOR KEY SHARE").await;
    let session = fixture.session().await;
    session.client.batch_execute("SET lock_timeout = 200").await.unwrap();
    removal::remove(
        &session.client,
        writer.incarnation,
        &NodeId::new("test"),
        RemovalCause::Crashed,
    )
    .await
    .unwrap();
    let mut lost = stopped.lost();
    tokio::time::timeout(Duration::from_secs(60), lost.wait_for(|lost| *lost))
        .await
        .unwrap()
        .unwrap();
    assert_outcome!(writer.write(burst("i", Some(1))).await, CommitOutcome::Fenced);
    fixture.is_sound().await;
}

#[tokio::test]
async fn only_removed_or_expired_incarnations_can_be_terminated() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let ended: i32 = fixture
        .admin
        .client
        .query_one("SELECT terminate_incarnation($1)", &[&writer.incarnation.0])
        .await
        .unwrap()
        .get(0);
    assert_eq!(ended, 0);
    writer.commits(burst("i", None)).await;
}

#[tokio::test]
async fn a_node_that_registers_while_orphaned_claims_are_released_keeps_its_claims() {
    let fixture = Fixture::new().await;
    let unregistered = fixture.writer().await;
    fixture.execute("DELETE FROM fence; DELETE FROM node").await;
    let starts = "INSERT INTO work (tenant_id, instance_id, kind, body, claimed_by, claim_no, has_begun) VALUES ('', $1, 0, '{}', $2, 1, true)";
    fixture
        .admin
        .client
        .execute(starts, &[&"a", &unregistered.incarnation.0])
        .await
        .unwrap();
    let orphans = removal::orphaned(&fixture.admin.client).await.unwrap();
    assert_eq!(orphans, [unregistered.incarnation]);
    let fresh = fixture.writer().await;
    fixture
        .admin
        .client
        .execute(starts, &[&"b", &fresh.incarnation.0])
        .await
        .unwrap();
    for orphan in orphans {
        removal::remove(&fixture.admin.client, orphan, &NodeId::new("x"), RemovalCause::Crashed)
            .await
            .unwrap();
    }
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM work WHERE claimed_by IS NULL")
            .await,
        1
    );
    assert!(removal::orphaned(&fixture.admin.client).await.unwrap().is_empty());
    fixture.is_sound().await;
}
