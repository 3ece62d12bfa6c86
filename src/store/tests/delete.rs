//! A delete removes all rows of an instance, including those of a commit in flight.

use std::sync::Arc;

use super::definitions::{definition, start};
use crate::assert_outcome;
use crate::db::{Pool, Session};
use crate::id::{ClaimNo, InstanceId, TenantId};
use crate::store::commit::{Claim, CommitOutcome, CommitRequest};
use crate::store::definition as definitions;
use crate::store::definition::StartSources;
use crate::store::instance::delete::{self, DeleteFilter, ids_text};
use crate::store::instance::list::ListPools;
use crate::store::start::{AcceptedStart, Acceptor};
use crate::testing::store::{Fixture, burst, execute, journal, spawn, waiting};

const TABLES: [&str; 7] = [
    "instance",
    "bookmark",
    "timer",
    "work",
    "journal",
    "activation",
    "inbox",
];

async fn nothing_is_left(fixture: &Fixture) {
    for table in TABLES {
        let left = fixture.count(&format!("SELECT count(*) FROM {table}")).await;
        assert_eq!(left, 0, "{table}");
    }
    fixture.is_sound().await;
}

/// Blocks a burst in the middle of its commit, deletes its instance, and unblocks both.
async fn deleted_in_the_middle(
    request: impl AsyncFnOnce(&Fixture) -> CommitRequest,
    stops: impl AsyncFnOnce(&Fixture) -> Session,
) {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let mut request = request(&fixture).await;
    let claim = fixture.claimed_work("i", writer.incarnation).await;
    request.claims.push(claim.clone());
    let session = stops(&fixture).await;
    let commits = spawn(&writer, request);
    fixture.a_session_waits().await;
    let deletes = tokio::spawn({
        let pool = writer.pool.clone();
        async move { delete::delete(&pool, &TenantId::default(), &InstanceId::new("i")).await }
    });
    fixture.so_many_wait(2).await;
    session.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(commits.await.unwrap(), CommitOutcome::Committed(_));
    deletes.await.unwrap().unwrap().unwrap();
    nothing_is_left(&fixture).await;
    // A burst that loaded the instance before the delete writes nothing, nor does the first burst.
    for expected in [None, Some(1), Some(2)] {
        let mut late = journal(waiting(burst("i", expected), "late", 8), 9);
        late.claims.push(claim.clone());
        assert_outcome!(writer.write(late).await, CommitOutcome::ClaimLost);
    }
    nothing_is_left(&fixture).await;
    let again = delete::delete(&writer.pool, &TenantId::default(), &InstanceId::new("i")).await;
    assert_eq!(again.unwrap(), None);
}

#[tokio::test]
async fn a_delete_includes_what_a_commit_in_flight_writes() {
    let second = async |fixture: &Fixture| {
        let first = fixture.writer().await;
        let wrote = first.write(journal(waiting(burst("i", None), "b", 7), 1)).await;
        assert_outcome!(wrote, CommitOutcome::Committed(_));
        let mut second = journal(waiting(burst("i", Some(1)), "b2", 7), 2);
        second.effects.bookmarks_made[0].delay = Some(1_000_000);
        second
    };
    deleted_in_the_middle(second, async |fixture| fixture.stop_at("i").await).await;
}

#[tokio::test]
async fn a_delete_includes_what_the_first_commit_in_flight_writes() {
    let first = async |_: &Fixture| journal(waiting(burst("i", None), "b", 7), 1);
    let stops = async |fixture: &Fixture| {
        let session = fixture.session().await;
        let taken = "BEGIN; INSERT INTO bookmark VALUES ('', 'i', 'b', 0, '', '', '', '', '', '{}', true)";
        session.client.batch_execute(taken).await.unwrap();
        session
    };
    deleted_in_the_middle(first, stops).await;
}

/// The statement that deletes has a later snapshot than those that lock.
#[tokio::test]
async fn an_instance_that_appears_after_the_locks_is_deleted_with_its_records() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let pool = Pool::new(&fixture.base, 1).unwrap();
    let delete = async || {
        delete::delete(&pool, &TenantId::default(), &InstanceId::new("i"))
            .await
            .unwrap()
    };
    // The statements are prepared.
    assert_eq!(delete().await, None);
    // No statement before the last one reads this table.
    let session = fixture.begin("LOCK child IN ACCESS EXCLUSIVE MODE").await;
    let appears = async {
        fixture.so_many_wait(1).await;
        assert_outcome!(
            writer.write(journal(burst("i", None), 0)).await,
            CommitOutcome::Committed(_)
        );
        execute(&session, "ROLLBACK").await;
    };
    let (deleted, ()) = tokio::join!(delete(), appears);
    assert!(deleted.is_some());
    nothing_is_left(&fixture).await;
}

