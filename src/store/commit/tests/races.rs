//! Which commits are refused, and in which order locks are taken: each test fails without its remedy.

use std::sync::Arc;
use std::time::Duration;

use crate::assert_outcome;
use crate::id::{BookmarkId, ClaimNo, Incarnation, InstanceId, NodeId, StimulusHash};
use crate::store::commit::{Claim, CommitOutcome, CommitRequest, StimulusRow};
use crate::store::node::removal::{self, RemovalCause};
use crate::store::stimulus_key::StimulusKey;
use crate::store::work::{self, AcceptedCancel};
use crate::testing::store::{Fixture, burst, execute, journal, occupy, spawn, waiting};

fn stimulus(mut request: CommitRequest, hash: u8) -> CommitRequest {
    request.effects.stimuli.push(StimulusRow {
        no: 0,
        hash: vec![hash; 32],
        name: "Elsa.Event".to_owned(),
        payload: None,
        lifetime: 60_000_000,
    });
    request
}

/// A delay that came due long ago, in place of a stimulus that can be published.
fn delay(request: CommitRequest, bookmark: &str) -> CommitRequest {
    let mut request = waiting(request, bookmark, 7);
    let row = request.effects.bookmarks_made.last_mut().unwrap();
    (row.name, row.publishable, row.delay) = ("Elsa.Delay".to_owned(), false, Some(-60_000_000));
    request
}

#[tokio::test]
async fn a_claim_that_another_incarnation_has_now_is_lost() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let other = fixture.writer().await;
    writer.commits(delay(burst("i", None), "d")).await;
    let work = fixture.claimed_work("i", other.incarnation).await;
    fixture
        .execute(&format!(
            "UPDATE timer SET claimed_by = {}, claim_no = 1, has_begun = true",
            other.incarnation
        ))
        .await;
    for claim in [work, Claim::Timer(BookmarkId::new("d"), ClaimNo(1))] {
        let mut request = journal(burst("i", Some(1)), 1);
        request.effects.bookmarks_burned = vec![BookmarkId::new("d")];
        request.claims = vec![claim];
        assert_outcome!(writer.write(request).await, CommitOutcome::ClaimLost);
    }
    assert_eq!(fixture.version("i").await, Some(1));
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_delay_claimed_once_more_since_is_lost() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer.commits(delay(burst("i", None), "d")).await;
    fixture
        .execute(&format!(
            "UPDATE timer SET claimed_by = {}, claim_no = 2, has_begun = true",
            writer.incarnation
        ))
        .await;
    let wakes = |number| {
        let mut request = journal(burst("i", Some(1)), 1);
        request.effects.bookmarks_burned = vec![BookmarkId::new("d")];
        request.claims = vec![Claim::Timer(BookmarkId::new("d"), ClaimNo(number))];
        request
    };
    assert_outcome!(writer.write(wakes(1)).await, CommitOutcome::ClaimLost);
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    writer.commits(wakes(2)).await;
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn one_locked_row_does_not_stall_its_batch() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    for instance in ["a", "b", "c", "d"] {
        writer.commits(delay(burst(instance, None), "d")).await;
    }
    let work = fixture.claimed_work("a", writer.incarnation).await;
    fixture
        .execute(&format!(
            "UPDATE timer SET claimed_by = {}, claim_no = 1, has_begun = true",
            writer.incarnation
        ))
        .await;
    let (occupier, occupied) = occupy(&fixture, &writer).await;
    let blocker = fixture.session().await;
    execute(
        &blocker,
        "BEGIN; SELECT 1 FROM work FOR UPDATE; SELECT 1 FROM timer WHERE instance_id = 'b' FOR UPDATE;
         SELECT 1 FROM instance WHERE id = 'c' FOR UPDATE",
    )
    .await;
    let wake = |instance: &str, claim: Claim| {
        let mut request = burst(instance, Some(1));
        request.effects.bookmarks_burned = vec![BookmarkId::new("d")];
        request.claims = vec![claim];
        spawn(&writer, request)
    };
    let due = Claim::Timer(BookmarkId::new("d"), ClaimNo(1));
    let (a, b) = (wake("a", work), wake("b", due.clone()));
    let (c, d) = (wake("c", due.clone()), wake("d", due));
    execute(&occupier, "ROLLBACK").await;
    assert_outcome!(occupied.await.unwrap(), CommitOutcome::Committed(_));
    // Less than the lock_timeout of the fast lane, after which a stalled batch would be split.
    let d = tokio::time::timeout(Duration::from_millis(1500), d).await;
    assert_outcome!(
        d.expect("delayed by rows of others").unwrap(),
        CommitOutcome::Committed(_)
    );
    assert!(!a.is_finished() && !b.is_finished() && !c.is_finished());
    execute(&blocker, "ROLLBACK").await;
    for contended in [a, b, c] {
        assert_outcome!(contended.await.unwrap(), CommitOutcome::Committed(_));
    }
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_row_changed_since_the_snapshot_of_a_commit_is_consumed_all_the_same() {
    for change in [
        "UPDATE work SET available_at = now()",
        "UPDATE timer SET available_at = now() WHERE id = 'unmet'",
        "UPDATE timer SET available_at = now() WHERE id = 'burned'",
    ] {
        let fixture = Fixture::new().await;
        let writer = Arc::new(fixture.writer().await);
        let first = delay(delay(burst("i", None), "unmet"), "burned");
        writer.commits(first).await;
        let work = fixture.claimed_work("i", writer.incarnation).await;
        let claimed = format!(
            "UPDATE timer SET claimed_by = {}, claim_no = 1, has_begun = true WHERE id = 'unmet'; DELETE FROM bookmark WHERE id = 'unmet'",
            writer.incarnation
        );
        fixture.execute(&claimed).await;
        let blocker = fixture.begin("SELECT 1 FROM fence WHERE writer = 0 FOR UPDATE").await;
        let mut request = journal(burst("i", Some(1)), 1);
        request.effects.bookmarks_burned = vec![BookmarkId::new("burned")];
        request.claims = vec![work, Claim::Timer(BookmarkId::new("unmet"), ClaimNo(1))];
        let commit = spawn(&writer, request);
        fixture.a_session_waits().await;
        fixture.execute(change).await;
        execute(&blocker, "ROLLBACK").await;
        assert_outcome!(commit.await.unwrap(), CommitOutcome::Committed(_));
        for table in ["work", "timer", "bookmark"] {
            let left = fixture.count(&format!("SELECT count(*) FROM {table}")).await;
            assert_eq!(left, 0, "{table} after {change}");
        }
        assert_eq!(fixture.version("i").await, Some(2));
        fixture.is_sound().await;
    }
}

