//! Whether the cluster accepts and claims, in one row that every such statement reads.
//!
//! # Invariants
//!
//! - A statement that accepts a request, or claims a row, reads the mode in its own snapshot: no round trip is added.
//! - [`set`] waits for every transaction that had locked the tables of such statements when the change was committed. A
//!   statement takes its locks before its snapshot, so whatever is accepted after the return has read the pause.
//! - Cancels are accepted and claimed all the same.

use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use tokio::time::Instant;

pub(crate) use super::code::PauseMode;
use crate::db::{Pool, columns};
use crate::failpoint;
use crate::{Error, Result};

const READ: &str = include_str!("../../sql/queries/pause/read.sql");
const SET: &str = include_str!("../../sql/queries/pause/set.sql");
const WRITERS: &str = include_str!("../../sql/queries/pause/writers.sql");

/// How long to wait for transactions that began before a pause.
const WRITERS_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval between two checks for them.
const WRITERS_INTERVAL: Duration = Duration::from_millis(2);

/// The mode of the cluster, and how often it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) mode: PauseMode,
    pub(crate) generation: i64,
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            mode: PauseMode::Running,
            generation: 0,
        }
    }
}

impl Pause {
    /// A newer program may have further modes: they claim nothing.
    pub(super) fn read(mode: i16, generation: i64) -> Self {
        Self {
            mode: PauseMode::from_number(mode).unwrap_or(PauseMode::Paused),
            generation,
        }
    }
}

/// The row as operators see it.
#[derive(Clone, Debug)]
pub(crate) struct PauseRow {
    pub(crate) pause: Pause,
    pub(crate) paused_at: Option<DateTime<Utc>>,
    pub(crate) drain_started_at: Option<DateTime<Utc>>,
    pub(crate) reason: Option<String>,
    pub(crate) requested_by: Option<String>,
}

/// Reads the row.
pub(crate) async fn read(pool: &Pool) -> Result<PauseRow> {
    let row = pool.query_one(READ, &[]).await?;
    let at = columns!(row; mode, generation, paused_at, drain_started_at, reason, requested_by)?;
    Ok(PauseRow {
        pause: Pause::read(row.get(at.mode), row.get(at.generation)),
        paused_at: row.get(at.paused_at),
        drain_started_at: row.get(at.drain_started_at),
        reason: row.get(at.reason),
        requested_by: row.get(at.requested_by),
    })
}

/// Changes the mode; returns false if it was in this mode, or drains. Returns when no earlier transaction accepts or claims
/// any more.
/// [`Error::is_unavailable`] if the mode is changed, but one of them did not end in time. If the future is dropped, the mode
/// may be changed.
pub(crate) async fn set(pool: &Pool, mode: PauseMode, reason: Option<&str>, requested_by: &str) -> Result<bool> {
    failpoint::hit("pause.set").await?;
    let params: [&(dyn ToSql + Sync); 3] = [&mode.number(), &reason, &requested_by];
    let is_changed = !pool.change(SET, &params, |rows| !rows.is_empty()).await?.is_empty();
    if mode != PauseMode::Running {
        // Also if it was paused before: the first caller may not have waited to the end.
        wait_for_writers(pool).await?;
    }
    Ok(is_changed)
}

async fn wait_for_writers(pool: &Pool) -> Result<()> {
    let until = Instant::now() + WRITERS_TIMEOUT;
    let mut remaining: Option<Vec<String>> = None;
    loop {
        let still: Vec<String> = pool.query_one(WRITERS, &[&remaining]).await?.get("writers");
        if still.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            let message = format!(
                "the cluster is paused, but {} transactions that began before do not end and may still accept something; \
                 pause again to wait for them",
                still.len()
            );
            return Err(Error::unavailable("database-busy", message));
        }
        remaining = Some(still);
        failpoint::hit("pause.waits").await?;
        tokio::time::sleep(WRITERS_INTERVAL).await;
    }
}
