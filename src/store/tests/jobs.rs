//! A job of the cluster is taken on once, by the database's clock.

use std::time::Duration;

use crate::id::Incarnation;
use crate::store::commit::tests::fixture::Fixture;
use crate::store::job::{self, Job};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn of_many_nodes_one_does_a_job_that_is_due() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for round in 0..3 {
        fixture
            .admin
            .client
            .batch_execute("UPDATE cluster_job SET next_run_at = now()")
            .await
            .unwrap();
        let claims = (0..8).map(|n| job::claim(&writer.pool, Incarnation(n), Job::Partitions, HOUR));
        let done = futures_util::future::join_all(claims).await;
        let times = done.into_iter().filter(|claimed| *claimed.as_ref().unwrap()).count();
        assert_eq!(times, 1, "round {round}");
    }
    fixture.is_sound().await;
}

#[tokio::test]
async fn nobody_waits_for_whoever_is_taking_a_job_on() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let taking = fixture.session().await;
    taking
        .client
        .batch_execute("BEGIN; UPDATE cluster_job SET next_run_at = now() + interval '5 s' WHERE name = 'orphans'")
        .await
        .unwrap();
    let own = writer.incarnation;
    let claimed = tokio::time::timeout(
        Duration::from_secs(2),
        job::claim(&writer.pool, own, Job::Orphans, HOUR),
    );
    assert!(!claimed.await.expect("it waits for a lock").unwrap());
    taking.client.batch_execute("COMMIT").await.unwrap();
    assert!(!job::claim(&writer.pool, own, Job::Orphans, HOUR).await.unwrap());
    fixture.is_sound().await;
}
