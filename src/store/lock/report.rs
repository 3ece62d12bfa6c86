//! Which locks the nodes of a cluster hold, as an operator sees them.
//!
//! The server knows keys and sessions. Names, waiting requests and the age of a lock are known only to the process of a
//! node, which writes them on request: see [`request_reports`] and [`write_report`].

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

/// A lock that a session of a node holds in the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRow {
    pub(crate) incarnation: Incarnation,
    pub(crate) key: i64,
    pub(crate) shared: bool,
    /// Sessions that wait for it in the server: those of the liveness watch.
    pub(crate) waiting: i64,
}

/// The locks that the nodes of a schema hold; `schema_key` is the part of `application_name` that names the schema.
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

/// What a node reports of one lock that it holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LockReport {
    /// `None` if the lock is not held in the server.
    pub(crate) key: Option<i64>,
    #[serde(default)]
    pub(crate) shared: bool,
    /// `None` if no request of the process owns it at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_ms: Option<u64>,
    /// The session holds it.
    pub(crate) held: bool,
    /// Requests of the process that wait for it.
    pub(crate) waiters: u64,
}

/// Requests reports from all nodes; returns the time from which reports count.
pub(crate) async fn request_reports(pool: &Pool, channel: &str) -> Result<DateTime<Utc>> {
    Ok(pool.query_one(ASK, &[&channel]).await?.get("asked_at"))
}

/// Writes the report of this node.
pub(crate) async fn write_report(pool: &Pool, incarnation: Incarnation, locks: &[LockReport]) -> Result<()> {
    let locks = serde_json::to_value(locks)
        .map_err(|error| Error::internal("a lock report cannot be written as JSON").caused_by(error))?;
    pool.query(ANSWER, &[&incarnation.0, &locks]).await?;
    Ok(())
}

/// Whether all live nodes have written a report since then.
pub(crate) async fn all_reported(pool: &Pool, since: DateTime<Utc>) -> Result<bool> {
    Ok(pool.query_one(MISSING, &[&since]).await?.get::<_, i64>("missing") == 0)
}

/// The reports written since then.
pub(crate) async fn reports(pool: &Pool, since: DateTime<Utc>) -> Result<Vec<(Incarnation, Vec<LockReport>)>> {
    let rows = pool.query(READ, &[&since]).await?;
    let at = columns!(rows; incarnation, locks)?;
    Ok(rows
        .iter()
        .map(|row| {
            // A newer node may write another form; then its locks are listed without details.
            let locks = Vec::deserialize(row.get::<_, Value>(at.locks)).unwrap_or_default();
            (Incarnation(row.get(at.incarnation)), locks)
        })
        .collect())
}
