//! What the cluster does once, and not once per node.

use std::time::Duration;

use crate::Result;
use crate::db::Pool;
use crate::id::Incarnation;

const CLAIM: &str = include_str!("../../sql/queries/job/claim.sql");

/// A job of the cluster; the names are those of `cluster_job.name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Claims of incarnations that nobody knows, departures that nobody finished, and rows that a clock which was stepped
    /// back keeps from being due.
    Orphans,
    /// What has expired in the inbox, and idempotency keys; and what publishers have left to do who died.
    Expiry,
    /// Partitions ahead of time.
    Partitions,
    /// Tells of work that no node can do.
    Stranded,
}

impl Job {
    pub(crate) const ALL: [Self; 4] = [Self::Orphans, Self::Expiry, Self::Partitions, Self::Stranded];

    fn name(self) -> &'static str {
        match self {
            Self::Orphans => "orphans",
            Self::Expiry => "expiry",
            Self::Partitions => "partitions",
            Self::Stranded => "stranded",
        }
    }
}

/// Takes on a job if it is due by the database's clock, or further ahead than two intervals; nobody else gets it for `interval`. Whoever dies of it is
/// followed by somebody else after that.
pub(crate) async fn claim(pool: &Pool, incarnation: Incarnation, job: Job, interval: Duration) -> Result<bool> {
    let interval = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
    let row = pool.query_opt(CLAIM, &[&job.name(), &interval, &incarnation.0]).await?;
    Ok(row.is_some())
}