#[tokio::test]
async fn new_instances_are_inserted_in_the_order_of_their_ids() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let (occupier, occupied) = occupy(&fixture, &writer).await;
    // Another writer is inserting the first one. A commit that waits for it must not have inserted the second, for which the
    // other may wait in turn.
    let insert = |id: &str| {
        format!(
            "BEGIN; SET LOCAL lock_timeout = 200;
             INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version,
                                   state)
             VALUES ('', '{id}', 'd', 'd1', 1, 1, 3, 1, '{{}}')"
        )
    };
    let competitor = fixture.session().await;
    execute(&competitor, &insert("a")).await;
    let second = spawn(&writer, burst("b", None));
    let first = spawn(&writer, burst("a", None));
    execute(&occupier, "ROLLBACK").await;
    assert_outcome!(occupied.await.unwrap(), CommitOutcome::Committed(_));
    fixture.a_session_waits().await;
    let probe = fixture.session().await;
    probe
        .client
        .batch_execute(&insert("b"))
        .await
        .expect("the second was inserted before the first could be");
    execute(&probe, "ROLLBACK").await;
    execute(&competitor, "ROLLBACK").await;
    assert_outcome!(first.await.unwrap(), CommitOutcome::Committed(_));
    assert_outcome!(second.await.unwrap(), CommitOutcome::Committed(_));
    fixture.is_sound().await;
}

