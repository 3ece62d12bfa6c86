//! Stimuli without a bookmark: how later bookmarks match them, in both orders and with both transactions open, and how
//! unmatched ones expire.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::assert_outcome;
use crate::db::Session;
use crate::id::{Incarnation, InstanceId, NodeId, StimulusHash, TenantId};
use crate::store::commit::{CommitOutcome, CommitRequest, WaitingBookmark};
use crate::store::dead_letter::stimulus;
use crate::store::event::{self, NewEvent, PublishedEvent};
use crate::store::maintenance;
use crate::store::stimulus_key::StimulusKey;
use crate::testing::store::{self, Fixture, Writer, burst, occupy, spawn, waiting};

const HASH: u8 = 9;
const LIFETIME: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn event(key: &str) -> NewEvent {
    NewEvent {
        payload: Some(json!({"said": key})),
        lifetime: LIFETIME,
        ..store::event(key, HASH)
    }
}

/// An event with a target, in each of the three forms.
fn targeted(key: &str, target: usize) -> NewEvent {
    let mut event = event(key);
    match target {
        0 => event.correlation_id = Some("order".to_owned()),
        1 => event.instance = Some(InstanceId::new("i")),
        _ => event.activity_execution_id = Some("e".to_owned()),
    }
    event
}

async fn publish(fixture: &Fixture, writer: &Writer, event: &NewEvent) -> PublishedEvent {
    event::publish(&writer.pool, fixture.base.schema().lock_class(), event)
        .await
        .unwrap()
}

fn correlated(mut request: CommitRequest, id: &str) -> CommitRequest {
    request.effects.correlation_id = Some(id.to_owned());
    request
}

/// A burst that keeps its bookmark and changes the correlation id of its instance.
fn correlates(instance: &str, expected: i64, bookmark: &str) -> CommitRequest {
    let mut request = correlated(burst(instance, Some(expected)), "order");
    (request.effects.status, request.effects.sub_status) = (0, 2);
    request.effects.rematched = vec![WaitingBookmark {
        bookmark: bookmark.to_owned(),
        hash: StimulusHash([HASH; 32]),
    }];
    request
}

const KEPT: &str = "SELECT count(*) FROM inbox";
const MATCHED: &str = "SELECT count(*) FROM work WHERE kind = 2";

