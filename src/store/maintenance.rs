//! Periodic maintenance: partitions ahead of time, the purge of expired rows, vacuum, and the jobs of the cluster.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Connector, Pool, columns, within};
use crate::id::Incarnation;

const CLAIM_JOB: &str = include_str!("../../sql/queries/maintenance/claim_job.sql");
const PARTITIONS: &str = include_str!("../../sql/queries/maintenance/ensure_partitions.sql");
/// Also for the doctor, which measures it.
pub(super) const FLUSH: &str = include_str!("../../sql/queries/maintenance/flush_wal.sql");
const PURGE_EXPIRED: &str = include_str!("../../sql/queries/maintenance/purge_expired.sql");
const ADVANCE_POSTPONED: &str = include_str!("../../sql/queries/maintenance/advance_postponed.sql");
const UNFROZEN: &str = include_str!("../../sql/queries/maintenance/unfrozen_partition.sql");
const WORTH: &str = include_str!("../../sql/queries/maintenance/vacuum_candidates.sql");

/// Without the lock that truncating takes, for which polls would wait; a table that another vacuum holds is skipped.
const VACUUMS: [(&str, &str); 2] = [
    ("work", "VACUUM (TRUNCATE false, SKIP_LOCKED) work"),
    ("timer", "VACUUM (TRUNCATE false, SKIP_LOCKED) timer"),
];

/// A table with more live rows is left to autovacuum.
const VACUUM_MAX_ROWS: f32 = 100_000.0;

/// So is a table with more bytes than are consumed from one vacuum to the next.
const VACUUM_MAX_BYTES: i64 = 128 * 1024 * 1024;

/// No row of work is postponed for so long, and no timer past its due time: longer than the longest pause with its jitter and
/// than the longest spread of a backlog of schedules.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// How many days ahead partitions exist.
const DAYS_AHEAD: i32 = 7;

/// Creates the partitions of yesterday, today and a week ahead. A node is not ready before they exist.
pub(crate) async fn ensure_partitions(pool: &Pool) -> Result<()> {
    pool.query(PARTITIONS, &[&DAYS_AHEAD]).await?;
    Ok(())
}

/// The most rows of a table that one batch purges; fewer mean that nothing is left.
const PURGE_BATCH: i64 = 1000;

/// How long what is only read is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// The dead letter of a stimulus.
    pub(crate) dead_letters: Duration,
    /// An entry of the audit.
    pub(crate) audit: Duration,
}

#[cfg(test)]
impl Retention {
    /// The same for both.
    pub(crate) fn of(kept: Duration) -> Self {
        Self {
            dead_letters: kept,
            audit: kept,
        }
    }
}

/// How long a resume link is kept after it has expired, so that the answer says why.
const EXPIRED_LINKS: Duration = Duration::from_secs(30 * 24 * 3600);

/// Deletes expired rows batch by batch. If the future is dropped, the batches before are deleted.
pub(crate) async fn purge_expired(pool: &Pool, retention: Retention) -> Result<()> {
    let micros = |kept: Duration| i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
    let (dead_letters, audit, links) = (
        micros(retention.dead_letters),
        micros(retention.audit),
        micros(EXPIRED_LINKS),
    );
    let mut reached: Vec<Option<DateTime<Utc>>> = Vec::new();
    loop {
        let row = pool
            .query_one(PURGE_EXPIRED, &[&dead_letters, &reached, &audit, &links])
            .await?;
        let at = columns!(row; purged, reached)?;
        if row.get::<_, i64>(at.purged) < PURGE_BATCH {
            return Ok(());
        }
        let next: Vec<Option<DateTime<Utc>>> = row.get(at.reached);
        let before = reached.into_iter().chain(std::iter::repeat(None));
        reached = next.into_iter().zip(before).map(|(next, last)| next.or(last)).collect();
    }
}

/// Makes a bounded batch of rows due that were postponed before the server's clock was stepped back; returns how many.
pub(crate) async fn advance_postponed(pool: &Pool) -> Result<i64> {
    let longest = i64::try_from(LONGEST_WAIT.as_micros()).unwrap_or(i64::MAX);
    Ok(pool.query_one(ADVANCE_POSTPONED, &[&longest]).await?.get("advanced"))
}

/// Returns once every earlier commit is flushed, also the asynchronous ones.
pub(crate) async fn flush(pool: &Pool) -> Result<()> {
    pool.query(FLUSH, &[]).await?;
    Ok(())
}

