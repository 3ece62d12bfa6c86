//! A commit in doubt is sent again, never only read, and gets the outcome of its first attempt if that was committed.

use std::sync::Arc;
use std::time::Duration;

use crate::assert_outcome;
use crate::id::{BookmarkId, ClaimNo, InstanceVersion, WorkId};
use crate::store::commit::{Claim, Commit, CommitOutcome, CommitRequest, WriterOptions};
use crate::testing::Proxy;
use crate::testing::store::{Fixture, burst, journal, spawn, waiting, yielding};

/// A burst of one statement, which is committed before its session notices that the connection is lost.
fn last(bookmark: &str) -> CommitRequest {
    let mut request = journal(burst("i", Some(1)), 1);
    request.effects.bookmarks_burned = vec![BookmarkId::new(bookmark)];
    request
}

#[tokio::test]
async fn a_commit_whose_session_died_before_it_was_done_is_sent_again() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let blocker = fixture.stop_at("i").await;
    let in_doubt = spawn(&writer, journal(waiting(burst("i", Some(1)), "b2", 8), 1));
    fixture.a_session_waits().await;
    let ended = fixture
        .count(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .await;
    assert_eq!(ended, 1);
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(
        in_doubt.await.unwrap(),
        CommitOutcome::Committed(Commit {
            version: InstanceVersion(2),
            ..
        })
    );
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_commit_whose_old_session_is_still_committing_is_not_repeated() {
    let fixture = Fixture::new().await;
    let (proxy, writer) = fixture.proxied(WriterOptions::default()).await;
    let writer = Arc::new(writer);
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let claim = fixture.claimed_work("i", writer.incarnation).await;
    let blocker = fixture.stop_at("i").await;
    let mut request = last("b");
    request.claims = vec![claim];
    let in_doubt = spawn(&writer, request);
    fixture.a_session_waits().await;
    // The connection is lost, but the server continues and holds the rows.
    proxy.cut();
    fixture.so_many_wait(2).await;
    assert!(!in_doubt.is_finished(), "it has an outcome while that is still unknown");
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(
        in_doubt.await.unwrap(),
        CommitOutcome::Committed(Commit {
            version: InstanceVersion(2),
            ..
        })
    );
    assert_eq!(fixture.version("i").await, Some(2));
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_commit_in_doubt_is_found_though_its_claims_are_consumed() {
    let fixture = Fixture::new().await;
    let (proxy, writer) = fixture.proxied(WriterOptions::default()).await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let mut request = journal(waiting(burst("i", Some(1)), "b2", 8), 1);
    request.claims = vec![fixture.claimed_work("i", writer.incarnation).await];
    proxy.swallow_up_to_commit();
    writer.commits(request).await;
    // A request that lost its claim gets that outcome, in doubt or not.
    let mut request = journal(waiting(burst("i", Some(2)), "b3", 8), 2);
    request.claims = vec![Claim::Work(WorkId(4711), ClaimNo(1))];
    proxy.swallow_up_to_commit();
    assert_outcome!(writer.write(request).await, CommitOutcome::ClaimLost);
    assert_eq!(fixture.version("i").await, Some(2));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_commit_in_doubt_is_given_its_own_version_not_that_of_a_cancel_since() {
    let fixture = Fixture::new().await;
    let (proxy, writer) = fixture.proxied(WriterOptions::default()).await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    // A cancel is accepted with the commit, before it can be classified: it increments the version.
    fixture
        .execute(
            "CREATE FUNCTION bump() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN UPDATE instance SET version = version + 1 WHERE id = NEW.id; RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER bump AFTER UPDATE ON instance DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN (NEW.last_burst IS DISTINCT FROM OLD.last_burst) EXECUTE FUNCTION bump()",
        )
        .await;
    proxy.swallow_next_answer();
    // Its first attempt was committed.
    let commit = writer.commits(yielding(burst("i", Some(1)))).await;
    assert_eq!(fixture.version("i").await, Some(3));
    // Its next burst must be refused by the fence of that cancel.
    let goes_on = waiting(burst("i", Some(commit.version.0)), "b3", 7);
    assert_outcome!(writer.write(goes_on).await, CommitOutcome::VersionConflict);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_commit_whose_old_session_outlasts_the_lock_timeout_is_unknown_not_busy() {
    let fixture = Fixture::new().await;
    let options = WriterOptions {
        lock_timeout: Duration::from_millis(100),
        ..WriterOptions::default()
    };
    let (proxy, writer) = fixture.proxied(options).await;
    let writer = Arc::new(writer);
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let blocker = fixture.stop_at("i").await;
    let in_doubt = spawn(&writer, last("b"));
    fixture.a_session_waits().await;
    proxy.cut();
    // `Busy` would claim that nothing was written, which is true only for now.
    assert_outcome!(in_doubt.await.unwrap(), CommitOutcome::Unknown);
    assert_eq!(fixture.version("i").await, Some(1));
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    fixture.until(2, "SELECT version FROM instance").await;
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_commit_in_doubt_is_found_after_the_removal_of_its_incarnation() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::start(fixture.server_port()).await;
    let base = fixture.through(proxy.port);
    let one = fixture.writer_with(&base, WriterOptions::default()).await;
    let two = fixture.writer_with(&base, WriterOptions::default()).await;
    one.commits(waiting(burst("i", None), "b", 7)).await;
    two.commits(waiting(burst("j", None), "b", 7)).await;
    // The incarnation is removed with the commit, before it can be classified.
    fixture
        .execute(
            "CREATE FUNCTION remove_now() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN DELETE FROM fence WHERE incarnation = (SELECT min(incarnation) FROM fence);
              DELETE FROM node n WHERE NOT EXISTS (SELECT 1 FROM fence f WHERE f.incarnation = n.incarnation);
              RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER remove_now AFTER UPDATE ON instance DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION remove_now()",
        )
        .await;
    // As one statement, and as a pipeline whose every answer was lost.
    proxy.swallow_next_answer();
    one.commits(last("b")).await;
    assert_outcome!(one.write(burst("k", None)).await, CommitOutcome::Fenced);
    proxy.swallow_up_to_commit();
    two.commits(journal(waiting(burst("j", Some(1)), "b2", 7), 1)).await;
    assert_outcome!(two.write(burst("k", None)).await, CommitOutcome::Fenced);
    assert_eq!(fixture.version("i").await, Some(2));
    assert_eq!(fixture.version("j").await, Some(2));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_commit_in_doubt_is_found_though_its_repetition_is_refused() {
    let fixture = Fixture::new().await;
    let (proxy, writer) = fixture.proxied(WriterOptions::default()).await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    fixture
        .execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF EXISTS (SELECT 1 FROM instance WHERE version = 2) THEN RAISE EXCEPTION ''no''; END IF;
              RETURN NULL; END';
             CREATE TRIGGER refuse BEFORE UPDATE ON instance FOR EACH STATEMENT EXECUTE FUNCTION refuse()",
        )
        .await;
    proxy.swallow_next_answer();
    writer.commits(last("b")).await;
    assert_eq!(fixture.version("i").await, Some(2));
    fixture.is_sound().await;
}
