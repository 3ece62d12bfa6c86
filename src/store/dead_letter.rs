//! What was given up: rows that were in the hands of three processes that died, or that failed again and again.
//!
//! The statements that hand rows back write the letters. A letter keeps all that a replay needs; its instance is left
//! waiting, and its other rows run on.

#![allow(dead_code, reason = "their routes come with those of the cluster")]

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::db::Pool;
use crate::id::{InstanceId, TenantId};
use crate::{Error, Result};

const LIST: &str = include_str!("../../sql/queries/dead_letter_list.sql");
const COUNT: &str = include_str!("../../sql/queries/dead_letter_count.sql");
const REPLAY: &str = include_str!("../../sql/queries/dead_letter_replay.sql");
const DELETE: &str = include_str!("../../sql/queries/dead_letter_delete.sql");

/// A row that was given up.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    pub(crate) id: i64,
    pub(crate) instance: InstanceId,
    /// A word for what it was to do.
    pub(crate) kind: &'static str,
    /// Why it was given up.
    pub(crate) reason: String,
    /// When, by the database's clock.
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) failures: i32,
    pub(crate) crashes: i32,
    /// Null for a delay.
    pub(crate) body: Value,
}

fn word(kind: i16) -> &'static str {
    match kind {
        0 => "start",
        1 => "resume",
        2 => "stimulus",
        3 => "cancel",
        4 => "continue",
        5 => "delay",
        _ => "unknown",
    }
}

fn not_found(id: i64) -> Error {
    Error::not_found("dead-letter-not-found", format!("there is no dead letter {id}"))
}

/// A page of the letters of a tenant, newest first.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId, limit: i64, offset: i64) -> Result<Vec<DeadLetter>> {
    let rows = pool.query(LIST, &[&tenant.as_str(), &limit, &offset]).await?;
    Ok(rows
        .iter()
        .map(|row| DeadLetter {
            id: row.get(0),
            instance: InstanceId::new(row.get::<_, String>(1)),
            kind: word(row.get(2)),
            reason: row.get(3),
            created_at: row.get(4),
            failures: row.get(5),
            crashes: row.get(6),
            // JSON that Postgres takes and we do not, as it nests too deep.
            body: row.try_get::<_, Option<Value>>(7).ok().flatten().unwrap_or(Value::Null),
        })
        .collect())
}

/// How many letters a tenant has.
pub(crate) async fn count(pool: &Pool, tenant: &TenantId) -> Result<i64> {
    Ok(pool.query_one(COUNT, &[&tenant.as_str()]).await?.get(0))
}

/// Makes work of a letter again, with a clean slate; gives the instance that it is for. One whose instance has finished
/// meanwhile is only thrown away. No such letter: [`Error::is_not_found`].
pub(crate) async fn replay(pool: &Pool, tenant: &TenantId, id: i64) -> Result<InstanceId> {
    let row = pool.query_opt(REPLAY, &[&tenant.as_str(), &id]).await?;
    Ok(InstanceId::new(row.ok_or_else(|| not_found(id))?.get::<_, String>(0)))
}

/// Throws a letter away. One without which a running instance would wait for ever: [`Error::is_conflict`].
pub(crate) async fn delete(pool: &Pool, tenant: &TenantId, id: i64) -> Result<()> {
    let row = pool.query_one(DELETE, &[&tenant.as_str(), &id]).await?;
    match (row.get(0), row.get(1)) {
        (_, true) => Ok(()),
        (true, false) => Err(Error::conflict(
            "dead-letter-needed",
            "without this dead letter its instance would wait for ever: replay it, or cancel the instance first",
        )),
        (false, false) => Err(not_found(id)),
    }
}
