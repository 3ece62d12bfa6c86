//! The sample of the cluster has what the table of metrics says, right and cheap, and the ring of seconds does not grow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::plan_tables::FILL;
use crate::db::Session;
use crate::id::Incarnation;
use crate::metric;
use crate::store::check;
use crate::store::cluster_sample::{self, TAKE};
use crate::store::maintenance::{self, Job};
use crate::testing::store::{Fixture, Writer};

const INTERVAL: Duration = Duration::from_secs(15);

/// Before all that is due.
fn long_ago() -> DateTime<Utc> {
    Utc::now() - Duration::from_secs(10 * 24 * 3600)
}

async fn sampled(writer: &Writer) -> BTreeMap<String, f64> {
    cluster_sample::take(&writer.pool, long_ago(), metric::TABLES)
        .await
        .unwrap();
    last(writer).await
}

/// Samples over a session, which counts only tables of fewer bytes.
async fn take_counting(session: &Session, counted: i64) {
    let params: [&(dyn postgres_types::ToSql + Sync); 3] = [&long_ago(), &counted, &metric::TABLES];
    session.client.query(TAKE, &params).await.unwrap();
}

async fn last(writer: &Writer) -> BTreeMap<String, f64> {
    cluster_sample::read(&writer.pool).await.unwrap().unwrap().numbers
}

#[tokio::test]
async fn the_sample_has_each_metric_of_the_cluster_and_no_other() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    assert!(cluster_sample::read(&writer.pool).await.unwrap().is_none());
    let numbers = sampled(&writer).await;
    let found: BTreeSet<String> = numbers.keys().cloned().collect();
    let expected: BTreeSet<String> = metric::all()
        .filter(|metric| !metric.is_of_node() && !metric.name.contains("_sample_"))
        .flat_map(|metric| {
            let name = metric.name.trim_start_matches("mainspring_cluster_");
            match metric.values() {
                [] => vec![name.to_owned()],
                values => values.iter().map(|value| format!("{name}/{value}")).collect(),
            }
        })
        .collect();
    assert_eq!(found, expected);
    fixture.is_sound().await;
}

#[tokio::test]
async fn what_is_unfinished_is_counted() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    fixture
        .execute(
            "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state)
             SELECT '', 'i' || n, 'd', 'v', 1, (n > 5)::integer, 2, 1, '{}' FROM generate_series(1, 8) n;
             INSERT INTO work (tenant_id, instance_id, kind, body, available_at, claimed_by)
             VALUES ('', 'a', 1, '{}', now() - interval '1 minute', NULL), ('', 'b', 1, '{}', now(), NULL),
                    ('', 'c', 1, '{}', now() + interval '1 hour', NULL), ('', 'd', 1, '{}', now(), 4711);
             INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
             VALUES ('', 'i1', 'b', now() - interval '1 hour', now() - interval '1 hour'),
                    ('', 'i2', 'b', now() + interval '1 hour', now() + interval '1 hour');
             UPDATE node SET draining = true, missing_activity_types = '{X}';
             UPDATE cluster_pause SET mode = 1",
        )
        .await;
    let open = fixture.begin("SELECT pg_current_xact_id()").await;
    let numbers = sampled(&writer).await;
    drop(open);
    for (name, expected) in [
        ("instances", 8.0),
        ("instances_active", 5.0),
        ("work_ready", 2.0),
        ("work_claimed", 1.0),
        ("timers", 2.0),
        ("timers_due", 1.0),
        ("nodes/live", 0.0),
        ("nodes/draining", 1.0),
        ("nodes_with_missing_types", 0.0),
        ("paused", 1.0),
        ("partitions_ahead", 7.0),
        ("lock_waiters", 0.0),
    ] {
        assert_eq!(numbers[name], expected, "{name}");
    }
    assert!((60.0..100.0).contains(&numbers["oldest_work_seconds"]), "{numbers:?}");
    assert!(
        (3600.0..3700.0).contains(&numbers["oldest_timer_seconds"]),
        "{numbers:?}"
    );
    assert!(
        numbers["oldest_transaction_seconds"] > 0.0 && numbers["connections"] >= 2.0,
        "{numbers:?}"
    );
    assert!(
        numbers["table_bytes/work"] > 0.0 && numbers["table_bytes/burst_record"] > 0.0,
        "{numbers:?}"
    );
}

