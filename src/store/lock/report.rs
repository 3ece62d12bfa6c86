//! Which locks the nodes of a cluster hold, as an operator sees them.
//!
//! The server knows keys and sessions. Names, waiting requests and since when a lock is held only the process of a node
//! knows: it writes them down on request, see [`request_reports`] and [`write_report`].

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::db::{Pool, columns};
use crate::id::Incarnation;
use crate::{Error, Result};

const LOCKS: &str = include_str!("../../../sql/queries/lock/list_held.sql");
const ASK: &str = include_str!("../../../sql/queries/lock/report_ask.sql");
const ANSWER: &str = include_str!("../../../sql/queries/lock/report_answer.sql");
const MISSING: &str = include_str!("../../../sql/queries/lock/report_missing.sql");
const READ: &str = include_str!("../../../sql/queries/lock/report_read.sql");

/// A lock that a node holds in the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRow {
    pub(crate) incarnation: Incarnation,
    pub(crate) key: i64,
    pub(crate) shared: bool,
    /// Sessions that wait for it in the server: those that watch over a neighbour.
    pub(crate) waiting: i64,
}

/// The locks that the nodes of a schema hold; `schema_key` is what their connections are named with.
pub(crate) async fn held_locks(pool: &Pool, schema_key: &str) -> Result<Vec<LockRow>> {
    let rows = pool.query(LOCKS, &[&format!("mainspring/{schema_key}/")]).await?;
    let at = columns!(rows; incarnation, key, shared, waiting)?;
    let row = |row: &tokio_postgres::Row| LockRow {
        incarnation: Incarnation(row.get(at.incarnation)),
        key: row.get(at.key),
        shared: row.get(at.shared),
        waiting: row.get(at.waiting),
    };
    Ok(rows.iter().map(row).collect())
}

/// What a node says of one lock that it has, or for which somebody in it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LockReport {
    /// None: it is not the server that keeps this lock.
    pub(crate) key: Option<i64>,
    #[serde(default)]
    pub(crate) shared: bool,
    /// None: nobody in the process owns it just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_ms: Option<u64>,
    /// The session has it.
    pub(crate) held: bool,
    /// Requests of the process that stand in line.
    pub(crate) waiters: u64,
}

/// Asks all nodes to write down what they know; answers count from the moment that this gives.
pub(crate) async fn request_reports(pool: &Pool, channel: &str) -> Result<DateTime<Utc>> {
    Ok(pool.query_one(ASK, &[&channel]).await?.get("asked_at"))
}

/// Writes down what this node knows.
pub(crate) async fn write_report(pool: &Pool, incarnation: Incarnation, locks: &[LockReport]) -> Result<()> {
    let locks = serde_json::to_value(locks).map_err(|error| Error::internal("locks are no JSON").caused_by(error))?;
    pool.query(ANSWER, &[&incarnation.0, &locks]).await?;
    Ok(())
}

/// Whether all nodes that live have answered.
pub(crate) async fn all_reported(pool: &Pool, since: DateTime<Utc>) -> Result<bool> {
    Ok(pool.query_one(MISSING, &[&since]).await?.get::<_, i64>("missing") == 0)
}

/// What was answered.
pub(crate) async fn reports(pool: &Pool, since: DateTime<Utc>) -> Result<Vec<(Incarnation, Vec<LockReport>)>> {
    let rows = pool.query(READ, &[&since]).await?;
    let at = columns!(rows; incarnation, locks)?;
    Ok(rows
        .iter()
        .map(|row| {
            // A newer node may say it in another way; then its locks are shown without.
            let said = Vec::deserialize(row.get::<_, Value>(at.locks)).unwrap_or_default();
            (Incarnation(row.get(at.incarnation)), said)
        })
        .collect())
}
