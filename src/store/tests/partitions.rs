//! The partitions of yesterday, today and a week ahead, even if many nodes start at the same moment.

use crate::db::Pool;
use crate::store::maintenance;
use crate::testing::store::Fixture;

#[tokio::test]
async fn nodes_that_start_at_once_make_each_partition_once() {
    let fixture = Fixture::new().await;
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'burst_record'::regclass";
    assert_eq!(fixture.count(partitions).await, 9);
    fixture
        .execute(
            "DO $$ DECLARE part regclass; BEGIN
                 FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'burst_record'::regclass
                 LOOP EXECUTE 'DROP TABLE ' || part; END LOOP;
             END $$",
        )
        .await;
    let pool = Pool::new(&fixture.base, 4).unwrap();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let pool = pool.clone();
        tasks.push(tokio::spawn(async move { maintenance::ensure_partitions(&pool).await }));
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(fixture.count(partitions).await, 9);
}

/// By which autovacuum freezes a page before the next checkpoint, instead of once more after it.
#[tokio::test]
async fn records_and_instances_are_frozen_early() {
    let fixture = Fixture::new().await;
    let early = "SELECT count(*) FROM pg_class c
                 WHERE (c.oid = 'instance'::regclass
                        OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'burst_record'::regclass))
                   AND c.reloptions @> '{autovacuum_freeze_min_age=0,autovacuum_vacuum_insert_scale_factor=0,
                                         autovacuum_vacuum_insert_threshold=10000}'";
    assert_eq!(fixture.count(early).await, 10, "nine days, and the instances");
}
