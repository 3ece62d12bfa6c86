//! What must be done now and then: partitions ahead of time, and what has expired.

use std::time::Duration;

use crate::Result;
use crate::db::Pool;

const PARTITIONS: &str = include_str!("../../sql/queries/partitions.sql");
const FLUSH: &str = include_str!("../../sql/queries/flush.sql");
const EXPIRE: &str = include_str!("../../sql/queries/expire.sql");

/// How many days ahead of today there are partitions.
const DAYS_AHEAD: i32 = 7;

/// Makes the partitions of today and a week ahead. A node is not ready before that.
pub(crate) async fn ensure_partitions(pool: &Pool) -> Result<()> {
    pool.query(PARTITIONS, &[&DAYS_AHEAD]).await?;
    Ok(())
}

/// As many rows of a table as one batch removes; fewer, and nothing is left.
pub(crate) const EXPIRED_AT_ONCE: i64 = 1000;

/// Forgets what has expired, a bounded batch at a time; returns how much. `letters`: how long the dead letter of a stimulus
/// is kept that nothing has waited for.
pub(crate) async fn expire(pool: &Pool, letters: Duration) -> Result<i64> {
    let letters = i64::try_from(letters.as_micros()).unwrap_or(i64::MAX);
    Ok(pool.query_one(EXPIRE, &[&letters]).await?.get(0))
}

/// Returns once everything that was committed before is flushed, also what did not wait for its flush.
pub(crate) async fn flush(pool: &Pool) -> Result<()> {
    pool.query(FLUSH, &[]).await?;
    Ok(())
}
