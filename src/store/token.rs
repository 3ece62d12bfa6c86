//! What signs the tokens of resume URLs, and by which clock they expire.

use chrono::{DateTime, Utc};

use crate::Result;
use crate::db::Pool;

const KEY: &str = include_str!("../../sql/queries/token/key.sql");
const CLOCK: &str = include_str!("../../sql/queries/token/clock.sql");

/// The key of this database, made once with its schema: it never changes.
pub(crate) async fn key(pool: &Pool) -> Result<Vec<u8>> {
    Ok(pool.query_one(KEY, &[]).await?.get("key"))
}

/// What time it is for the database.
pub(crate) async fn clock(pool: &Pool) -> Result<DateTime<Utc>> {
    Ok(pool.query_one(CLOCK, &[]).await?.get("now"))
}
