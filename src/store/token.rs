//! The key that signs tokens, the clock by which they expire, and which single-use tokens were used.

use chrono::{DateTime, Utc};

use crate::Result;
use crate::db::Pool;
use crate::id::TenantId;

const KEY: &str = include_str!("../../sql/queries/token/key.sql");
const SPEND: &str = include_str!("../../sql/queries/token/spend.sql");
const CLOCK: &str = include_str!("../../sql/queries/token/clock.sql");

/// The key of this database, created with its schema; it never changes.
pub(crate) async fn key(pool: &Pool) -> Result<Vec<u8>> {
    Ok(pool.query_one(KEY, &[]).await?.get("key"))
}

/// The time by the database's clock.
pub(crate) async fn clock(pool: &Pool) -> Result<DateTime<Utc>> {
    Ok(pool.query_one(CLOCK, &[]).await?.get("now"))
}

/// What became of a token for one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    Now,
    /// It was used before.
    Before,
    Expired,
}

/// Notes that a token is used.
pub(crate) async fn spend(pool: &Pool, tenant: &TenantId, id: &str, expires: DateTime<Utc>) -> Result<Spent> {
    let row = pool.query_one(SPEND, &[&tenant.as_str(), &id, &expires]).await?;
    Ok(match (row.get("is_spent"), row.get("has_expired")) {
        (true, _) => Spent::Now,
        (false, true) => Spent::Expired,
        (false, false) => Spent::Before,
    })
}