#[tokio::test]
async fn contended_requests_lock_their_stimulus_keys_in_one_order() {
    let fixture = Fixture::new().await;
    let one = Arc::new(fixture.writer().await);
    let two = Arc::new(fixture.writer().await);
    let competitor = fixture.session().await;
    let class = fixture.base.schema().lock_class();
    let (low, high) = (StimulusHash([1; 32]).lock_key(), StimulusHash([2; 32]).lock_key());
    execute(
        &competitor,
        &format!("BEGIN; SELECT pg_advisory_xact_lock({class}, {low}), pg_advisory_xact_lock({class}, {high})"),
    )
    .await;
    let a = spawn(&one, waiting(waiting(burst("a", None), "b", 1), "c", 2));
    let b = spawn(&two, waiting(waiting(burst("b", None), "b", 2), "c", 1));
    let waiters = format!(
        "SELECT CASE WHEN count(*) = 2 THEN count(*) FILTER (WHERE objid::bigint = {low}) ELSE -1 END
         FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database
                                                                                  WHERE datname = current_database())"
    );
    fixture.until(2, &waiters).await;
    execute(&competitor, "ROLLBACK").await;
    assert_outcome!(a.await.unwrap(), CommitOutcome::Committed(_));
    assert_outcome!(b.await.unwrap(), CommitOutcome::Committed(_));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_contended_request_that_timed_out_on_a_key_waits_again() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let publisher = fixture.session().await;
    let class = fixture.base.schema().lock_class();
    let key = StimulusHash([9; 32]).lock_key();
    execute(
        &publisher,
        &format!("BEGIN; SELECT pg_advisory_xact_lock({class}, {key})"),
    )
    .await;
    let contended = spawn(&writer, waiting(burst("i", None), "b", 9));
    fixture.a_session_waits().await;
    let begun = "SELECT coalesce(max(extract(epoch FROM xact_start) * 1000000), 0)::bigint FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event = 'advisory'";
    let first = fixture.count(begun).await.max(1);
    // Its lock_timeout ends the first wait. The statements after it say only that the transaction is over, which must
    // not be reported as the error of the burst.
    let again = format!("SELECT (({begun}) > {first})::integer::bigint");
    fixture.until(1, &again).await;
    execute(&publisher, "ROLLBACK").await;
    assert_outcome!(contended.await.unwrap(), CommitOutcome::Committed(_));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_commit_that_publishes_waits_for_commits_of_new_bookmarks() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let begins_to_wait = fixture.session().await;
    let (class, key) = (
        fixture.base.schema().lock_class(),
        StimulusKey::Target(&InstanceId::from("i")).number(&StimulusHash([9; 32])),
    );
    execute(
        &begins_to_wait,
        &format!("BEGIN; SELECT pg_advisory_xact_lock_shared({class}, {key})"),
    )
    .await;
    let publishes = spawn(&writer, stimulus(waiting(burst("i", None), "b", 7), 9));
    fixture
        .until(
            1,
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ExclusiveLock'
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        .await;
    // Two instances that begin to wait for one stimulus do not block each other.
    let also_waits = tokio::time::timeout(Duration::from_secs(60), writer.write(waiting(burst("j", None), "b", 8)));
    assert_outcome!(also_waits.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!(fixture.version("i").await, None);
    execute(&begins_to_wait, "ROLLBACK").await;
    assert_outcome!(publishes.await.unwrap(), CommitOutcome::Committed(_));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_burst_whose_inbox_cannot_be_matched_is_not_committed() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    // The statement after the batch fails; COMMIT succeeds all the same, as a ROLLBACK.
    fixture.execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''23000''; END';
         CREATE TRIGGER refuse BEFORE DELETE ON inbox FOR EACH ROW EXECUTE FUNCTION refuse();
         INSERT INTO inbox (tenant_id, hash, name, expires_at)
         VALUES ('', decode(repeat('09', 32), 'hex'), 'Elsa.Event', now() + '1 h')",
    )
    .await;
    assert_outcome!(
        writer.write(waiting(burst("i", None), "b", 9)).await,
        CommitOutcome::Refused(_)
    );
    assert_eq!(fixture.version("i").await, None);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_burst_that_fails_at_the_very_commit_is_not_called_won() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    fixture.execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''23000''; END';
         CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON instance DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    .await;
    // As one statement, and as a pipeline.
    assert_outcome!(writer.write(burst("i", None)).await, CommitOutcome::Refused(_));
    assert_outcome!(
        writer.write(waiting(burst("j", None), "b", 9)).await,
        CommitOutcome::Refused(_)
    );
    assert_eq!(fixture.count("SELECT count(*) FROM instance").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn one_bad_row_of_a_full_batch_hurts_only_its_own_burst() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let (occupier, occupied) = occupy(&fixture, &writer).await;
    let mut bursts = Vec::new();
    for n in 0..5 {
        let mut request = waiting(journal(burst(&format!("i{n}"), None), 1), "b", n);
        if n == 2 {
            // A date that no timestamptz can hold: the whole statement fails.
            request.effects.elapsed = Duration::from_micros(i64::MAX as u64);
        }
        bursts.push(spawn(&writer, request));
    }
    execute(&occupier, "ROLLBACK").await;
    assert_outcome!(occupied.await.unwrap(), CommitOutcome::Committed(_));
    for (n, burst) in bursts.into_iter().enumerate() {
        match (n, burst.await.unwrap()) {
            (2, outcome) => assert_outcome!(outcome, CommitOutcome::Refused(_)),
            (_, outcome) => assert_outcome!(outcome, CommitOutcome::Committed(_)),
        }
    }
    fixture.is_sound().await;
}

#[tokio::test]
async fn two_bursts_of_one_instance_never_share_a_batch() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    // Counts the batches, those that fail as well: a sequence is never rolled back.
    fixture.execute("CREATE SEQUENCE batches;
         CREATE FUNCTION tick() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM nextval(''batches''); RETURN NULL; END';
         CREATE TRIGGER tick BEFORE UPDATE ON instance FOR EACH STATEMENT EXECUTE FUNCTION tick()",
    )
    .await;
    let (occupier, occupied) = occupy(&fixture, &writer).await;
    let batches = "SELECT last_value FROM batches";
    let before = fixture.count(batches).await;
    // In one statement both would succeed while the version grows once, so that statement must fail.
    let one = spawn(&writer, waiting(journal(burst("i", Some(1)), 1), "b1", 7));
    let two = spawn(&writer, waiting(journal(burst("i", Some(1)), 2), "b2", 7));
    execute(&occupier, "ROLLBACK").await;
    assert_outcome!(occupied.await.unwrap(), CommitOutcome::Committed(_));
    assert_outcome!(one.await.unwrap(), CommitOutcome::Committed(_));
    assert_outcome!(two.await.unwrap(), CommitOutcome::VersionConflict);
    assert_eq!(fixture.version("i").await, Some(2));
    let made = "SELECT count(*) FROM bookmark WHERE instance_id = 'i'";
    assert_eq!(fixture.count(made).await, 2);
    assert_eq!(fixture.count(batches).await - before, 2, "they were in one batch");
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_accepted_cancel_fences_the_burst_that_runs() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let running = waiting(journal(burst("i", Some(1)), 1), "b2", 7);
    let accepted = work::accept_cancel(&writer.pool, &running.tenant, &running.instance).await;
    assert!(matches!(accepted.unwrap(), AcceptedCancel::Accepted(_)));
    assert_outcome!(writer.write(running).await, CommitOutcome::VersionConflict);
    assert_eq!(fixture.version("i").await, Some(2));
    fixture.is_sound().await;
}