#[tokio::test]
async fn a_session_that_waits_for_a_lock_is_counted() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let holder = fixture.begin("SELECT FROM cluster_pause FOR UPDATE").await;
    let waiting = fixture.session().await;
    let waits = tokio::spawn(async move {
        let update = "SET lock_timeout = '60s'; UPDATE cluster_pause SET reason = 'x'";
        waiting.client.batch_execute(update).await
    });
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while sampled(&writer).await["lock_waiters"] != 1.0 {
        assert!(std::time::Instant::now() < deadline, "it does not wait");
    }
    assert!(sampled(&writer).await["longest_lock_wait_seconds"] > 0.0);
    holder.client.batch_execute("ROLLBACK").await.unwrap();
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_is_many_is_estimated_without_reading_it() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    fixture.execute(FILL).await;
    fixture
        .execute("UPDATE instance SET status = 1 /* finished */ WHERE right(id, 1) <> '7'; ANALYZE")
        .await;
    take_counting(&fixture.admin, i64::MAX).await;
    let exact = last(&writer).await;
    // A session of its own: the server shows there what no other statement has read.
    let session = fixture.session().await;
    take_counting(&session, 0).await;
    let read = "SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0)::bigint FROM pg_stat_xact_user_tables
                WHERE relname IN ('instance', 'bookmark', 'inbox', 'dead_letter', 'burst_record')";
    let read: i64 = session.client.query_one(read, &[]).await.unwrap().get(0);
    assert_eq!(read, 0);
    let estimated = last(&writer).await;
    for name in ["instances", "instances_active", "bookmarks", "timers", "inbox_events"] {
        let (found, expected) = (estimated[name], exact[name]);
        assert!((found / expected - 1.0).abs() < 0.2, "{name}: {found}, not {expected}");
    }
    assert!(
        (exact["work_ready"] / 100_000.0 - 1.0).abs() < 0.2,
        "{}",
        exact["work_ready"]
    );
}

#[tokio::test]
async fn one_node_keeps_each_second_and_the_ring_does_not_grow() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let (own, other) = (writer.incarnation, Incarnation(4712));
    let keep = async |of| cluster_sample::keep_second(&writer.pool, of, long_ago()).await.unwrap();
    assert!(!keep(own).await, "it has not claimed the job");
    let claim = async |of| {
        maintenance::claim_job(&writer.pool, of, Job::SampleCluster, INTERVAL)
            .await
            .unwrap()
    };
    assert!(claim(own).await && !claim(other).await);
    assert!(keep(own).await && keep(own).await && !keep(other).await);
    assert!((1..=2).contains(&fixture.count("SELECT count(*) FROM cluster_second").await));
    fixture.is_sound().await;
    // An hour ago, in the same slots.
    fixture
        .execute("UPDATE cluster_second SET at = at - interval '1 hour', nodes = 99")
        .await;
    fixture
        .execute(
            "INSERT INTO cluster_second SELECT (c.slot + n) % 3600, c.at + n * interval '1 second', 9, 0, 0, '0', 0, 0, 0, 0
             FROM (SELECT * FROM cluster_second LIMIT 1) c, generate_series(1, 3599) n ON CONFLICT DO NOTHING",
        )
        .await;
    assert!(keep(own).await);
    assert_eq!(fixture.count("SELECT count(*) FROM cluster_second").await, 3600);
    let fresh =
        "SELECT count(*) FROM cluster_second WHERE at > now() - interval '1 minute' AND nodes = 1 AND transactions > 0";
    assert_eq!(fixture.count(fresh).await, 1);
    fixture.is_sound().await;
    fixture
        .execute("DELETE FROM cluster_second WHERE slot = 5; UPDATE cluster_second SET slot = 5 WHERE slot = 9")
        .await;
    let found = check::check(&fixture.admin.client).await.unwrap();
    assert_eq!(
        found.iter().map(|of| of.invariant.as_str()).collect::<Vec<_>>(),
        ["second-in-wrong-slot"]
    );
}
