//! The answers that the watchdog has received, and whether the node hangs.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::part::{Part, PartState, WatchedPart};
use super::polled::Steps;
use crate::id::{Incarnation, InstanceId, TenantId};

/// The steps of the tolerance.
pub(super) const TOLERATED: u64 = 10;

/// The least time that a part may take to answer, however short the tolerance is: a busy machine is slow, and does not hang.
const LEAST_TOLERANCE: Duration = Duration::from_secs(3);

/// The instances whose bursts have been in one poll since a step or longer.
pub(super) type PolledSince = Arc<dyn Fn(u64) -> Vec<(TenantId, InstanceId)> + Send + Sync>;

/// Why a node hangs: a part of it that did not answer for the tolerance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hang {
    part: Part,
    unanswered: Duration,
}

impl Hang {
    pub(super) fn part(&self) -> Part {
        self.part
    }
}

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} not answered for {:.1} s",
            self.part,
            self.unanswered.as_secs_f64()
        )
    }
}

/// The knowledge of a watchdog. Cheap to clone; without its thread it asks no part, and the node never hangs.
#[derive(Clone)]
pub(crate) struct Watchdog {
    inner: Arc<Inner>,
}

struct Inner {
    step: Duration,
    /// For how many steps a burst may keep its thread.
    burst_steps: u64,
    steps: Steps,
    parts: Mutex<Vec<Weak<PartState>>>,
    /// Of the bursts of one incarnation.
    bursts: Mutex<Option<(Incarnation, PolledSince)>>,
    health: watch::Sender<Health>,
    /// The check-in threads that have a hang to report.
    reporters: Mutex<usize>,
    reported: Condvar,
}

/// What follows from what was heard.
#[derive(Clone, Debug, Default)]
struct Health {
    /// The part that has not answered for longest, if it has not for half of the tolerance.
    unresponsive: Option<(Part, u64)>,
    /// For how many steps the node has been hung.
    hung_for: Option<u64>,
    /// How often the node was found hung: at first, and again after each further tolerance.
    hangs: u64,
    /// How many of these were reported, or could not be.
    reports: u64,
}

/// One without a thread.
#[cfg(test)]
impl Default for Watchdog {
    fn default() -> Self {
        Self::new(LEAST_TOLERANCE, LEAST_TOLERANCE)
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").finish_non_exhaustive()
    }
}

impl Watchdog {
    /// `longest_burst`: for how long a burst may keep its thread.
    pub(crate) fn new(tolerance: Duration, longest_burst: Duration) -> Self {
        let step = tolerance.max(LEAST_TOLERANCE) / TOLERATED as u32;
        let burst_steps = longest_burst.as_millis().div_ceil(step.as_millis().max(1));
        Self {
            inner: Arc::new(Inner {
                step,
                burst_steps: u64::try_from(burst_steps).unwrap_or(u64::MAX).max(TOLERATED),
                steps: Steps::default(),
                parts: Mutex::default(),
                bursts: Mutex::default(),
                health: watch::Sender::default(),
                reporters: Mutex::default(),
                reported: Condvar::new(),
            }),
        }
    }

    pub(super) fn step_length(&self) -> Duration {
        self.inner.step
    }

    pub(crate) fn steps(&self) -> &Steps {
        &self.inner.steps
    }

    /// Watches a part; of an incarnation until that is retired.
    pub(crate) fn watch(&self, part: Part, incarnation: Option<Incarnation>) -> WatchedPart {
        let steps = self.inner.steps.clone();
        let state = Arc::new(PartState::new(part, incarnation, &steps));
        self.parts().push(Arc::downgrade(&state));
        WatchedPart { state, steps }
    }

    /// Watches the bursts of an incarnation. `polled_since` must not wait: a hung thread may hold any lock.
    pub(crate) fn watch_bursts(
        &self,
        incarnation: Incarnation,
        polled_since: impl Fn(u64) -> Vec<(TenantId, InstanceId)> + Send + Sync + 'static,
    ) {
        *self.bursts() = Some((incarnation, Arc::new(polled_since)));
    }

    /// The registration is over: its parts may hang.
    pub(crate) fn retire(&self, incarnation: Incarnation) {
        let is_of = |part: &Weak<PartState>| part.upgrade().is_some_and(|part| part.incarnation == Some(incarnation));
        self.parts().retain(|part| !is_of(part));
        self.bursts().take_if(|(of, _)| *of == incarnation);
    }

