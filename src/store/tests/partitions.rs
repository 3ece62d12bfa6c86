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
