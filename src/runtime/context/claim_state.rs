//! What this node has claimed and can claim: bursts in flight, free workers, and when to poll next.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

use super::byte_budget::ByteBudget;
use super::in_flight::InFlight;
use super::payload_cache::PayloadCache;
use super::unsupported::UnsupportedVersions;
use super::wake_timer::WakeTimer;
use crate::activity::Catalogue;
use crate::store::claim::InstanceKey;
use crate::watchdog::Steps;

/// How long an instance is deferred whose lock is held elsewhere; jittered. The holder polls after the release, so this
/// covers only a lost notification.
const LOCKED_ELSEWHERE: Duration = Duration::from_millis(100);

/// A vacuum after so many bursts: some 10 MB of rows and index entries.
const VACUUM_BURSTS: usize = 50_000;

/// The claims of a node and what bounds them.
pub(crate) struct ClaimState {
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) bytes: Arc<ByteBudget>,
    pub(crate) workers: Workers,
    pub(crate) wake_timer: WakeTimer,
    pub(crate) unsupported: UnsupportedVersions,
    pub(crate) vacuum: VacuumTrigger,
    /// Notified when this node has accepted an event that is fanned out.
    pub(crate) fan_outs: Notify,
    pub(crate) payloads: PayloadCache,
}

impl ClaimState {
    pub(crate) fn new(workers: usize, bytes: usize, catalogue: &Catalogue, steps: Steps) -> Self {
        Self {
            in_flight: Arc::new(InFlight::new(steps)),
            bytes: Arc::new(ByteBudget::new(bytes, workers)),
            workers: Workers::new(workers),
            wake_timer: WakeTimer::default(),
            unsupported: UnsupportedVersions::new(catalogue),
            vacuum: VacuumTrigger::default(),
            fan_outs: Notify::new(),
            payloads: PayloadCache::default(),
        }
    }

    /// The instances that a poll leaves out.
    pub(crate) fn excluded(&self) -> Vec<InstanceKey> {
        let mut excluded = self.in_flight.excluded();
        excluded.extend(self.bytes.waiting());
        excluded
    }

    /// An instance was cancelled or deleted: a running burst of it on this node stops, and one that waits for room is polled.
    pub(crate) fn cancel(&self, key: &InstanceKey) {
        self.in_flight.cancel(key);
        self.bytes.show(key);
    }

    /// Polls for these instances again in a moment, not at once: another session holds their locks, or a row of them.
    pub(crate) fn defer(&self, keys: impl IntoIterator<Item = InstanceKey>) {
        self.defer_for(keys, LOCKED_ELSEWHERE.mul_f64(rand::random_range(0.5..1.5)));
    }

    /// The same, after so long.
    pub(crate) fn defer_for(&self, keys: impl IntoIterator<Item = InstanceKey>, pause: Duration) {
        let until = Instant::now() + pause;
        // One poll for all of them.
        if self.in_flight.defer(keys, until) {
            self.wake_timer.wake_at(until);
        }
    }
}

/// The workers of a node: how many bursts run at once.
pub(crate) struct Workers {
    pub(crate) count: usize,
    /// One permit per burst that may run.
    pub(crate) permits: Arc<Semaphore>,
    /// Permits held by the poll that is under way, for what it may find.
    pub(crate) polling: AtomicUsize,
    /// The last poll has not shown all work that is due.
    pub(crate) has_backlog: AtomicBool,
    /// The one permit to run an isolated row, which two processes crashed with.
    pub(crate) isolation: Arc<Semaphore>,
}

impl Workers {
    fn new(count: usize) -> Self {
        Self {
            count,
            permits: Arc::new(Semaphore::new(count)),
            polling: AtomicUsize::new(0),
            has_backlog: AtomicBool::new(false),
            isolation: Arc::new(Semaphore::new(1)),
        }
    }

    /// How many more bursts may run at once. Permits of a poll count: it may find nothing, and all work that is accepted
    /// meanwhile would seem to exceed the room.
    pub(crate) fn room(&self) -> usize {
        self.permits.available_permits() + self.polling.load(Relaxed)
    }
}

/// Counts bursts until a vacuum is due. One waiter.
#[derive(Default)]
pub(crate) struct VacuumTrigger {
    bursts: AtomicUsize,
    due: Notify,
}

impl VacuumTrigger {
    /// A burst has consumed its rows.
    pub(crate) fn count_burst(&self) {
        if self.bursts.fetch_add(1, Relaxed) + 1 == VACUUM_BURSTS {
            self.due.notify_one();
        }
    }

    /// Returns when a vacuum is due. Cancellation safe: a notification without a waiter is kept.
    pub(crate) async fn due(&self) {
        self.due.notified().await;
    }

    pub(crate) fn reset(&self) {
        self.bursts.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_vacuum_is_due_once_after_so_many_bursts() {
        let trigger = VacuumTrigger::default();
        let is_due = async || {
            tokio::time::timeout(Duration::from_millis(1), trigger.due())
                .await
                .is_ok()
        };
        for _ in 1..VACUUM_BURSTS {
            trigger.count_burst();
        }
        assert!(!is_due().await);
        trigger.count_burst();
        trigger.count_burst();
        assert!(is_due().await);
        assert!(!is_due().await);
        trigger.reset();
        for _ in 0..VACUUM_BURSTS {
            trigger.count_burst();
        }
        assert!(is_due().await);
    }
}
