//! How many pages the statements of queues read, as `plans` tries their plans.

use super::plans::{Hot, hot};
use crate::testing::store::Fixture;

/// How many pages a statement reads.
async fn pages(fixture: &Fixture, hot: &Hot) -> i64 {
    let session = fixture.session().await;
    let explain = format!(
        "PREPARE hot AS {}; EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE hot({})",
        hot.sql, hot.arguments
    );
    let messages = session.client.simple_query(&explain).await.unwrap();
    let lines = messages.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: serde_json::Value = serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap();
    let of = |name: &str| plan[0]["Plan"][name].as_i64().unwrap();
    of("Shared Hit Blocks") + of("Shared Read Blocks")
}

#[tokio::test]
async fn a_backlog_that_a_node_cannot_run_does_not_slow_its_polls() {
    let fixture = Fixture::new().await;
    let client = &fixture.admin.client;
    let fill = "
        INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version,
                              state)
            SELECT '', 'i' || n, 'd', CASE WHEN n <= 20 THEN 'ours' ELSE 'theirs' END, 1, 0, 2, 1, '{}'
            FROM generate_series(1, 100020) n;
        INSERT INTO work (tenant_id, instance_id, kind, body, available_at)
            SELECT '', 'i' || n, 1, '{}', now() - CASE WHEN n <= 20 THEN interval '1 second' ELSE interval '1 hour' END
            FROM generate_series(1, 100020) n;
        INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
            SELECT '', 'i' || n, 'b', now(), now() + interval '1 hour' FROM generate_series(21, 100020) n;
        ANALYZE";
    client.batch_execute(fill).await.unwrap();
    let polls = [
        hot!(
            "work/poll_supported",
            "64, '{}'::text[], '{}'::text[], true, array['']::text[], array['theirs']::text[], now() - interval '1 minute'",
            false
        ),
        hot!(
            "work/next_supported_due",
            "array['']::text[], array['theirs']::text[]",
            false
        ),
    ];
    let [poll, next] = [pages(&fixture, &polls[0]).await, pages(&fixture, &polls[1]).await];
    // 20 rows that are due; a thousand others that are not due yet, at three or four pages each.
    assert!(poll < 300, "{poll} pages for a poll");
    assert!(next < 8_000, "{next} pages to find the next due time");
}

/// As beside a backup or a replica that holds an old snapshot: what is consumed stays in the indexes.
#[tokio::test]
async fn reads_of_a_queue_pass_over_what_was_consumed_beside_a_held_snapshot() {
    let fixture = Fixture::new().await;
    let client = &fixture.admin.client;
    let fill = "
        INSERT INTO work (tenant_id, instance_id, kind, body, available_at)
            SELECT '', 'i' || n, 1, '{}', now() - interval '1 hour' FROM generate_series(1, 20000) n;
        INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
            SELECT '', 'i' || n, 'b', now(), now() - interval '1 hour' FROM generate_series(1, 20000) n;
        INSERT INTO fan_out (tenant_id, hash, name, expires_at) SELECT '', 'h', 'n', now() FROM generate_series(1, 20000);
        INSERT INTO idempotency_key (tenant_id, route, key, fingerprint, expires_at)
            SELECT '', '', n, '', '2026-01-01Z'::timestamptz + n * interval '1 millisecond' FROM generate_series(1, 20000) n;
        ANALYZE";
    client.batch_execute(fill).await.unwrap();
    let holder = fixture
        .begin("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        .await;
    let consume = "
        DELETE FROM work; DELETE FROM timer;
        UPDATE fan_out SET finished_at = '2026-01-01Z'::timestamptz + id * interval '1 millisecond';
        DELETE FROM fan_out WHERE id <= 19900;
        DELETE FROM idempotency_key WHERE expires_at <= '2026-01-01 00:00:19.9Z'";
    client.batch_execute(consume).await.unwrap();
    let [check_in, whole] = [
        hot!("node/check_in", "4711, now(), 20000, now()", false),
        hot!("node/check_in", "4711, null, 0, now()", false),
    ];
    let purges = [
        hot!("fan_out/purge", "600000000, '2026-01-01 00:00:19.9Z'", false),
        hot!(
            "maintenance/purge_expired",
            "86400000000, array[null, '2026-01-01 00:00:19.9Z'::timestamptz, null, null], 1, 1",
            false
        ),
    ];
    for read in [check_in, hot!("fan_out/next", "'{}', 20000", false)] {
        let pages = pages(&fixture, &read).await;
        assert!(pages < 100, "{} reads {pages} pages", read.name);
    }
    for purge in purges {
        let pages = pages(&fixture, &purge).await;
        // The purges delete a hundred rows each.
        assert!(pages < 1_000, "{} reads {pages} pages", purge.name);
    }
    // All rows were due at one time, so that the entries of one page of the table follow each other.
    let whole = pages(&fixture, &whole).await;
    assert!(whole > 1_000, "the snapshot is not held: {whole} pages");
    drop(holder);
}
