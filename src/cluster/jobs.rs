//! Jobs that the cluster does once, whoever of its nodes comes first: there is no leader.
//!
//! A check-in tells that one is due. Whoever moves its time on has it to do; if he dies of it, somebody else has it at
//! the next time. So a job must do no harm when it is done twice at once, or half.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;

use super::check_in::CheckInReport;
use super::take_over::TakeOver;
use crate::Result;
use crate::db::Pool;
use crate::id::Incarnation;
use crate::store::maintenance::Job;
use crate::store::{activation, activity_type, maintenance};

/// From one time to the next. Orphans: DESIGN, an orphaned claim waits this long at most. Partitions: they are made
/// seven days ahead.
fn interval(job: Job) -> Duration {
    match job {
        Job::ReleaseOrphaned | Job::PurgeExpired => Duration::from_secs(10),
        Job::CreatePartitions => Duration::from_secs(3600),
        Job::ReportUnrunnable => Duration::from_secs(60),
    }
}

/// Owns the task.
pub(super) struct Jobs(#[allow(dead_code, reason = "held for its drop")] AbortOnDropHandle<()>);

impl Jobs {
    /// Does what is due until dropped. Dead letters of stimuli are kept for `letters`. `ends` is dropped with the task, however that ends.
    pub(super) fn start(
        own: Incarnation,
        take_over: TakeOver,
        mut reports: watch::Receiver<CheckInReport>,
        letters: Duration,
        ends: DropGuard,
    ) -> Self {
        Self(AbortOnDropHandle::new(tokio::spawn(async move {
            let _ends = ends;
            while reports.changed().await.is_ok() {
                if !reports.borrow_and_update().check_in.jobs_due {
                    continue;
                }
                // For its turn only: each node would have one more connection for good.
                let pool = match Pool::new(take_over.connector(), 1) {
                    Ok(pool) => pool,
                    Err(error) => {
                        tracing::warn!(%error, "the jobs of the cluster have no connection; they are done at their next time");
                        continue;
                    }
                };
                for job in Job::ALL {
                    if let Err(error) = turn(own, &pool, &take_over, job, letters).await {
                        tracing::warn!(?job, %error, "a job of the cluster failed; it is done again at its next time");
                    }
                }
            }
        })))
    }
}

async fn turn(own: Incarnation, pool: &Pool, take_over: &TakeOver, job: Job, letters: Duration) -> Result<()> {
    if !maintenance::claim_job(pool, own, job, interval(job)).await? {
        return Ok(());
    }
    match job {
        Job::ReleaseOrphaned => {
            take_over.of_the_unknown().await?;
            let mut due_again = 0;
            loop {
                let some = maintenance::advance_postponed(pool).await?;
                due_again += some;
                if some == 0 {
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
            while maintenance::purge_expired(pool, letters).await? >= maintenance::PURGE_BATCH {}
            activation::settle_all(pool, take_over.connector().schema().lock_class()).await
        }
        Job::CreatePartitions => maintenance::ensure_partitions(pool).await,
        Job::ReportUnrunnable => {
            for stranded in activity_type::stranded(pool).await? {
                tracing::warn!(
                    workflow = stranded.definition,
                    version = stranded.version,
                    lacking = ?stranded.lacking,
                    waiting = stranded.waiting,
                    "no node knows all activities of a workflow that has something to do; it waits for one that does"
                );
            }
            Ok(())
        }
    }
}