#[tokio::test]
async fn of_two_new_bookmarks_at_once_one_gets_the_kept_stimulus() {
    let fixture = Fixture::new().await;
    let (one, two) = (Arc::new(fixture.writer().await), Arc::new(fixture.writer().await));
    assert!(publish(&fixture, &one, &event("a")).await.kept);
    // Both have written their bookmark, and neither has committed it.
    let blocker = fixture.begin("SELECT 1 FROM inbox FOR UPDATE").await;
    let first = spawn(&one, waiting(burst("i", None), "b", HASH));
    let second = spawn(&two, waiting(burst("j", None), "b", HASH));
    fixture.so_many_wait(2).await;
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(first.await.unwrap(), CommitOutcome::Committed(_));
    assert_outcome!(second.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!((fixture.count(KEPT).await, fixture.count(MATCHED).await), (0, 1));
    // The other one gets the next.
    assert_eq!(publish(&fixture, &two, &event("b")).await.resumed, 2);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_targeted_stimulus_is_matched_by_its_target_only() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for target in 0..3 {
        assert!(
            publish(&fixture, &writer, &targeted(&format!("t{target}"), target))
                .await
                .kept
        );
    }
    let mut mismatched = correlated(waiting(burst("j", None), "b", HASH), "another");
    mismatched.effects.bookmarks_made[0].activity_execution_id = "f".to_owned();
    writer.commits(mismatched).await;
    assert_eq!((fixture.count(KEPT).await, fixture.count(MATCHED).await), (3, 0));
    // An instance that matches all of them takes one for each bookmark.
    let mut matching = correlated(waiting(burst("i", None), "b", HASH), "order");
    for bookmark in ["c", "d"] {
        matching = waiting(matching, bookmark, HASH);
    }
    writer.commits(matching).await;
    assert_eq!((fixture.count(KEPT).await, fixture.count(MATCHED).await), (0, 3));
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_and_a_later_correlation_never_miss_each_other_when_the_correlation_comes_first() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let other = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", HASH)).await;
    let blocker = fixture.stop_at("i").await;
    let correlating = spawn(&writer, correlates("i", 1, "b"));
    fixture.a_session_waits().await;
    let class = fixture.base.schema().lock_class();
    let publishes = tokio::spawn(async move { event::publish(&other.pool, class, &targeted("a", 0)).await.unwrap() });
    fixture.so_many_wait(2).await;
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(correlating.await.unwrap(), CommitOutcome::Committed(_));
    let published = publishes.await.unwrap();
    assert_eq!((published.resumed, published.kept), (1, false));
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_and_a_later_correlation_never_miss_each_other_when_the_event_comes_first() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", HASH)).await;
    // A publisher that matched no instance of this correlation id and has not committed its row.
    let (class, key) = (
        fixture.base.schema().lock_class(),
        StimulusKey::Correlation("order").number(&StimulusHash([HASH; 32])),
    );
    let publisher = fixture
        .begin(&format!(
            "SELECT pg_advisory_xact_lock({class}, {key});
             INSERT INTO inbox (tenant_id, hash, name, correlation_id, expires_at)
             VALUES ('', decode(repeat('09', 32), 'hex'), 'Elsa.Event', 'order', now() + '1 h')"
        ))
        .await;
    let correlating = spawn(&writer, correlates("i", 1, "b"));
    fixture.a_session_waits().await;
    publisher.client.batch_execute("COMMIT").await.unwrap();
    assert_outcome!(correlating.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!((fixture.count(KEPT).await, fixture.count(MATCHED).await), (0, 1));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_correlation_that_loses_matches_nothing() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", HASH)).await;
    assert!(publish(&fixture, &writer, &targeted("a", 0)).await.kept);
    assert_outcome!(
        writer.write(correlates("i", 7, "b")).await,
        CommitOutcome::VersionConflict
    );
    assert_eq!((fixture.count(KEPT).await, fixture.count(MATCHED).await), (1, 0));
    writer.commits(correlates("i", 1, "b")).await;
    assert_eq!((fixture.count(KEPT).await, fixture.count(MATCHED).await), (0, 1));
    fixture.is_sound().await;
}

async fn expire(fixture: &Fixture, writer: &Writer) {
    fixture.execute("UPDATE inbox SET expires_at = now()").await;
    maintenance::purge_expired(&writer.pool, maintenance::Retention::of(DAY))
        .await
        .unwrap();
}

async fn replay(fixture: &Fixture, writer: &Writer, id: i64) -> Option<stimulus::ReplayedStimulus> {
    let class = fixture.base.schema().lock_class();
    stimulus::replay(&writer.pool, class, &TenantId::default(), id, LIFETIME)
        .await
        .unwrap()
}

#[tokio::test]
async fn only_a_targeted_stimulus_becomes_a_dead_letter_and_is_replayed_to_its_target() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    publish(&fixture, &writer, &event("anybody")).await;
    for target in 0..3 {
        publish(&fixture, &writer, &targeted(&format!("t{target}"), target)).await;
    }
    assert!(writer.dead_letters().await.is_empty());
    expire(&fixture, &writer).await;
    assert_eq!(fixture.count(KEPT).await, 0);
    let found = writer.dead_letters().await;
    let said: Vec<_> = found
        .iter()
        .rev()
        .map(|dead_letter| dead_letter.body["payload"]["said"].clone())
        .collect();
    assert_eq!(said, ["t0", "t1", "t2"]);
    assert!(
        found
            .iter()
            .all(|dead_letter| dead_letter.kind == "stimulus" && dead_letter.reason.contains("expired"))
    );
    fixture.is_sound().await;
    // No bookmark waits yet: it is kept again, for the same target.
    for dead_letter in &found {
        let replayed = replay(&fixture, &writer, dead_letter.id).await.unwrap();
        assert!(replayed.published.unwrap().kept);
        assert!(replay(&fixture, &writer, dead_letter.id).await.is_none(), "twice");
    }
    assert!(writer.dead_letters().await.is_empty());
    assert_eq!(
        fixture
            .count(
                "SELECT count(*) FROM inbox WHERE payload->>'said' = 't' || CASE WHEN correlation_id = 'order' THEN 0
                 WHEN instance_id = 'i' THEN 1 WHEN activity_execution_id = 'e' THEN 2 END"
            )
            .await,
        3
    );
    let mut matching = correlated(waiting(burst("i", None), "b", HASH), "order");
    for bookmark in ["c", "d"] {
        matching = waiting(matching, bookmark, HASH);
    }
    writer.commits(matching).await;
    assert_eq!((fixture.count(KEPT).await, fixture.count(MATCHED).await), (0, 3));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_replay_matches_open_bookmarks_and_is_deleted_after_the_end_of_its_instance() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for key in ["a", "b"] {
        publish(&fixture, &writer, &targeted(key, 1)).await;
    }
    expire(&fixture, &writer).await;
    let found = writer.dead_letters().await;
    writer.commits(waiting(burst("i", None), "b", HASH)).await;
    let replayed = replay(&fixture, &writer, found[0].id).await.unwrap();
    assert_eq!(replayed.published.unwrap().resumed, 1);
    fixture.execute("DELETE FROM work").await;
    let mut ends = burst("i", Some(1));
    ends.effects.bookmarks_burned = vec![crate::id::BookmarkId::new("b")];
    writer.commits(ends).await;
    let unneeded = replay(&fixture, &writer, found[1].id).await.unwrap();
    assert!(unneeded.published.is_none() && unneeded.instance == Some(InstanceId::new("i")));
    assert!(writer.dead_letters().await.is_empty());
    // What was kept for an instance that has ended says so.
    publish(&fixture, &writer, &targeted("c", 1)).await;
    expire(&fixture, &writer).await;
    assert!(writer.dead_letters().await[0].reason.contains("has ended"));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_stimulus_about_to_expire_is_matched_or_dead_lettered_but_not_both() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    publish(&fixture, &writer, &targeted("a", 1)).await;
    publish(&fixture, &writer, &targeted("b", 1)).await;
    let time_is_over = "UPDATE inbox SET expires_at = now()";
    fixture.execute(time_is_over).await;
    // A commit that has matched one of them in time, and not yet committed.
    let commits = fixture
        .begin("DELETE FROM inbox WHERE id = (SELECT min(id) FROM inbox)")
        .await;
    maintenance::purge_expired(&writer.pool, maintenance::Retention::of(DAY))
        .await
        .unwrap();
    assert_eq!(writer.dead_letters().await.len(), 1);
    commits.client.batch_execute("COMMIT").await.unwrap();
    // An expired stimulus is not matched, even before the purge.
    publish(&fixture, &writer, &targeted("c", 1)).await;
    fixture.execute(time_is_over).await;
    writer.commits(waiting(burst("i", None), "b", HASH)).await;
    assert_eq!(fixture.count(MATCHED).await, 0);
    maintenance::purge_expired(&writer.pool, maintenance::Retention::of(DAY))
        .await
        .unwrap();
    assert_eq!(writer.dead_letters().await.len(), 2);
    fixture.is_sound().await;
}

#[tokio::test]
async fn only_dead_letters_of_stimuli_are_purged_after_a_while() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for key in ["old", "young"] {
        publish(&fixture, &writer, &targeted(key, 0)).await;
    }
    expire(&fixture, &writer).await;
    let ages = "UPDATE dead_letter SET created_at = now() - interval '1 day' - interval '1 minute'
                WHERE body->'payload'->>'said' = 'old';
                UPDATE dead_letter SET created_at = now() - interval '1 day' + interval '1 hour'
                WHERE body->'payload'->>'said' = 'young';
                INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, body, failures, crashes, created_at)
                VALUES ('', 'i', 1, 'crashed', 7, '{}', 0, 3, now() - interval '9 years')";
    fixture.execute(ages).await;
    maintenance::purge_expired(&writer.pool, maintenance::Retention::of(DAY))
        .await
        .unwrap();
    let left = writer.dead_letters().await;
    let kinds: Vec<_> = left.iter().map(|dead_letter| dead_letter.kind).collect();
    assert_eq!(kinds, ["resume", "stimulus"]);
    assert_eq!(left[1].body["payload"]["said"], "young");
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_replay_and_a_new_bookmark_never_miss_each_other() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    publish(&fixture, &writer, &targeted("a", 1)).await;
    expire(&fixture, &writer).await;
    let id = writer.dead_letters().await[0].id;
    writer.commits(waiting(burst("i", None), "x", 7)).await;
    let blocker = fixture.stop_at("i").await;
    let begins = spawn(&writer, waiting(burst("i", Some(1)), "b", HASH));
    fixture.a_session_waits().await;
    let class = fixture.base.schema().lock_class();
    let replays = tokio::spawn({
        let pool = writer.pool.clone();
        async move { stimulus::replay(&pool, class, &TenantId::default(), id, LIFETIME).await }
    });
    fixture.so_many_wait(2).await;
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(begins.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!(replays.await.unwrap().unwrap().unwrap().published.unwrap().resumed, 1);
    fixture.is_sound().await;
}

