//! Jobs that the cluster runs once per interval, on whichever node is first, without a leader.
//!
//! A check-in shows that a job is due. The node that advances the job's next time runs it; if that node ends in the
//! meantime, the job runs at its next time. So a job must be harmless when it runs twice at once, or only halfway.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::check_in::CheckInReport;
use super::take_over::TakeOver;
use crate::Result;
use crate::db::{Connector, Pool};
use crate::id::Incarnation;
use crate::store::maintenance::{Freeze, Job, Retention};
#[cfg(feature = "http")]
use crate::store::webhook;
use crate::store::{activation, activity_type, bulk_action, definition, fan_out, maintenance, route};

/// Between two samples of the cluster.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(15);

/// Between two runs. Orphaned claims wait this long at most. Partitions are made seven days ahead.
fn interval(job: Job) -> Duration {
    match job {
        Job::ReleaseOrphaned | Job::PurgeExpired => Duration::from_secs(10),
        Job::CreatePartitions | Job::PurgeDefinitions => Duration::from_secs(3600),
        Job::ReportUnsupported => Duration::from_secs(60),
        Job::SampleCluster => SAMPLE_INTERVAL,
    }
}

/// Runs due jobs, while the check-ins continue.
pub(super) async fn run_due(
    own: Incarnation,
    take_over: TakeOver,
    mut reports: watch::Receiver<CheckInReport>,
    retention: Retention,
) {
    // Beside the jobs, of which some are due every few seconds. A freeze takes ten minutes at most, and the next begins in an hour.
    let mut _freezing = None;
    while reports.changed().await.is_ok() {
        if !reports.borrow_and_update().check_in.jobs_due {
            continue;
        }
        // Closed after the jobs, so that a node does not keep one more connection.
        let pool = match Pool::new(take_over.connector(), 1) {
            Ok(pool) => pool,
            Err(error) => {
                tracing::warn!(%error, "the cluster jobs have no connection; they run at their next time");
                continue;
            }
        };
        for job in Job::OF_CHECK_INS {
            match run(own, &pool, &take_over, job, retention).await {
                Ok(true) if job == Job::CreatePartitions => {
                    let freeze = freeze_yesterday(take_over.connector().clone());
                    _freezing = Some(AbortOnDropHandle::new(tokio::spawn(freeze)));
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(?job, %error, "a cluster job failed; it runs again at its next time"),
            }
        }
    }
}

/// A vacuum that fails is harmless, and the next hour brings another one.
async fn freeze_yesterday(connector: Connector) {
    match maintenance::freeze_yesterday(&connector).await {
        Ok(Freeze::Needless | Freeze::Vacuumed) => {}
        Ok(Freeze::Forbidden(partition)) => tracing::warn!(
            partition,
            "yesterday's records are not frozen, so a vacuum writes them again later: the node's role may not vacuum them; \
             grant it the role that owns the schema"
        ),
        Err(error) => tracing::warn!(
            %error,
            "yesterday's records are not all frozen, so a vacuum writes them again later; the next try is in an hour"
        ),
    }
}

/// Runs a job; false: it is not due.
async fn run(own: Incarnation, pool: &Pool, take_over: &TakeOver, job: Job, retention: Retention) -> Result<bool> {
    if !maintenance::claim_job(pool, own, job, interval(job)).await? {
        return Ok(false);
    }
    let done = match job {
        Job::ReleaseOrphaned => {
            take_over.release_orphaned().await?;
            let mut due_again = 0;
            loop {
                let rows = maintenance::advance_postponed(pool).await?;
                due_again += rows;
                if rows == 0 {
                    break;
                }
            }
            if due_again > 0 {
                tracing::warn!(
                    due_again,
                    "the server's clock was stepped back; what was postponed before is due again"
                );
            }
            Ok(())
        }
        Job::PurgeExpired => {
            maintenance::purge_expired(pool, retention).await?;
            #[cfg(feature = "http")]
            crate::store::identity::session::purge(pool).await?;
            fan_out::purge(pool).await?;
            bulk_action::purge(pool).await?;
            let lock_class = take_over.connector().schema().lock_class();
            activation::finish_all_publishes(pool, lock_class).await?;
            route::purge(pool, lock_class).await?;
            // Last, so that its errors keep nothing from being purged.
            #[cfg(feature = "http")]
            webhook::delivery::expire(pool, retention.dead_letters).await?;
            Ok(())
        }
        Job::CreatePartitions => maintenance::ensure_partitions(pool).await,
        Job::PurgeDefinitions => definition::delete::purge_all(pool).await.map(drop),
        Job::ReportUnsupported => {
            for unsupported in activity_type::unsupported_work(pool).await? {
                tracing::warn!(
                    workflow = unsupported.definition,
                    version = unsupported.version,
                    missing = ?unsupported.missing,
                    waiting = unsupported.waiting,
                    "no node knows all activities of a workflow that has work; the work waits for such a node"
                );
            }
            Ok(())
        }
        Job::SampleCluster => Ok(()),
    };
    done.map(|()| true)
}
