//! The key that signs the tokens of resume URLs, and the clock by which they expire.

use chrono::{DateTime, Utc};

use crate::Result;
use crate::db::Pool;

const KEY: &str = include_str!("../../sql/queries/token/key.sql");
const CLOCK: &str = include_str!("../../sql/queries/token/clock.sql");

/// The key of this database, created with its schema; it never changes.
pub(crate) async fn key(pool: &Pool) -> Result<Vec<u8>> {
    Ok(pool.query_one(KEY, &[]).await?.get("key"))
}

/// The time by the database's clock.
pub(crate) async fn clock(pool: &Pool) -> Result<DateTime<Utc>> {
    Ok(pool.query_one(CLOCK, &[]).await?.get("now"))
}