#[tokio::test]
async fn a_start_that_has_not_run_is_deleted_and_its_key_starts_nothing_again() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let class = fixture.base.schema().lock_class();
    definitions::save(&writer.pool, class, &definition("n"), Some(StartSources::by(&[])))
        .await
        .unwrap();
    let (acceptor, _task) = Acceptor::start(&writer.connector, &writer.pool, writer.incarnation, false);
    let AcceptedStart::New { work, .. } = acceptor.accept(start("i", Some("k"))).await.unwrap() else {
        panic!("it is new");
    };
    let deleted = delete::delete(&writer.pool, &TenantId::default(), &InstanceId::new("i")).await;
    assert_eq!(deleted.unwrap().unwrap().works, [work]);
    let mut burst = burst("i", None);
    burst.claims.push(Claim::Work(work, ClaimNo(1)));
    assert_outcome!(writer.write(burst).await, CommitOutcome::ClaimLost);
    let again = acceptor.accept(start("other", Some("k"))).await.unwrap();
    assert!(matches!(again, AcceptedStart::Existing { instance } if instance.as_str() == "i"));
    nothing_is_left(&fixture).await;
}

/// Work comes after the delete has locked what there was, and its commit waits for the instance that the delete waits
/// for, too.
#[tokio::test]
async fn a_contended_commit_and_a_delete_do_not_wait_for_each_other() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let session = fixture.begin("SELECT 1 FROM instance FOR UPDATE").await;
    let deletes = tokio::spawn({
        let pool = writer.pool.clone();
        async move { delete::delete(&pool, &TenantId::default(), &InstanceId::new("i")).await }
    });
    fixture.so_many_wait(1).await;
    let mut late = waiting(burst("i", Some(1)), "b2", 7);
    late.claims.push(fixture.claimed_work("i", writer.incarnation).await);
    let commits = spawn(&writer, late);
    fixture.so_many_wait(2).await;
    session.client.batch_execute("ROLLBACK").await.unwrap();
    deletes.await.unwrap().unwrap().unwrap();
    assert_outcome!(commits.await.unwrap(), CommitOutcome::Committed(_));
    nothing_is_left(&fixture).await;
}

#[tokio::test]
async fn stimuli_of_a_deleted_instance_are_locked_in_the_order_of_their_ids() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    for id in [200, 100] {
        let kept = format!(
            "INSERT INTO inbox (tenant_id, id, hash, name, instance_id, expires_at) OVERRIDING SYSTEM VALUE
             VALUES ('', {id}, 'other', 'Elsa.Event', 'i', now() + interval '1 hour')"
        );
        fixture.execute(&kept).await;
    }
    let session = fixture.begin("SELECT 1 FROM inbox WHERE id = 100 FOR UPDATE").await;
    let deletes = tokio::spawn({
        let pool = writer.pool.clone();
        async move { delete::delete(&pool, &TenantId::default(), &InstanceId::new("i")).await }
    });
    fixture.so_many_wait(1).await;
    execute(&session, "SELECT 1 FROM inbox WHERE id = 200 FOR UPDATE NOWAIT; COMMIT").await;
    deletes.await.unwrap().unwrap().unwrap();
    nothing_is_left(&fixture).await;
}

