//! What has happened so far: counters, depths and latencies.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainspring::internals::{Failure, finished_instances};

use crate::histogram::{Percentiles, Window};

/// The measures of this process.
pub(crate) struct Measures {
    /// Jobs that the engine has accepted durably.
    pub(crate) enqueued: AtomicU64,
    /// Instances whose end is committed; a job that is repeated after a crash counts once.
    completed: Arc<AtomicU64>,
    /// Accepted work that no node has claimed.
    pub(crate) queued: AtomicU64,
    /// Claimed work.
    pub(crate) running: AtomicU64,
    /// The rate that the producer aims at, in jobs per second.
    pub(crate) target_rate: AtomicU64,
    /// A batch, from its begin until all its jobs are accepted.
    pub(crate) calls: Latencies,
    /// The same, divided by the number of jobs.
    pub(crate) jobs: Latencies,
    /// From before a job is dispatched until its activity begins.
    pub(crate) claims: Latencies,
    /// From before a job is dispatched until its activity ends.
    pub(crate) ends: Latencies,
}

impl Measures {
    pub(crate) fn new(window: Duration) -> Result<Self, Failure> {
        let latencies = || Latencies(Mutex::new(Window::new(window)));
        Ok(Self {
            enqueued: AtomicU64::new(0),
            completed: finished_instances()?,
            queued: AtomicU64::new(0),
            running: AtomicU64::new(0),
            target_rate: AtomicU64::new(0),
            calls: latencies(),
            jobs: latencies(),
            claims: latencies(),
            ends: latencies(),
        })
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Relaxed)
    }
}

/// Latencies that several tasks record.
pub(crate) struct Latencies(Mutex<Window>);

impl Latencies {
    pub(crate) fn record(&self, latency: Duration) {
        self.record_each(latency, 1);
    }

    pub(crate) fn record_each(&self, latency: Duration, count: u64) {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        window.record(Instant::now(), latency, count);
    }

    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        window.percentiles(Instant::now())
    }
}