/// Keeps stimuli of these bytes each, the oldest first.
async fn keep(fixture: &Fixture, hash: u8, bytes: &[i32]) {
    for bytes in bytes {
        let kept = format!(
            "INSERT INTO inbox (tenant_id, hash, name, payload, expires_at)
             VALUES ('', decode(repeat('0{hash}', 32), 'hex'), 'Elsa.Event', to_json(repeat('x', {bytes})), now() + '1 h')"
        );
        fixture.execute(&kept).await;
    }
}

#[tokio::test]
async fn a_batch_that_would_copy_too_many_bytes_is_split_and_each_burst_is_committed() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    keep(&fixture, HASH, &[3 << 20; 6]).await;
    let (blocker, in_flight) = occupy(&fixture, &writer).await;
    // Together in one batch. The last one alone takes more than a batch may.
    let mut bursts: Vec<_> = (0..3)
        .map(|n| spawn(&writer, waiting(burst(&format!("i{n}"), None), "b", HASH)))
        .collect();
    let alone = ["b", "c", "d"]
        .into_iter()
        .fold(burst("j", None), |request, bookmark| waiting(request, bookmark, HASH));
    bursts.push(spawn(&writer, alone));
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(in_flight.await.unwrap(), CommitOutcome::Committed(_));
    for burst in bursts {
        assert_outcome!(burst.await.unwrap(), CommitOutcome::Committed(_));
    }
    assert_eq!((fixture.count(KEPT).await, fixture.count(MATCHED).await), (0, 6));
    let per_transaction = "SELECT max(bytes)::bigint FROM (SELECT sum(length(body->>'payload')) AS bytes,
                               count(DISTINCT instance_id) AS instances FROM work GROUP BY created_at) t
                           WHERE instances > 1";
    let most = fixture
        .admin
        .client
        .query_one(per_transaction, &[])
        .await
        .unwrap()
        .get::<_, Option<i64>>(0);
    assert!(most.unwrap_or(0) <= 8 << 20, "{most:?}");
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_stimulus_that_is_taken_while_its_lock_is_awaited_is_replaced_by_the_next() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    keep(&fixture, 8, &[1]).await;
    keep(&fixture, HASH, &[1, 2]).await;
    let takes = fixture.begin("DELETE FROM inbox WHERE id = 2").await;
    let both = waiting(waiting(burst("i", None), "b", HASH), "c", 8);
    let begins = spawn(&writer, both);
    fixture.a_session_waits().await;
    takes.client.batch_execute("COMMIT").await.unwrap();
    assert_outcome!(begins.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!((fixture.count(KEPT).await, fixture.count(MATCHED).await), (0, 2));
    fixture.is_sound().await;
}

