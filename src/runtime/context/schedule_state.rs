//! When this node fires schedules next, and whether it may.

use std::sync::atomic::{AtomicBool, Ordering};

use super::wake_timer::WakeTimer;
use crate::cluster::election::Election;

/// The scheduler's part of the context.
pub(crate) struct ScheduleState {
    /// When the next schedule is due.
    pub(crate) timer: WakeTimer,
    /// Occurrences are queued until an instance of their schedule has ended.
    pub(crate) queued: AtomicBool,
    /// Whether this node may fire.
    pub(crate) election: Election,
}

impl ScheduleState {
    pub(crate) fn new(election: Election) -> Self {
        Self {
            timer: WakeTimer::default(),
            queued: AtomicBool::new(false),
            election,
        }
    }

    /// An instance has ended that kept others of its schedule from starting: an occurrence may be queued for that, even one
    /// that this node has not received.
    pub(crate) fn overlap_ended(&self) {
        self.queued.store(true, Ordering::Relaxed);
        self.timer.wake_now();
    }
}
