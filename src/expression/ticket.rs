//! One evaluation, as its caller, its thread and the pool share it.

use std::sync::Condvar;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::script::WorkflowFacts;

/// No point in time.
const NEVER: u64 = u64::MAX;

pub(super) struct Ticket {
    pub(super) definition: String,
    pub(super) version: String,
    pub(super) instance: String,
    made: Instant,
    cancelled: AtomicBool,
    /// A thread has taken it.
    taken: AtomicBool,
    /// It has, or had, a slow place: its thread may wait for a turn.
    slow: AtomicBool,
    /// When it has run past its limit without asking whether it may go on; in microseconds since `made`.
    overdue: AtomicU64,
    /// Since when it waits for a slow place; likewise.
    displaced: AtomicU64,
    /// For its thread, under the lock of the slow places.
    pub(super) wake: Condvar,
}

impl Ticket {
    pub(super) fn new(facts: &WorkflowFacts) -> Self {
        Self {
            definition: facts.definition_id.clone(),
            version: facts.definition_version_id.clone(),
            instance: facts.instance_id.clone(),
            made: Instant::now(),
            cancelled: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            slow: AtomicBool::new(false),
            overdue: AtomicU64::new(NEVER),
            displaced: AtomicU64::new(NEVER),
            wake: Condvar::new(),
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.made).as_micros()).unwrap_or(NEVER)
    }

    /// Its caller has gone. True: its thread may have to be woken.
    pub(super) fn cancel(&self) -> bool {
        self.cancelled.store(true, Ordering::SeqCst);
        self.slow.load(Ordering::SeqCst)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    pub(super) fn take(&self) {
        self.taken.store(true, Ordering::Relaxed);
        self.displaced.store(NEVER, Ordering::Relaxed);
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn become_slow(&self) {
        self.slow.store(true, Ordering::SeqCst);
    }

    /// It runs, and must have asked whether it may go on until then.
    pub(super) fn runs_until(&self, overdue: Instant) {
        self.overdue.store(self.micros(overdue), Ordering::Relaxed);
    }

    /// It does not run.
    pub(super) fn rests(&self) {
        self.overdue.store(NEVER, Ordering::Relaxed);
    }

    /// It runs where nothing can interrupt it.
    pub(super) fn is_overdue(&self) -> bool {
        self.micros(Instant::now()) >= self.overdue.load(Ordering::Relaxed)
    }

    pub(super) fn displace(&self) {
        self.displaced.store(self.micros(Instant::now()), Ordering::Relaxed);
    }

    /// How long it has waited for a slow place.
    pub(super) fn displaced_for(&self) -> Duration {
        let since = self.displaced.load(Ordering::Relaxed);
        Duration::from_micros(self.micros(Instant::now()).saturating_sub(since))
    }
}
