//! What an operator sees of the cluster: who is there, what waits, who holds which lock.
//!
//! All of it is read from the database, so any node answers for all. What only the process of a node knows of its locks
//! (names, for how long, who waits) it writes down when somebody asks, see [`ask`] and [`answer`].

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dead_letter;
use crate::db::Pool;
use crate::id::{Incarnation, NodeId};
use crate::{Error, Result};

const NODES: &str = include_str!("../../sql/queries/overview/nodes.sql");
const QUEUE: &str = include_str!("../../sql/queries/overview/queue.sql");
const LOCKS: &str = include_str!("../../sql/queries/overview/locks.sql");
const ASK: &str = include_str!("../../sql/queries/lock/report_ask.sql");
const ANSWER: &str = include_str!("../../sql/queries/lock/report_answer.sql");
const MISSING: &str = include_str!("../../sql/queries/lock/report_missing.sql");
const READ: &str = include_str!("../../sql/queries/lock/report_read.sql");

/// A node, as the database knows it.
#[derive(Clone, Debug)]
pub(crate) struct NodeRow {
    pub(crate) incarnation: Incarnation,
    pub(crate) node: NodeId,
    /// None: it was declared dead.
    pub(crate) started_at: Option<DateTime<Utc>>,
    pub(crate) last_seen: Option<DateTime<Utc>>,
    pub(crate) state: String,
    /// Instances of which it has rows in its hands.
    pub(crate) running: i64,
    pub(crate) age_ms: Option<i64>,
    /// Activity types that published versions use and it does not know.
    pub(crate) lacks: Vec<String>,
    pub(crate) roles: Vec<String>,
    /// It is the one active scheduler.
    pub(crate) scheduler_term: Option<i64>,
}

/// Who is there, oldest registration first.
pub(crate) async fn nodes(pool: &Pool) -> Result<Vec<NodeRow>> {
    let rows = pool.query(NODES, &[]).await?;
    let row = |row: &tokio_postgres::Row| NodeRow {
        incarnation: Incarnation(row.get(0)),
        node: NodeId::new(row.get::<_, String>(1)),
        started_at: row.get(2),
        last_seen: row.get(3),
        state: row.get(4),
        running: row.get(5),
        age_ms: row.get(6),
        lacks: row.get(7),
        roles: row.get(8),
        scheduler_term: row.get(9),
    };
    Ok(rows.iter().map(row).collect())
}

/// So much waits.
#[derive(Clone, Debug)]
pub(crate) struct QueueRow {
    pub(crate) kind: &'static str,
    pub(crate) state: String,
    pub(crate) count: i64,
    pub(crate) oldest_ms: Option<i64>,
    pub(crate) next_at: Option<DateTime<Utc>>,
}

/// What waits, by kind and state.
pub(crate) async fn queue(pool: &Pool) -> Result<Vec<QueueRow>> {
    let rows = pool.query(QUEUE, &[]).await?;
    let row = |row: &tokio_postgres::Row| QueueRow {
        kind: dead_letter::word(row.get(0)),
        state: row.get(1),
        count: row.get(2),
        oldest_ms: row.get(3),
        next_at: row.get(4),
    };
    Ok(rows.iter().map(row).collect())
}

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
pub(crate) async fn locks(pool: &Pool, schema_key: &str) -> Result<Vec<LockRow>> {
    let rows = pool.query(LOCKS, &[&format!("mainspring/{schema_key}/")]).await?;
    let row = |row: &tokio_postgres::Row| LockRow {
        incarnation: Incarnation(row.get(0)),
        key: row.get(1),
        shared: row.get(2),
        waiting: row.get(3),
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
pub(crate) async fn ask(pool: &Pool, channel: &str) -> Result<DateTime<Utc>> {
    Ok(pool.query_one(ASK, &[&channel]).await?.get(0))
}

/// Writes down what this node knows.
pub(crate) async fn answer(pool: &Pool, incarnation: Incarnation, locks: &[LockReport]) -> Result<()> {
    let locks = serde_json::to_value(locks).map_err(|error| Error::internal("locks are no JSON").caused_by(error))?;
    pool.query(ANSWER, &[&incarnation.0, &locks]).await?;
    Ok(())
}

/// Whether all nodes that live have answered.
pub(crate) async fn all_answered(pool: &Pool, since: DateTime<Utc>) -> Result<bool> {
    Ok(pool.query_one(MISSING, &[&since]).await?.get::<_, i64>(0) == 0)
}

/// What was answered.
pub(crate) async fn answers(pool: &Pool, since: DateTime<Utc>) -> Result<Vec<(Incarnation, Vec<LockReport>)>> {
    let rows = pool.query(READ, &[&since]).await?;
    Ok(rows
        .iter()
        .map(|row| {
            // A newer node may say it in another way; then its locks are shown without.
            let said = Vec::deserialize(row.get::<_, Value>(1)).unwrap_or_default();
            (Incarnation(row.get(0)), said)
        })
        .collect())
}
