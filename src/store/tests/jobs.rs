//! A job of the cluster is claimed once, by the database's clock.

use std::time::Duration;

use crate::id::Incarnation;
use crate::store::maintenance;
use crate::store::maintenance::Job;
use crate::testing::store::Fixture;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn of_many_nodes_one_does_a_job_that_is_due() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for round in 0..3 {
        fixture.execute("UPDATE cluster_job SET next_run_at = now()").await;
        let claims = (0..8).map(|n| maintenance::claim_job(&writer.pool, Incarnation(n), Job::CreatePartitions, HOUR));
        let done = futures_util::future::join_all(claims).await;
        let times = done.into_iter().filter(|claimed| *claimed.as_ref().unwrap()).count();
        assert_eq!(times, 1, "round {round}");
    }
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_job_being_claimed_does_not_block_others() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let taking = fixture
        .begin("UPDATE cluster_job SET next_run_at = now() + interval '5 s' WHERE name = 'release-orphaned'")
        .await;
    let own = writer.incarnation;
    let claimed = tokio::time::timeout(
        Duration::from_secs(2),
        maintenance::claim_job(&writer.pool, own, Job::ReleaseOrphaned, HOUR),
    );
    assert!(!claimed.await.expect("it waits for a lock").unwrap());
    taking.client.batch_execute("COMMIT").await.unwrap();
    assert!(
        !maintenance::claim_job(&writer.pool, own, Job::ReleaseOrphaned, HOUR)
            .await
            .unwrap()
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_job_whose_time_is_further_ahead_than_two_intervals_is_due() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for (job, ahead, is_due) in [
        (Job::ReleaseOrphaned, "15 seconds", false),
        (Job::ReleaseOrphaned, "1 hour", true),
        (Job::CreatePartitions, "90 minutes", false),
        (Job::CreatePartitions, "1 day", true),
    ] {
        let interval = if job == Job::CreatePartitions {
            HOUR
        } else {
            Duration::from_secs(10)
        };
        let set = format!("UPDATE cluster_job SET next_run_at = now() + interval '{ahead}'");
        fixture.execute(&set).await;
        let claimed = maintenance::claim_job(&writer.pool, writer.incarnation, job, interval).await;
        assert_eq!(claimed.unwrap(), is_due, "{job:?} {ahead} ahead");
    }
    fixture.execute("UPDATE cluster_job SET next_run_at = now()").await;
    fixture.is_sound().await;
}

/// As the rows are when the clock was stepped back by an hour.
#[tokio::test]
async fn rows_postponed_beyond_any_pause_are_due_again_except_timers() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    fixture
        .execute(
            "INSERT INTO work (tenant_id, instance_id, kind, body, available_at, claimed_by)
             VALUES ('', 'late', 1, '{}', now() + interval '1 hour', NULL),
                    ('', 'soon', 1, '{}', now() + interval '1 minute', NULL),
                    ('', 'held', 1, '{}', now() + interval '1 hour', 4711);
             INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
             VALUES ('', 'sleeps', 'b', now() + interval '1 hour', now() + interval '1 hour'),
                    ('', 'again', 'b', now() - interval '1 second', now() + interval '1 hour'),
                    ('', 'both', 'b', now() + interval '10 minutes', now() + interval '1 hour')",
        )
        .await;
    fixture
        .execute(
            "INSERT INTO webhook_sink (tenant_id, id, url, event_types, definitions, secret, retry_for, retry_at)
             VALUES ('', 'far', '', '{}', '{}', '', '1 day', now() + interval '2 hours'),
                    ('', 'near', '', '{}', '{}', '', '1 day', now() + interval '50 minutes');
             INSERT INTO webhook_delivery (id, sink, tenant_id, instance_id, event_type, payload, due_at, expires_at)
             SELECT gen_random_uuid(), s.number, '', '', 'Elsa.RunTask', '{}', s.retry_at, now() + interval '1 day'
             FROM webhook_sink s",
        )
        .await;
    assert_eq!(maintenance::advance_postponed(&writer.pool).await.unwrap(), 5);
    let due = "SELECT count(*) FROM webhook_sink s JOIN webhook_delivery d ON d.sink = s.number
               WHERE s.retry_at <= now() AND d.due_at <= now() AND s.id = 'far'";
    assert_eq!(fixture.count(due).await, 1);
    let due = "SELECT count(*) FROM work WHERE available_at <= now() AND instance_id = 'late'";
    assert_eq!(fixture.count(due).await, 1);
    let due = "SELECT count(*) FROM timer WHERE instance_id = 'again' AND available_at <= now()
               OR instance_id = 'both' AND available_at = due";
    assert_eq!(fixture.count(due).await, 2);
    assert_eq!(maintenance::advance_postponed(&writer.pool).await.unwrap(), 0);
}
