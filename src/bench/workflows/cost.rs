//! The cost of workflows in engine and server.

use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio_postgres::Client;

use crate::bench::queries;
use crate::db::Session;
use crate::harness::failure::Failure;

/// The unit of CPU times in `/proc`, on Linux.
const TICK: Duration = Duration::from_millis(10);

/// The totals at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    wal_bytes: i64,
    flushes: i64,
    engine: Duration,
    /// None if the server's processes are not visible on this machine.
    server: Option<Duration>,
}

/// The difference of two readings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) wal_bytes: f64,
    pub(super) flushes: f64,
    pub(super) engine: Duration,
    pub(super) server: Option<Duration>,
}

pub(super) struct Meter {
    session: Session,
    /// Whether the engines are child processes.
    children: bool,
}

impl Meter {
    pub(super) fn new(session: Session, children: bool) -> Self {
        Self { session, children }
    }

    pub(super) fn client(&self) -> &Client {
        &self.session.client
    }

    /// The database's clock.
    pub(super) async fn clock(&self) -> Result<DateTime<Utc>, Failure> {
        Ok(queries::clock(self.client()).await?)
    }

    pub(super) async fn read(&self) -> Result<Reading, Failure> {
        let written = queries::written(&self.session.client).await?;
        let processes = processes();
        let own = std::process::id();
        let engine = processes.iter().filter(|process| {
            if self.children {
                process.parent == own
            } else {
                process.id == own
            }
        });
        let postmaster = processes
            .iter()
            .find(|process| i64::from(process.id) == i64::from(written.backend) && process.is_postgres)
            .map(|backend| backend.parent);
        Ok(Reading {
            wal_bytes: written.wal_bytes,
            flushes: written.flushes,
            engine: engine.map(|process| process.busy).sum(),
            // The postmaster's times include backends that have exited.
            server: postmaster.map(|postmaster| {
                let backends = processes.iter().filter(|process| process.parent == postmaster);
                let itself = processes.iter().filter(|process| process.id == postmaster);
                backends.map(|process| process.busy).sum::<Duration>()
                    + itself.map(|process| process.busy + process.reaped).sum::<Duration>()
            }),
        })
    }
}

impl Reading {
    /// The cost since an earlier reading.
    pub(super) fn since(&self, before: &Self) -> Cost {
        Cost {
            wal_bytes: (self.wal_bytes - before.wal_bytes) as f64,
            flushes: (self.flushes - before.flushes) as f64,
            engine: self.engine.saturating_sub(before.engine),
            server: self
                .server
                .zip(before.server)
                .map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

struct Process {
    id: u32,
    parent: u32,
    is_postgres: bool,
    busy: Duration,
    reaped: Duration,
}

fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| process(&entry.path())).collect()
}

/// Parses `/proc/ID/stat`. The name is in parentheses, and may contain any character.
fn process(folder: &Path) -> Option<Process> {
    let id = folder.file_name()?.to_str()?.parse().ok()?;
    let text = std::fs::read_to_string(folder.join("stat")).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // From the third field on: state, parent, …; the 14th to 17th are the times of the process and of its reaped children.
    let ticks = |place: usize| fields.get(place)?.parse::<u32>().ok();
    Some(Process {
        id,
        parent: ticks(1)?,
        is_postgres: head.contains("(postgres"),
        busy: TICK * (ticks(11)? + ticks(12)?),
        reaped: TICK * (ticks(13)? + ticks(14)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_listed() {
        let own = std::process::id();
        let found = processes().into_iter().find(|process| process.id == own).unwrap();
        assert!(found.parent > 0 && !found.is_postgres);
    }
}
