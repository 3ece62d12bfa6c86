//! The keys that sign resume links and tokens, the clock by which tokens expire, and which single-use tokens were used.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::db::{Pool, columns};
use crate::id::TenantId;
use crate::{Error, Result};

const KEYS: &str = include_str!("../../sql/queries/token/keys.sql");
const ROTATE: &str = include_str!("../../sql/queries/token/rotate.sql");
const RETIRE: &str = include_str!("../../sql/queries/token/retire.sql");
const SPEND: &str = include_str!("../../sql/queries/token/spend.sql");
const CLOCK: &str = include_str!("../../sql/queries/token/clock.sql");

/// The most keys at once: each node holds all of them.
pub(crate) const MOST_KEYS: i64 = 16;

/// A key that verifies links and tokens.
#[derive(Clone)]
pub(crate) struct TokenKey {
    /// Grows with each rotation.
    pub(crate) id: i32,
    pub(crate) key: Vec<u8>,
    pub(crate) created_at: DateTime<Utc>,
    /// How old it was when it was read, by the database's clock.
    pub(crate) age: Duration,
}

/// The keys, the newest first.
pub(crate) async fn keys(pool: &Pool) -> Result<Vec<TokenKey>> {
    let rows = pool.query(KEYS, &[]).await?;
    let at = columns!(rows; id, key, created_at, now)?;
    let key = |row: &tokio_postgres::Row| {
        let (created_at, now): (DateTime<Utc>, DateTime<Utc>) = (row.get(at.created_at), row.get(at.now));
        TokenKey {
            id: row.get(at.id),
            key: row.get(at.key),
            created_at,
            age: (now - created_at).to_std().unwrap_or_default(),
        }
    };
    Ok(rows.iter().map(key).collect())
}

/// Adds a key; `None` if there are [`MOST_KEYS`] already.
pub(crate) async fn rotate(pool: &Pool) -> Result<Option<i32>> {
    let row = pool.change_opt(ROTATE, &[&MOST_KEYS], |rows| !rows.is_empty()).await?;
    Ok(row.map(|row| row.get("id")))
}

/// What became of a key that was to be retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retired {
    /// It verifies nothing any more.
    Now,
    /// It still signs: no other one is older than `signs_after`.
    Signs,
    /// So many links and sessions that it has signed can be used, [`MOST_COUNTED`] of either at most.
    InUse { links: i64, sessions: i64 },
    /// There is no such key.
    Unknown,
}

/// The most links, and the most sessions, of a key that are counted.
pub(crate) const MOST_COUNTED: i64 = 1_000;

/// Deletes a key, unless nodes may still sign with it, or links or sessions of it can be used and `is_forced` is false.
pub(crate) async fn retire(pool: &Pool, id: i32, signs_after: Duration, is_forced: bool) -> Result<Retired> {
    let after = i64::try_from(signs_after.as_micros()).unwrap_or(i64::MAX);
    let row = pool
        .change_one(RETIRE, &[&id, &after, &is_forced, &MOST_COUNTED], |rows| {
            rows.iter().any(|row| row.get("is_retired"))
        })
        .await?;
    let at = columns!(row; is_retired, links, sessions, was_known)?;
    let (links, sessions) = (row.get(at.links), row.get(at.sessions));
    Ok(
        match (row.get(at.is_retired), row.get(at.was_known), (links, sessions)) {
            (true, _, _) => Retired::Now,
            (false, false, _) => Retired::Unknown,
            (false, true, (0, 0)) => Retired::Signs,
            (false, true, (links, sessions)) => Retired::InUse { links, sessions },
        },
    )
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

/// The error of a rotation that finds no room.
pub(crate) fn too_many_keys() -> Error {
    let message = format!("there are {MOST_KEYS} keys already; retire those whose links and sessions have all expired");
    Error::conflict("too-many-keys", message)
}