#[tokio::test]
async fn claims_are_released_only_after_the_fence_row_is_deleted() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let (occupier, occupied) = occupy(&fixture, &writer).await;
    fixture.claimed_work("occupied", writer.incarnation).await;
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
    });
    fixture.so_many_wait(2).await;
    let released = "SELECT count(*) FROM work WHERE claimed_by IS NULL";
    assert_eq!(fixture.count(released).await, 0, "released while a commit is in flight");
    execute(&occupier, "ROLLBACK").await;
    assert_outcome!(occupied.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!(removal.await.unwrap().unwrap(), 1);
    assert_eq!(fixture.count(released).await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_removed_incarnation_loses_its_sessions_and_its_claims_count_a_crash() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    fixture.claimed_work("i", writer.incarnation).await;
    let idle = writer.connector.open().await.unwrap();
    let session = fixture.session().await;
    let node = NodeId::new("test");
    removal::remove(&session.client, writer.incarnation, &node, RemovalCause::Crashed)
        .await
        .unwrap();
    let mut lost = idle.lost();
    tokio::time::timeout(Duration::from_secs(60), lost.wait_for(|lost| *lost))
        .await
        .expect("a session of a removed incarnation still exists")
        .unwrap();
    assert_eq!(fixture.count("SELECT sum(crashes) FROM work").await, 1);
    // An unregistered incarnation (the server crashed) does not prove that its process crashed.
    fixture.claimed_work("i", Incarnation(4711)).await;
    removal::remove(&session.client, Incarnation(4711), &node, RemovalCause::Crashed)
        .await
        .unwrap();
    assert_eq!(fixture.count("SELECT sum(crashes) FROM work").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM removed_node").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_unfinished_removal_is_found() {
    let fixture = Fixture::new().await;
    fixture
        .execute(
            "INSERT INTO removed_node (incarnation, node_id, crashed, removed_at)
         VALUES (41, 'old', true, clock_timestamp() - interval '1 minute'), (42, 'fresh', true, clock_timestamp())",
        )
        .await;
    assert_eq!(
        removal::orphaned(&fixture.admin.client).await.unwrap(),
        [Incarnation(41)]
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_session_lock_never_blocks_a_stimulus() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let holder = fixture.session().await;
    let class = i64::from(fixture.base.schema().lock_class());
    let key = i64::from(StimulusHash([9; 32]).lock_key());
    // The same 64 bits, in the space of session locks, and a lock of the stimulus in another schema.
    execute(
        &holder,
        &format!(
            "SELECT pg_advisory_lock({}), pg_advisory_lock({}, {key})",
            (class << 32) | key,
            class ^ 1
        ),
    )
    .await;
    let request = waiting(burst("i", None), "b", 9);
    let outcome = tokio::time::timeout(Duration::from_secs(60), writer.write(request)).await;
    assert_outcome!(outcome.expect("a session lock blocked it"), CommitOutcome::Committed(_));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_removal_does_not_end_while_a_claim_is_locked() {
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
    });
    // It has released all that it found, and now checks for other claims.
    let asks = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE '%whether anything is still claimed%'
                  AND pid <> pg_backend_pid()";
    fixture.until(1, asks).await;
    assert!(!removal.is_finished());
    assert_eq!(
        fixture.count("SELECT count(*) FROM removed_node").await,
        1,
        "removed too early"
    );
    execute(&ending, "ROLLBACK").await;
    assert_eq!(removal.await.unwrap().unwrap(), 3);
    assert_eq!(fixture.count("SELECT count(*) FROM removed_node").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_contended_request_locks_its_claims_in_order() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(delay(delay(burst("i", None), "d1"), "d2")).await;
    let low = fixture.claimed_work("i", writer.incarnation).await;
    let high = fixture.claimed_work("i", writer.incarnation).await;
    fixture
        .execute(&format!(
            "UPDATE timer SET claimed_by = {}, claim_no = 1, has_begun = true",
            writer.incarnation
        ))
        .await;
    let due = |id: &str| Claim::Timer(BookmarkId::new(id), ClaimNo(1));
    for (claims, table, made) in [
        (vec![high, low], "work", "b1"),
        (vec![due("d2"), due("d1")], "timer", "b2"),
    ] {
        // A commit that waits for the first must not hold the second, for which the other may wait.
        let lock = |direction: &str| format!("BEGIN; SELECT 1 FROM {table} ORDER BY id {direction} LIMIT 1 FOR UPDATE");
        let blocker = fixture.session().await;
        execute(&blocker, &lock("ASC")).await;
        let version = fixture.version("i").await;
        let mut request = waiting(burst("i", version), made, 7);
        request.claims = claims;
        let contended = spawn(&writer, request);
        fixture.a_session_waits().await;
        let probe = fixture.session().await;
        probe
            .client
            .batch_execute(&format!("{} NOWAIT", lock("DESC")))
            .await
            .expect("the second was locked before the first could be");
        execute(&probe, "ROLLBACK").await;
        execute(&blocker, "ROLLBACK").await;
        assert_outcome!(contended.await.unwrap(), CommitOutcome::Committed(_));
        assert_eq!(fixture.count(&format!("SELECT count(*) FROM {table}")).await, 0);
    }
}