/// Bookmarks of several instances in one batch, with stimuli for anyone, for a correlation id, an instance, both, and an
/// activity execution that two instances share.
#[tokio::test]
async fn of_a_batch_each_bookmark_takes_the_oldest_that_fits() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let kept = "INSERT INTO inbox (tenant_id, hash, name, payload, instance_id, correlation_id, activity_execution_id,
                                   expires_at)
                SELECT '', decode(repeat('09', 32), 'hex'), 'Elsa.Event', to_json(k.n), k.i, k.c, k.e, now() + '1 h'
                FROM (VALUES (1, NULL, 'order', NULL), (2, 'i1', NULL, NULL), (3, NULL, NULL, 'e'),
                             (4, 'i2', 'order', NULL), (5, NULL, NULL, NULL), (6, NULL, 'order', NULL),
                             (7, 'i1', 'other', NULL), (8, NULL, '', NULL), (9, 'i3', NULL, 'f')) k(n, i, c, e)";
    fixture.execute(kept).await;
    let (blocker, in_flight) = occupy(&fixture, &writer).await;
    let of = |id: &str, correlation: &str| correlated(waiting(burst(id, None), "b", HASH), correlation);
    let bursts: Vec<_> = [
        of("i1", "order"),
        of("i2", "order"),
        waiting(burst("i3", None), "b", HASH),
        of("i4", ""),
    ]
    .into_iter()
    .map(|request| spawn(&writer, request))
    .collect();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(in_flight.await.unwrap(), CommitOutcome::Committed(_));
    for burst in bursts {
        assert_outcome!(burst.await.unwrap(), CommitOutcome::Committed(_));
    }
    let taken = "SELECT string_agg(instance_id || ':' || (body->>'payload'), ' ' ORDER BY instance_id)
                 FROM work WHERE kind = 2";
    let taken: String = fixture.admin.client.query_one(taken, &[]).await.unwrap().get(0);
    // In the order of their correlation ids: '' first, none last.
    assert_eq!(taken, "i1:1 i2:4 i3:5 i4:3");
    assert_eq!(fixture.count(KEPT).await, 5);
}