#[tokio::test]
async fn a_bookmark_locks_only_the_stimuli_that_it_can_take() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let kept =
        "INSERT INTO inbox (tenant_id, hash, name, instance_id, correlation_id, activity_execution_id, expires_at)
                SELECT '', decode(repeat('07', 32), 'hex'), 'Elsa.Event', v.i, v.c, v.e, now() + interval '1 hour'
                FROM (VALUES ('other', NULL, NULL), (NULL, 'other', NULL), (NULL, NULL, 'other')) v(i, c, e)";
    fixture.execute(kept).await;
    let session = fixture.begin("SELECT 1 FROM inbox FOR UPDATE").await;
    let writes = writer.write(waiting(burst("i", None), "b", 7));
    tokio::select! {
        outcome = writes => assert_outcome!(outcome, CommitOutcome::Committed(_)),
        () = fixture.a_session_waits() => panic!("it waits for what it cannot take"),
    }
    session.client.batch_execute("ROLLBACK").await.unwrap();
    // What it can take it takes.
    let fits = "UPDATE inbox SET instance_id = 'j' WHERE instance_id IS NOT NULL";
    fixture.execute(fits).await;
    writer.commits(waiting(burst("j", None), "b", 7)).await;
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 2);
    assert_eq!(
        fixture.count("SELECT count(*) FROM work WHERE instance_id = 'j'").await,
        1
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_start_that_is_replayed_in_the_same_moment_is_deleted() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let dead_letter =
        "INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, definition_id, version_id,
                                           definition_version, body, failures, crashes)
                  VALUES ('', 'i', 0, 'crashed', 1, 'd', 'd1', 1, '{}', 0, 3) RETURNING id";
    let dead_letter: i64 = fixture.admin.client.query_one(dead_letter, &[]).await.unwrap().get(0);
    let session = fixture.session().await;
    session.client.batch_execute("BEGIN").await.unwrap();
    let replay = include_str!("../../../sql/queries/dead_letter/replay.sql");
    session.client.query_one(replay, &[&"", &dead_letter]).await.unwrap();
    let deletes = tokio::spawn({
        let pool = writer.pool.clone();
        async move { delete::delete(&pool, &TenantId::default(), &InstanceId::new("i")).await }
    });
    fixture.so_many_wait(1).await;
    session.client.batch_execute("COMMIT").await.unwrap();
    let deleted = deletes.await.unwrap().unwrap().expect("the replayed start");
    assert_eq!(deleted.works.len(), 1);
    nothing_is_left(&fixture).await;
}

/// Among many finished instances of a version, the few that run are found by what waits for them.
#[tokio::test]
async fn unfinished_instances_are_found_without_reading_the_finished_ones() {
    let fixture = Fixture::new().await;
    let fill = "
        SET statement_timeout = '2min';
        INSERT INTO definition (tenant_id, version_id, definition_id, version, is_latest, is_published, was_published, body)
            VALUES ('', 'd1', 'd', 1, true, true, true, '{}');
        INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state)
            SELECT '', 'i' || n, 'd', 'd1', 1, CASE WHEN n > 3 THEN 1 ELSE 0 END, CASE WHEN n > 3 THEN 3 ELSE 2 END, 1, '{}'
            FROM generate_series(1, 50000) n;
        INSERT INTO bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash, payload,
                              publishable)
            SELECT '', 'i' || n, 'b', 'a', 'n', 'e', 'Elsa.Event', sha256('1'), '{}', true FROM generate_series(1, 2) n;
        INSERT INTO work (tenant_id, instance_id, kind, body) VALUES ('', 'i3', 1 /* resume */, '{}');
        INSERT INTO work (tenant_id, instance_id, kind, body, definition_id, version_id, definition_version)
            VALUES ('', 'new', 0 /* start */, '{}', 'd', 'd1', 1);
        ANALYZE";
    fixture.execute(fill).await;
    let pool = Pool::new(&fixture.base, 1).unwrap();
    let filter = DeleteFilter {
        version_id: Some("d1"),
        unfinished: true,
        limit: 1001,
        ..DeleteFilter::default()
    };
    let pools = ListPools::of_work(&pool);
    let mut found = delete::list_ids(pools, &TenantId::default(), &filter).await.unwrap();
    found.sort();
    let expected = ["i1", "i2", "i3", "new"].map(InstanceId::new);
    assert_eq!(found, expected);
    let explain = format!(
        "SET plan_cache_mode = force_custom_plan;
         PREPARE ids (text, text[], text[], text, integer, boolean, bigint) AS {};
         EXPLAIN EXECUTE ids('', NULL, NULL, 'd1', NULL, true, 1001)",
        ids_text(true)
    );
    let messages = fixture.admin.client.simple_query(&explain).await.unwrap();
    let lines = messages.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan = lines.collect::<Vec<_>>().join("\n");
    assert!(
        plan.contains("instance_pkey") && !plan.contains("instance_by_version"),
        "{plan}"
    );
    // All of them, where also finished ones are meant.
    let all = DeleteFilter {
        unfinished: false,
        ..filter
    };
    let found = delete::list_ids(pools, &TenantId::default(), &all).await.unwrap();
    assert_eq!(found.len(), 1001);
}