    fn parts(&self) -> MutexGuard<'_, Vec<Weak<PartState>>> {
        self.inner.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bursts(&self) -> MutexGuard<'_, Option<(Incarnation, PolledSince)>> {
        self.inner.bursts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instances whose bursts have kept a thread for the tolerance.
    pub(crate) fn hanging_bursts(&self) -> Vec<(TenantId, InstanceId)> {
        // The step in which the last of them began may have just begun itself.
        self.bursts_in_poll(TOLERATED - 1)
    }

    fn bursts_in_poll(&self, steps: u64) -> Vec<(TenantId, InstanceId)> {
        let Some(since) = self.inner.steps.now().checked_sub(steps) else {
            return Vec::new();
        };
        let polled_since = self.bursts().as_ref().map(|(_, polled_since)| Arc::clone(polled_since));
        polled_since.map_or_else(Vec::new, |polled_since| polled_since(since))
    }

    /// The next step: asks every part, and finds out which has not answered. A hang is returned when it is found, and again
    /// after each further tolerance.
    pub(crate) fn step(&self) -> Option<Hang> {
        let now = self.inner.steps.advance();
        let mut longest: Option<(Part, u64)> = None;
        self.parts().retain(|part| {
            let Some(part) = part.upgrade() else { return false };
            let unanswered = part.unanswered(now);
            if longest.is_none_or(|(_, other)| unanswered > other) {
                longest = Some((part.part, unanswered));
            }
            part.ask();
            true
        });
        let mut late = longest.filter(|(_, steps)| *steps >= TOLERATED);
        if late.is_none() && !self.bursts_in_poll(self.inner.burst_steps).is_empty() {
            late = Some((Part::Burst, self.inner.burst_steps));
        }
        let unresponsive = late.or(longest).filter(|(_, steps)| *steps * 2 >= TOLERATED);
        let mut found = None;
        self.inner.health.send_if_modified(|health| {
            let before = std::mem::replace(&mut health.unresponsive, unresponsive);
            health.hung_for = late.map(|_| health.hung_for.map_or(0, |steps| steps + 1));
            if let Some(late) = late
                && health.hung_for.is_some_and(|steps| steps % TOLERATED == 0)
            {
                health.hangs += 1;
                found = Some(self.hang_of(late));
            }
            found.is_some() || before != unresponsive
        });
        found
    }

    fn hang_of(&self, (part, steps): (Part, u64)) -> Hang {
        Hang {
            part,
            unanswered: self.inner.step * u32::try_from(steps).unwrap_or(u32::MAX),
        }
    }

    /// The part that has not answered for half of the tolerance, if any: the node may hang.
    pub(crate) fn unresponsive(&self) -> Option<Hang> {
        self.inner.health.borrow().unresponsive.map(|part| self.hang_of(part))
    }

    /// Why the node hangs now, if it does.
    pub(crate) fn hang(&self) -> Option<Hang> {
        let health = self.inner.health.borrow();
        health.hung_for?;
        health.unresponsive.map(|part| self.hang_of(part))
    }

    /// How often the node was found hung.
    pub(crate) fn hangs(&self) -> u64 {
        self.inner.health.borrow().hangs
    }

    /// Returns when the node is found hung more often than that. Cancellation safe.
    pub(crate) async fn hung(&self, hangs: u64) {
        self.when(|health| health.hangs > hangs).await;
    }

    /// The same, and the hang was reported, or cannot be. Never in a program that ends its process then. Cancellation safe.
    pub(crate) async fn reported(&self, hangs: u64) {
        self.when(|health| health.reports > hangs).await;
    }

    async fn when(&self, is: impl Fn(&Health) -> bool) {
        // The sender lives as long as this handle.
        let _ = self.inner.health.subscribe().wait_for(is).await;
    }

    /// The caller reports a hang before it drops this.
    pub(crate) fn reporter(&self) -> Reporter {
        *self.reporters() += 1;
        Reporter(self.clone())
    }

    fn reporters(&self) -> MutexGuard<'_, usize> {
        self.inner.reporters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every reporter is dropped, for so long at most.
    pub(super) fn wait_for_reports(&self, longest: Duration) {
        let reported = &self.inner.reported;
        let _ended = reported.wait_timeout_while(self.reporters(), longest, |left| *left > 0);
    }

    /// The hang was reported, also to the program, which goes on.
    pub(super) fn set_reported(&self) {
        self.inner.health.send_modify(|health| health.reports = health.hangs);
    }
}

/// What the end of a hung node waits for.
pub(crate) struct Reporter(Watchdog);

impl Drop for Reporter {
    fn drop(&mut self) {
        *self.0.reporters() -= 1;
        self.0.inner.reported.notify_all();
    }
}
