//! Nodes vacuum the tables that all work passes through, unless they hold many live rows.

use std::time::Duration;

use crate::store::maintenance;
use crate::testing::store::Fixture;

#[tokio::test]
async fn vacuum_reclaims_consumed_rows_and_keeps_timers() {
    let fixture = Fixture::new().await;
    let client = &fixture.admin.client;
    let fill = "
        SET statement_timeout = '2min';
        -- What the server does by itself is not to be seen here.
        ALTER TABLE work SET (autovacuum_enabled = false);
        ALTER TABLE timer SET (autovacuum_enabled = false);
        INSERT INTO work (tenant_id, instance_id, kind, body) SELECT '', 'i' || n, 0, '{}' FROM generate_series(1, 1000) n;
        INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
            SELECT '', 'i' || n, 'b', now(), now() + interval '1 day' FROM generate_series(1, 100000) n;
        ANALYZE work, timer;
        DELETE FROM work;
        DELETE FROM timer WHERE instance_id = 'i1'";
    client.batch_execute(fill).await.unwrap();
    let size = "SELECT pg_relation_size('work')";
    let before = fixture.count(size).await;
    assert!(before > 0);
    let rows = |table: &str| format!("SELECT reltuples::bigint FROM pg_class WHERE oid = '{table}'::regclass");
    // Sessions of other tests may hold a snapshot for a moment, by which nothing is dead yet.
    let vacuums = async {
        while fixture.count(&rows("work")).await > 0 {
            maintenance::vacuum(&fixture.base).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), vacuums).await.unwrap();
    assert_eq!(fixture.count(size).await, before, "vacuum truncates no table");
    let again = "INSERT INTO work (tenant_id, instance_id, kind, body) SELECT '', 'i' || n, 0, '{}' FROM generate_series(1, 900) n";
    client.batch_execute(again).await.unwrap();
    assert_eq!(fixture.count(size).await, before, "the free space is used");
    assert_eq!(fixture.count(&rows("timer")).await, 100_000, "it was not vacuumed");
}
