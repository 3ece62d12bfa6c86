//! What must be done now and then: partitions ahead of time, and what has expired.

use std::time::Duration;

use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Connector, Pool, within};
use crate::id::Incarnation;

const CLAIM_JOB: &str = include_str!("../../sql/queries/maintenance/claim_job.sql");
const PARTITIONS: &str = include_str!("../../sql/queries/maintenance/ensure_partitions.sql");
const FLUSH: &str = include_str!("../../sql/queries/maintenance/flush_wal.sql");
const PURGE_EXPIRED: &str = include_str!("../../sql/queries/maintenance/purge_expired.sql");
const ADVANCE_POSTPONED: &str = include_str!("../../sql/queries/maintenance/advance_postponed.sql");
const WORTH: &str = include_str!("../../sql/queries/maintenance/vacuum_candidates.sql");

/// Without the lock that giving pages back takes, which whoever looks for work would wait for; and not where another vacuum is
/// at work.
const VACUUMS: [(&str, &str); 2] = [
    ("work", "VACUUM (TRUNCATE false, SKIP_LOCKED) work"),
    ("timer", "VACUUM (TRUNCATE false, SKIP_LOCKED) timer"),
];

/// A table with more rows alive is left to the server's own vacuum.
const FEW: f32 = 100_000.0;

/// So is one of so many bytes: far more than is consumed from one vacuum to the next.
const SMALL: i64 = 128 * 1024 * 1024;

/// No row of work waits for so long, and no delay for so long after it was due: the longest pause, with its jitter, and the
/// longest spread of a backlog of schedules are shorter.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// How many days ahead of today there are partitions.
const DAYS_AHEAD: i32 = 7;

/// Makes the partitions of yesterday, today and a week ahead. A node is not ready before that.
pub(crate) async fn ensure_partitions(pool: &Pool) -> Result<()> {
    pool.query(PARTITIONS, &[&DAYS_AHEAD]).await?;
    Ok(())
}

/// As many rows of a table as one batch removes; fewer, and nothing is left.
pub(crate) const PURGE_BATCH: i64 = 1000;

/// Forgets what has expired, a bounded batch at a time; returns how much. `letters`: how long the dead letter of a stimulus
/// is kept that nothing has waited for.
pub(crate) async fn purge_expired(pool: &Pool, letters: Duration) -> Result<i64> {
    let letters = i64::try_from(letters.as_micros()).unwrap_or(i64::MAX);
    Ok(pool.query_one(PURGE_EXPIRED, &[&letters]).await?.get("purged"))
}

/// Makes due what was postponed before the server's clock was stepped back, a bounded batch at a time; returns how much.
pub(crate) async fn advance_postponed(pool: &Pool) -> Result<i64> {
    let longest = i64::try_from(LONGEST_WAIT.as_micros()).unwrap_or(i64::MAX);
    Ok(pool.query_one(ADVANCE_POSTPONED, &[&longest]).await?.get("advanced"))
}

/// Returns once everything that was committed before is flushed, also what did not wait for its flush.
pub(crate) async fn flush(pool: &Pool) -> Result<()> {
    pool.query(FLUSH, &[]).await?;
    Ok(())
}

/// Makes room in the tables that all work goes through, of what was consumed: the server's own vacuum comes once a minute,
/// and they would have grown by all that was consumed since. On a connection of its own, as nobody must wait for it.
pub(crate) async fn vacuum(connector: &Connector) -> Result<()> {
    let session = connector.open().await?;
    let client = &session.client;
    let worth = within(ANSWER_TIMEOUT, client.query_one(WORTH, &[&FEW, &SMALL])).await?;
    for (table, vacuum) in VACUUMS {
        if worth.get(table) {
            within(ANSWER_TIMEOUT, client.batch_execute(vacuum)).await?;
        }
    }
    Ok(())
}

/// A job of the cluster; the names are those of `cluster_job.name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Claims of incarnations that nobody knows, departures that nobody finished, and rows that a clock which was stepped
    /// back keeps from being due.
    ReleaseOrphaned,
    /// What has expired in the inbox, and idempotency keys; and what publishers have left to do who died.
    PurgeExpired,
    /// Partitions ahead of time.
    CreatePartitions,
    /// Tells of work that no node can do.
    ReportUnrunnable,
}

impl Job {
    pub(crate) const ALL: [Self; 4] = [
        Self::ReleaseOrphaned,
        Self::PurgeExpired,
        Self::CreatePartitions,
        Self::ReportUnrunnable,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ReleaseOrphaned => "release-orphaned",
            Self::PurgeExpired => "purge-expired",
            Self::CreatePartitions => "create-partitions",
            Self::ReportUnrunnable => "report-unrunnable",
        }
    }
}

/// Takes on a job if it is due by the database's clock, or further ahead than two intervals; nobody else gets it for `interval`. Whoever dies of it is
/// followed by somebody else after that.
pub(crate) async fn claim_job(pool: &Pool, incarnation: Incarnation, job: Job, interval: Duration) -> Result<bool> {
    let interval = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
    let row = pool
        .query_opt(CLAIM_JOB, &[&job.name(), &interval, &incarnation.0])
        .await?;
    Ok(row.is_some())
}
