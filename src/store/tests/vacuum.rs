//! Nodes vacuum the tables that all work passes through, unless they hold many live rows, and freeze yesterday's records.

use std::time::Duration;

use crate::db::{Connector, DatabaseUrl, SchemaName};
use crate::store::maintenance;
use crate::store::maintenance::Freeze;
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

/// The partition of yesterday with some pages of records.
const YESTERDAY: &str = "
    INSERT INTO burst_record (tenant_id, instance_id, version, at, began_at, first_entry, entries, body)
    SELECT '', 'i' || n, 1, at, at, 1, 0, '{}'
    FROM generate_series(1, 1000) n, (SELECT date_trunc('day', now(), 'UTC') - interval '1 hour' AS at) y";

/// The pages of yesterday's partition, and whether all are frozen.
const PAGES: &str = "
    SELECT c.oid::regclass::text AS name, pg_relation_size(c.oid) / current_setting('block_size')::bigint AS pages,
           c.relpages::bigint, c.relallvisible::bigint, pg_stat_get_vacuum_count(c.oid) AS vacuums
    FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE i.inhparent = 'burst_record'::regclass AND c.relname = 'burst_record_' || to_char(now() - interval '1 day', 'YYYYMMDD')";

#[tokio::test]
async fn yesterdays_records_are_frozen_once() {
    let fixture = Fixture::new().await;
    let client = &fixture.admin.client;
    let freeze = || maintenance::freeze_yesterday(&fixture.base);
    assert_eq!(freeze().await.unwrap(), Freeze::Needless, "it is empty");
    let name: String = client.query_one(PAGES, &[]).await.unwrap().get("name");
    // What the server does by itself is not to be seen here.
    fixture
        .execute(&format!("ALTER TABLE {name} SET (autovacuum_enabled = false)"))
        .await;
    fixture.execute(YESTERDAY).await;
    assert_eq!(freeze().await.unwrap(), Freeze::Vacuumed);
    // Sessions of other tests may hold a snapshot for a moment, in which the rows are not visible yet.
    let rest = async { while freeze().await.unwrap() == Freeze::Vacuumed {} };
    tokio::time::timeout(Duration::from_secs(60), rest).await.unwrap();
    let row = client.query_one(PAGES, &[]).await.unwrap();
    let pages: i64 = row.get("pages");
    assert!(pages > 5, "{pages}");
    assert_eq!(row.get::<_, i64>("relpages"), pages);
    assert_eq!(row.get::<_, i64>("relallvisible"), pages);
    if fixture
        .count("SELECT current_setting('server_version_num')::bigint")
        .await
        >= 180_000
    {
        let frozen = format!("SELECT relallfrozen::bigint FROM pg_class WHERE oid = '{name}'::regclass");
        assert_eq!(fixture.count(&frozen).await, pages);
    }
    assert_eq!(freeze().await.unwrap(), Freeze::Needless);
    fixture.execute(YESTERDAY.replace("'i'", "'j'").as_str()).await;
    assert_eq!(
        freeze().await.unwrap(),
        Freeze::Vacuumed,
        "of a clock that was stepped back"
    );
}

#[tokio::test]
async fn a_role_without_the_right_freezes_nothing() {
    let fixture = Fixture::new().await;
    fixture.execute(YESTERDAY).await;
    let url = format!("{}?options=-c%20role%3Dpg_read_all_data", fixture.url());
    let schema = SchemaName::parse("mainspring").unwrap();
    let reader = Connector::new(&DatabaseUrl::parse(&url).unwrap(), &schema).unwrap();
    let frozen = maintenance::freeze_yesterday(&reader).await.unwrap();
    assert!(
        matches!(&frozen, Freeze::Forbidden(name) if name.starts_with("burst_record_")),
        "{frozen:?}"
    );
}