/// How many pages the match of one bookmark reads and writes, of a session that has planned it before.
async fn match_pages(session: &Session, bookmark: &str) -> i64 {
    let explain = format!(
        "BEGIN;
         INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version,
                               correlation_id, state)
             VALUES ('', 'i', 'd', 'd1', 1, 0, 2, 1, 'c77777', '');
         INSERT INTO bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash,
                               payload, publishable)
             SELECT '', 'i', n, 'a', 'n', 'e', 'Elsa.Event', sha256(n::bytea), '{{}}', true
             FROM unnest(array['correlated', 'any', 'instance', 'execution', 'none']) n;
         EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT match_inbox('{{\"\"}}', '{{i}}', '{{{bookmark}}}')"
    );
    let messages = session.client.simple_query(&explain).await.unwrap();
    let plan = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: serde_json::Value = serde_json::from_str(plan.unwrap()).unwrap();
    let matched = "SELECT count(*) FROM work WHERE body->>'bookmarkId' = $1";
    let matched: i64 = session.client.query_one(matched, &[&bookmark]).await.unwrap().get(0);
    session.client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(matched, i64::from(bookmark != "none"), "{bookmark}");
    let of = |name: &str| plan[0]["Plan"][name].as_i64().unwrap();
    of("Shared Hit Blocks") + of("Shared Read Blocks")
}

/// Whatever the inbox held when a session planned the match: nothing, many dead rows, or much.
#[tokio::test]
async fn the_match_of_a_bookmark_does_not_depend_on_how_many_events_are_kept() {
    let fixture = Fixture::new().await;
    let client = &fixture.admin.client;
    let one_of_each = |from: i64, to: i64| {
        format!(
            "INSERT INTO inbox (tenant_id, hash, name, payload, instance_id, correlation_id, activity_execution_id,
                                expires_at)
             SELECT '', sha256(k.name::bytea), 'Elsa.Event', '1', k.instance, k.correlation, k.execution, now() + '1 h'
             FROM generate_series({from}, {to}) n
             CROSS JOIN LATERAL (VALUES ('correlated', NULL, 'c' || (n + 77775) % 100000 + 1, NULL), ('any', NULL, NULL, NULL),
                                        ('instance', 'i', 'c' || (n + 77775) % 100000 + 1, NULL), ('execution', NULL, NULL, 'e'),
                                        ('other', 'i', NULL, NULL), ('other', NULL, NULL, 'e'))
                 k(name, instance, correlation, execution)
             WHERE n <= 10000 OR k.name IN ('correlated', 'any')"
        )
    };
    let setup = "ALTER TABLE inbox SET (autovacuum_enabled = false); SET statement_timeout = '2min'";
    client.batch_execute(setup).await.unwrap();
    let empty = "DELETE FROM inbox; VACUUM (TRUNCATE false) inbox; VACUUM (TRUNCATE false) inbox";
    for state in ["ANALYZE inbox", empty] {
        for statement in state.split(';') {
            // A snapshot, as autovacuum has while it analyses a table, keeps dead rows.
            let snapshots = "SELECT count(*) FROM pg_stat_activity
                             WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL";
            fixture.until(0, snapshots).await;
            client.batch_execute(statement).await.unwrap();
        }
        let node = fixture
            .base
            .of(Incarnation(1), &NodeId::new("test"))
            .open()
            .await
            .unwrap();
        let generic = "SET plan_cache_mode = force_generic_plan";
        node.client.batch_execute(generic).await.unwrap();
        client.batch_execute(&one_of_each(1, 1)).await.unwrap();
        for bookmark in ["correlated", "any", "instance", "execution", "none"] {
            match_pages(&node, bookmark).await;
        }
        client.batch_execute(&one_of_each(2, 100_000)).await.unwrap();
        for bookmark in ["correlated", "any", "instance", "execution", "none"] {
            let pages = match_pages(&node, bookmark).await;
            assert!(pages < 100, "{pages} pages for a match with {bookmark} after {state}");
        }
    }
}
