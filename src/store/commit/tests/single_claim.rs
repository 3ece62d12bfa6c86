//! Single-claim batches: bursts that consume one row of work and burn no bookmark, committed by their own form of the statement.

use std::sync::Arc;
use std::time::Duration;

use crate::assert_outcome;
use crate::id::ClaimNo;
use crate::store::commit::{Claim, CommitOutcome, CommitRequest};
use crate::store::node::removal::RemovalCause;
use crate::testing::store::{Fixture, Writer, burst, execute, journal, occupy, spawn, waiting};

/// A burst of an existing instance that keeps waiting for the same bookmark.
fn plain(instance: &str, claim: &Claim) -> CommitRequest {
    let mut request = journal(burst(instance, Some(1)), 1);
    (request.effects.status, request.effects.sub_status) = (0, 2);
    request.claims = vec![claim.clone()];
    request
}

async fn suspend(writer: &Writer, instance: &str) {
    writer.commits(waiting(burst(instance, None), "b", 7)).await;
}

#[tokio::test]
async fn a_claim_that_another_incarnation_holds_is_lost() {
    let fixture = Fixture::new().await;
    let (writer, other) = (fixture.writer().await, fixture.writer().await);
    suspend(&writer, "i").await;
    let theirs = fixture.claimed_work("i", other.incarnation).await;
    let Claim::Work(id, _) = fixture.claimed_work("i", writer.incarnation).await else {
        unreachable!()
    };
    // Claimed once more since, or released and claimed by another node.
    for claim in [&theirs, &Claim::Work(id, ClaimNo(2))] {
        assert_outcome!(writer.write(plain("i", claim)).await, CommitOutcome::ClaimLost);
        let mut first = plain("new", claim);
        first.expected = None;
        assert_outcome!(writer.write(first).await, CommitOutcome::ClaimLost);
    }
    assert_eq!(
        (fixture.version("i").await, fixture.version("new").await),
        (Some(1), None)
    );
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 2);
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    let ours = Claim::Work(id, ClaimNo(1));
    writer.commits(plain("i", &ours)).await;
    assert_eq!(fixture.version("i").await, Some(2));
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn another_version_is_a_conflict_and_consumes_nothing() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    suspend(&writer, "i").await;
    let claim = fixture.claimed_work("i", writer.incarnation).await;
    let mut request = plain("i", &claim);
    request.expected = Some(crate::id::InstanceVersion(2));
    assert_outcome!(writer.write(request).await, CommitOutcome::VersionConflict);
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_row_changed_since_the_snapshot_is_written_all_the_same() {
    for change in [
        "UPDATE work SET available_at = now()",
        "UPDATE instance SET updated_at = now()",
    ] {
        for continues in [false, true] {
            let fixture = Fixture::new().await;
            let writer = Arc::new(fixture.writer().await);
            suspend(&writer, "i").await;
            let claim = fixture.claimed_work("i", writer.incarnation).await;
            let blocker = fixture.begin("SELECT 1 FROM fence WHERE writer = 0 FOR UPDATE").await;
            let mut request = plain("i", &claim);
            request.effects.continues = continues;
            let commit = spawn(&writer, request);
            fixture.a_session_waits().await;
            fixture.execute(change).await;
            execute(&blocker, "ROLLBACK").await;
            assert_outcome!(commit.await.unwrap(), CommitOutcome::Committed(_));
            assert_eq!(fixture.version("i").await, Some(2), "after {change}");
            let left = "SELECT count(*) FILTER (WHERE kind = 4) * 10 + count(*) FROM work";
            let kept = if continues { 11 } else { 0 };
            assert_eq!(fixture.count(left).await, kept, "after {change}");
            fixture.is_sound().await;
        }
    }
}

#[tokio::test]
async fn a_locked_row_does_not_stall_the_others() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let mut claims = Vec::new();
    for instance in ["a", "b", "c"] {
        suspend(&writer, instance).await;
        claims.push(fixture.claimed_work(instance, writer.incarnation).await);
    }
    let (occupier, occupied) = occupy(&fixture, &writer).await;
    let blocker = fixture.session().await;
    let lock = "BEGIN; SELECT 1 FROM work WHERE instance_id = 'a' FOR UPDATE;
                SELECT 1 FROM instance WHERE id = 'b' FOR UPDATE";
    execute(&blocker, lock).await;
    let mut sent = Vec::new();
    for (instance, claim) in ["a", "b", "c"].into_iter().zip(&claims) {
        sent.push(spawn(&writer, plain(instance, claim)));
    }
    execute(&occupier, "ROLLBACK").await;
    assert_outcome!(occupied.await.unwrap(), CommitOutcome::Committed(_));
    let free = sent.pop().unwrap();
    // Less than the lock_timeout of the fast lane, after which a stalled batch would be split.
    let free = tokio::time::timeout(Duration::from_millis(1500), free).await;
    assert_outcome!(
        free.expect("delayed by rows of others").unwrap(),
        CommitOutcome::Committed(_)
    );
    assert!(sent.iter().all(|contended| !contended.is_finished()));
    execute(&blocker, "ROLLBACK").await;
    for contended in sent {
        assert_outcome!(contended.await.unwrap(), CommitOutcome::Committed(_));
    }
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_removed_incarnation_writes_nothing_more() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    suspend(&writer, "i").await;
    let claim = fixture.claimed_work("i", writer.incarnation).await;
    fixture.remove(writer.incarnation, RemovalCause::Crashed).await;
    assert_outcome!(writer.write(plain("i", &claim)).await, CommitOutcome::Fenced);
    assert_eq!(fixture.version("i").await, Some(1));
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    fixture.is_sound().await;
}
