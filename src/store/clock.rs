//! The clock of the database, by which everything persisted is dated.

use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};

/// The time by the database's clock, without another query: a reading and how long ago it was. Never ahead of the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatabaseClock {
    at: DateTime<Utc>,
    read: Instant,
}

impl DatabaseClock {
    /// Starts from a reading that has just arrived.
    pub(crate) fn read(at: DateTime<Utc>) -> Self {
        Self {
            at,
            read: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        let passed = TimeDelta::from_std(self.read.elapsed()).unwrap_or_default();
        self.at.checked_add_signed(passed).unwrap_or(self.at)
    }
}
