//! The status of a row of work is kept as long as a caller may ask.

use std::time::Duration;

use crate::id::{InstanceId, TenantId, WorkId};
use crate::store::claim::{self, ClaimBounds, InstanceKey, Release, ReleaseCause};
use crate::store::dead_letter;
use crate::store::maintenance;
use crate::store::work::{self, WorkStatus};
use crate::testing::store::{Fixture, Writer, burst, waiting};

/// A suspended instance with a resume that fails once more and becomes a dead letter.
async fn dead_lettered(fixture: &Fixture, writer: &Writer, instance: &str) -> (WorkId, i64) {
    writer.commits(waiting(burst(instance, None), "b", 7)).await;
    let insert = "INSERT INTO work (tenant_id, instance_id, kind, body, failures) VALUES ('', $1, 1, '{}', 19)
                  RETURNING id";
    let row = fixture.admin.client.query_one(insert, &[&instance]).await.unwrap();
    let work = WorkId(row.get(0));
    assert_eq!(work_status(writer, instance, work).await, WorkStatus::Pending);
    let key: InstanceKey = (TenantId::default(), InstanceId::new(instance));
    let mut found = claim::claim(
        &writer.pool,
        writer.incarnation,
        std::slice::from_ref(&key),
        false,
        ClaimBounds::NONE,
    )
    .await
    .unwrap();
    let claims: Vec<_> = found
        .remove(&key)
        .unwrap()
        .rows
        .into_iter()
        .map(|row| row.claim)
        .collect();
    let how = Release {
        cause: ReleaseCause::Row("test"),
        pause: Duration::ZERO,
    };
    claim::release(&writer.pool, writer.incarnation, &key, &claims, how)
        .await
        .unwrap();
    let dead_letter = writer
        .dead_letters()
        .await
        .into_iter()
        .find(|dead_letter| dead_letter.work == Some(work.0));
    (work, dead_letter.unwrap().id)
}

async fn work_status(writer: &Writer, instance: &str, work: WorkId) -> WorkStatus {
    work::status(&writer.pool, &TenantId::default(), &InstanceId::new(instance), work)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_dead_lettered_status_outlives_its_dead_letter() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let tenant = TenantId::default();
    let (replayed, dead_letter) = dead_lettered(&fixture, &writer, "replayed").await;
    assert_eq!(
        work_status(&writer, "replayed", replayed).await,
        WorkStatus::DeadLettered
    );
    let again = dead_letter::replay(&writer.pool, &tenant, dead_letter)
        .await
        .unwrap()
        .work;
    assert_eq!(
        work_status(&writer, "replayed", replayed).await,
        WorkStatus::DeadLettered
    );
    assert_eq!(
        work_status(&writer, "replayed", again.unwrap()).await,
        WorkStatus::Pending
    );
    let (deleted, dead_letter) = dead_lettered(&fixture, &writer, "deleted").await;
    dead_letter::delete(&writer.pool, &tenant, dead_letter).await.unwrap();
    assert_eq!(work_status(&writer, "deleted", deleted).await, WorkStatus::DeadLettered);
    fixture.is_sound().await;
}

#[cfg(feature = "http")]
#[tokio::test]
async fn only_a_request_of_which_no_burst_has_begun_is_withdrawn() {
    use crate::store::claim::Withdrawal;
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    for (instance, kind, has_begun, wanted) in [
        ("waits", 1_i16, false, Withdrawal::Discarded),
        ("begun", 1, true, Withdrawal::Stays),
        // A burst of it yielded: the instance goes on by the row.
        ("yielded", 4, false, Withdrawal::Continues),
        ("cancelled", 3, false, Withdrawal::Stays),
    ] {
        writer.commits(waiting(burst(instance, None), "b", 7)).await;
        let insert = "INSERT INTO work (tenant_id, instance_id, kind, body, has_begun) VALUES ('', $1, $2, '{}', $3)
                      RETURNING id";
        let values: [&(dyn postgres_types::ToSql + Sync); 3] = [&instance, &kind, &has_begun];
        let row = fixture.admin.client.query_one(insert, &values).await.unwrap();
        let work = WorkId(row.get(0));
        let id = InstanceId::new(instance);
        let withdrawn = work::withdraw(&writer.pool, &TenantId::default(), &id, work, None).await;
        assert_eq!(withdrawn.unwrap(), wanted, "{instance}");
        let status = match wanted {
            Withdrawal::Discarded => WorkStatus::Discarded,
            _ => WorkStatus::Pending,
        };
        assert_eq!(work_status(&writer, instance, work).await, status, "{instance}");
    }
}

#[tokio::test]
async fn an_unmatched_status_outlives_its_idempotency_key() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let insert = "INSERT INTO unmatched_work (tenant_id, work_id, ended_at)
                  VALUES ('', 1, now() - interval '24 hours 1 minute'), ('', 2, now() - interval '26 hours')";
    fixture.execute(insert).await;
    maintenance::purge_expired(
        &writer.pool,
        maintenance::Retention::of(std::time::Duration::from_secs(3600)),
    )
    .await
    .unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM unmatched_work").await, 1);
    assert_eq!(work_status(&writer, "i", WorkId(1)).await, WorkStatus::Unmatched);
    assert_eq!(work_status(&writer, "i", WorkId(2)).await, WorkStatus::Consumed);
    fixture.is_sound().await;
}
