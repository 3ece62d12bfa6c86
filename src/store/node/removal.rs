//! Removes an expired or crashed incarnation: fence it, terminate its sessions, release its claims, delete its row.
//!
//! # Invariants
//!
//! - Its fence rows are deleted first, which waits for its commit in flight and refuses every later one.
//! - Claims are released only after its sessions were terminated, and until none is left: the first pass skips rows that its
//!   last commit has locked.
//! - The mark of the removal is deleted last, so that another node finishes a removal whose node crashed.
//! - Any number of nodes may remove an incarnation at once.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::db::{ANSWER_TIMEOUT, columns, within};
use crate::failpoint;
use crate::id::{Incarnation, NodeId};
use crate::{Error, Result};

const FENCE: &str = include_str!("../../../sql/queries/node/remove_fence.sql");
const MARK: &str = include_str!("../../../sql/queries/node/remove_begin.sql");
const TERMINATE: &str = include_str!("../../../sql/queries/node/remove_terminate.sql");
const RELEASE: &str = include_str!("../../../sql/queries/node/remove_release.sql");
const REMAINING: &str = include_str!("../../../sql/queries/node/remove_remaining.sql");
const FORGET: &str = include_str!("../../../sql/queries/node/remove_end.sql");
const STATE: &str = include_str!("../../../sql/queries/node/remove_state.sql");
const UNFINISHED: &str = include_str!("../../../sql/queries/node/remove_unfinished.sql");
const ORPHANS: &str = include_str!("../../../sql/queries/node/remove_orphaned.sql");

/// How long a removal may take before it is left unfinished for another attempt.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why an incarnation is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovalCause {
    /// Its process crashed. Its claims count a crash, unless the server crashed with it, or it was hung before.
    Crashed,
    /// Its process may still run, under another incarnation or cut off: no crash is counted.
    Replaced,
}

/// Removes an incarnation and returns how many claims were released. `node` is the removing node.
pub(crate) async fn remove(
    client: &Client,
    incarnation: Incarnation,
    node: &NodeId,
    cause: RemovalCause,
) -> Result<u64> {
    failpoint::hit("removal.before").await?;
    let (name, crashed) = (node.as_str(), cause == RemovalCause::Crashed);
    let fenced = within(
        ANSWER_TIMEOUT,
        client.execute(FENCE, &[&incarnation.0, &name, &crashed]),
    )
    .await;
    match fenced {
        Ok(_) => {}
        Err(error) if error.code() == "database-busy" => {
            // It was stopped in the middle of a commit and holds its fence row: its sessions are terminated first.
            within(ANSWER_TIMEOUT, client.execute(MARK, &[&incarnation.0, &name, &crashed])).await?;
            terminate(client, incarnation).await?;
            within(
                ANSWER_TIMEOUT,
                client.execute(FENCE, &[&incarnation.0, &name, &crashed]),
            )
            .await?;
        }
        Err(error) => return Err(error),
    }
    failpoint::hit("removal.fenced").await?;
    terminate(client, incarnation).await?;
    failpoint::hit("removal.terminated").await?;
    let released = release(client, incarnation).await?;
    failpoint::hit("removal.released").await?;
    within(ANSWER_TIMEOUT, client.execute(FORGET, &[&incarnation.0])).await?;
    failpoint::hit("removal.forgotten").await?;
    Ok(released)
}

/// Terminates the sessions of an incarnation that is being removed or has expired; no others.
pub(crate) async fn terminate(client: &Client, incarnation: Incarnation) -> Result<()> {
    match within(ANSWER_TIMEOUT, client.query_one(TERMINATE, &[&incarnation.0])).await {
        Ok(row) => {
            let ended: i32 = row.get("ended");
            if ended > 0 {
                tracing::info!(%incarnation, ended, "terminated the sessions of a removed node");
            }
            Ok(())
        }
        Err(error) if error.is_unavailable() && !error.is_database_fault() => Err(error),
        Err(error) => {
            tracing::warn!(
                %incarnation, %error,
                "the sessions of a removed node cannot be terminated, so only the fence protects: make the owner of \
                 the schema a \
                 member of the role that the nodes log in as, or of pg_signal_backend"
            );
            Ok(())
        }
    }
}

async fn release(client: &Client, incarnation: Incarnation) -> Result<u64> {
    let began = Instant::now();
    let mut released = 0;
    loop {
        let row = within(ANSWER_TIMEOUT, client.query_one(RELEASE, &[&incarnation.0])).await?;
        let (count, dead_letters): (i64, i64) = (row.get("released"), row.get("dead_letters"));
        if dead_letters > 0 {
            tracing::error!(%incarnation, dead_letters, "rows that crashed every process that claimed them became dead letters");
        }
        released += u64::try_from(count).unwrap_or(0);
        failpoint::hit("removal.releasing").await?;
        if count > 0 {
            continue;
        }
        let remaining: bool = within(ANSWER_TIMEOUT, client.query_one(REMAINING, &[&incarnation.0]))
            .await?
            .get("remains");
        if !remaining {
            return Ok(released);
        }
        if began.elapsed() > TIMEOUT {
            return Err(Error::unavailable(
                "departure-busy",
                format!("rows claimed by incarnation {incarnation} stay locked by another session"),
            ));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What the database shows of an incarnation whose process may have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeState {
    /// It is registered, or its removal is not finished.
    pub(crate) exists: bool,
    /// It missed its check-in.
    pub(crate) is_late: bool,
    /// It has recorded that it hangs.
    pub(crate) is_hung: bool,
    /// One of its connections is idle: its process runs, or ended a moment ago. `None` if the owner of the schema may not
    /// see the state of its connections.
    pub(crate) is_alive: Option<bool>,
}

/// The state of an incarnation before its removal.
pub(crate) async fn node_state(client: &Client, incarnation: Incarnation) -> Result<NodeState> {
    let row = within(ANSWER_TIMEOUT, client.query_one(STATE, &[&incarnation.0])).await?;
    Ok(NodeState {
        exists: row.get("exists"),
        is_late: row.get("is_late"),
        is_hung: row.get("is_hung"),
        is_alive: row.get("is_alive"),
    })
}

/// Unfinished removals. Another node may still work on one, which does no harm.
pub(crate) async fn unfinished(client: &Client) -> Result<Vec<Incarnation>> {
    let rows = within(ANSWER_TIMEOUT, client.query(UNFINISHED, &[])).await?;
    let at = columns!(rows; incarnation)?;
    Ok(rows.iter().map(|row| Incarnation(row.get(at.incarnation))).collect())
}

/// Orphaned incarnations, which hold claims but are not registered, and unfinished removals.
pub(crate) async fn orphaned(client: &Client) -> Result<Vec<Incarnation>> {
    let rows = within(ANSWER_TIMEOUT, client.query(ORPHANS, &[])).await?;
    let at = columns!(rows; incarnation)?;
    Ok(rows.iter().map(|row| Incarnation(row.get(at.incarnation))).collect())
}