/// Vacuums the tables that all work passes through, unless they are large: autovacuum runs once a minute, and they would
/// grow meanwhile by all consumed rows. Uses a connection of its own.
pub(crate) async fn vacuum(connector: &Connector) -> Result<()> {
    let session = connector.open().await?;
    let client = &session.client;
    let worth = within(
        ANSWER_TIMEOUT,
        client.query_one(WORTH, &[&VACUUM_MAX_ROWS, &VACUUM_MAX_BYTES]),
    )
    .await?;
    for (table, vacuum) in VACUUMS {
        if worth.get(table) {
            within(ANSWER_TIMEOUT, client.batch_execute(vacuum)).await?;
        }
    }
    Ok(())
}

/// How long a freeze may take. The pages that it has frozen by then stay so, and the next one goes on with the others.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(600);

/// [`FREEZE_TIMEOUT`] at the server, too; with the pauses of an autovacuum, so that commits do not wait for its disk.
const FREEZE_SESSION: &str = "SET statement_timeout = '10min'; SET vacuum_cost_delay = '2ms'";

/// What became of yesterday's partition.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Freeze {
    /// There is none, or its pages are all frozen.
    Needless,
    /// It was vacuumed, unless another vacuum held it.
    Vacuumed,
    /// The role may not vacuum the partition of this name.
    Forbidden(String),
}

/// Freezes the rows of yesterday's partition, which no commit writes any more: a later freeze, which wraparound enforces, would
/// read and log each page again. Uses a connection of its own. If the future is dropped, the server ends it with the connection.
pub(crate) async fn freeze_yesterday(connector: &Connector) -> Result<Freeze> {
    let session = connector.open().await?;
    let client = &session.client;
    let Some(row) = within(ANSWER_TIMEOUT, client.query_opt(UNFROZEN, &[])).await? else {
        return Ok(Freeze::Needless);
    };
    let at = columns!(row; name, permitted)?;
    let name: String = row.get(at.name);
    // The server would only send a warning.
    if !row.get::<_, bool>(at.permitted) {
        return Ok(Freeze::Forbidden(name));
    }
    within(ANSWER_TIMEOUT, client.batch_execute(FREEZE_SESSION)).await?;
    let vacuum = format!("VACUUM (FREEZE, SKIP_LOCKED, TRUNCATE false) {name}");
    within(FREEZE_TIMEOUT + ANSWER_TIMEOUT, client.batch_execute(&vacuum)).await?;
    Ok(Freeze::Vacuumed)
}

/// A job that one node does for the cluster; the names are those of `cluster_job.name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Orphaned claims, unfinished removals of nodes, and rows that are not due because the clock was stepped back.
    ReleaseOrphaned,
    /// The purge of expired stimuli and idempotency keys, and unfinished activation steps of publishers that crashed.
    PurgeExpired,
    /// Creates partitions ahead of time, and freezes yesterday's.
    CreatePartitions,
    /// Logs work that no node can run.
    ReportUnsupported,
    /// The purge of deleted versions of definitions that nothing has any more.
    PurgeDefinitions,
    /// The sample of the cluster, and of each second until another node takes it.
    SampleCluster,
}

impl Job {
    /// Those that check-ins run. The sample has a loop of its own, as nothing is to delay it.
    pub(crate) const OF_CHECK_INS: [Self; 5] = [
        Self::ReleaseOrphaned,
        Self::PurgeExpired,
        Self::CreatePartitions,
        Self::ReportUnsupported,
        Self::PurgeDefinitions,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ReleaseOrphaned => "release-orphaned",
            Self::PurgeExpired => "purge-expired",
            Self::CreatePartitions => "create-partitions",
            Self::ReportUnsupported => "report-unsupported",
            Self::PurgeDefinitions => "purge-definitions",
            Self::SampleCluster => "sample-cluster",
        }
    }
}

/// Claims a job that is due by the database's clock, or further ahead than two intervals (the clock was stepped back). No
/// other node gets it for `interval`; if this one crashes, another does it after that.
pub(crate) async fn claim_job(pool: &Pool, incarnation: Incarnation, job: Job, interval: Duration) -> Result<bool> {
    let interval = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
    let row = pool
        .query_opt(CLAIM_JOB, &[&job.name(), &interval, &incarnation.0])
        .await?;
    Ok(row.is_some())
}
