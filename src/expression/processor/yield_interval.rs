//! How often a thread that runs a long script gives its processor to another thread.
//!
//! The scheduler lets a thread run for some milliseconds before one that has become ready, and an execute waits for several
//! such threads, one after the other. Its share of the processor hardly changes by that.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// Long beside a change of threads, which takes some microseconds.
const INTERVAL: Duration = Duration::from_micros(200);

/// The times at which a thread gives way.
#[derive(Debug)]
pub(in crate::expression) struct YieldInterval {
    since: Cell<Instant>,
}

impl YieldInterval {
    pub(in crate::expression) fn new() -> Self {
        Self {
            since: Cell::new(Instant::now()),
        }
    }

    /// Gives way if it is time to; `now` is known to the caller.
    pub(in crate::expression) fn check(&self, now: Instant) {
        if now.saturating_duration_since(self.since.get()) >= INTERVAL {
            thread::yield_now();
            self.since.set(Instant::now());
        }
    }
}
