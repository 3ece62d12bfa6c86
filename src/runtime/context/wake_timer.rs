//! When a loop polls next: at times that this node knows of, and when the next row named by the database or a commit of this
//! node is due. Each poll asks the database again what is due next, so one such time is enough.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::precise_sleep::sleep_until;
use crate::cluster::election::Election;

/// How many other times are kept. The poll at an earlier one, or a check-in, finds what does not fit.
const KEPT: usize = 1024;

/// Times to wake at. One waiter.
#[derive(Default)]
pub(crate) struct WakeTimer {
    times: Mutex<Times>,
    changed: Notify,
}

#[derive(Default)]
struct Times {
    at: BTreeSet<Instant>,
    /// Something was released that an earlier poll may have left out.
    again: bool,
    /// When the next row is due, as far as is known.
    due: Option<Instant>,
}

impl Times {
    fn first(&self) -> Option<Instant> {
        self.at.first().copied().into_iter().chain(self.due).min()
    }
}

impl WakeTimer {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes now. Kept while there is no waiter.
    pub(crate) fn wake_now(&self) {
        self.wake_at(Instant::now());
    }

    /// Wakes at `instant`.
    pub(crate) fn wake_at(&self, instant: Instant) {
        let mut times = self.times();
        times.at.insert(instant);
        if times.at.len() > KEPT {
            times.at.pop_last();
        }
        if times.first() == Some(instant) {
            self.changed.notify_one();
        }
    }

    /// Wakes now, for what an earlier poll may have left out: nothing is new.
    pub(crate) fn wake_again(&self) {
        let mut times = self.times();
        if !std::mem::replace(&mut times.again, true) {
            self.changed.notify_one();
        }
    }

    /// A row is due at `instant`: wakes then, unless another one is due before. Returns when the next one was due so far.
    pub(crate) fn row_due(&self, instant: Instant) -> Option<Instant> {
        let mut times = self.times();
        let before = times.due;
        if before.is_none_or(|before| instant < before) {
            times.due = Some(instant);
            if times.first() == Some(instant) {
                self.changed.notify_one();
            }
        }
        before
    }

    /// Forgets when the next row is due, before a poll that asks the database. What is reported meanwhile is kept.
    pub(crate) fn clear_due(&self) {
        self.times().due = None;
    }

    /// Waits until a time has come, and removes it with all that are past; whether there may be anything new. Cancellation
    /// safe.
    pub(crate) async fn wait(&self) -> bool {
        loop {
            let next = {
                let mut times = self.times();
                let now = Instant::now();
                let later = times.at.split_off(&now);
                let mut is_new = !std::mem::replace(&mut times.at, later).is_empty();
                is_new |= times.due.take_if(|due| *due <= now).is_some();
                if std::mem::take(&mut times.again) || is_new {
                    return is_new;
                }
                times.first()
            };
            match next {
                Some(instant) => tokio::select! {
                    () = sleep_until(instant) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }
}

/// The scheduler's part of the context.
pub(crate) struct SchedulerState {
    /// When the next schedule is due.
    pub(crate) timer: WakeTimer,
    /// Occurrences are queued until an instance of their schedule has ended.
    pub(crate) queued: AtomicBool,
    /// Whether this node may fire.
    pub(crate) election: Election,
}

impl SchedulerState {
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
        self.queued.store(true, Relaxed);
        self.timer.wake_now();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::WakeTimer;

    const LATER: Duration = Duration::from_secs(3600);

    async fn is_waiting(timer: &WakeTimer) -> bool {
        let woken = tokio::time::timeout(Duration::from_millis(1), timer.wait());
        woken.await.is_err()
    }

    #[tokio::test]
    async fn the_earliest_time_wakes_once() {
        let timer = WakeTimer::default();
        timer.wake_at(Instant::now() + LATER);
        timer.wake_now();
        timer.wait().await;
        assert!(is_waiting(&timer).await);
    }

    #[tokio::test]
    async fn what_wakes_again_is_nothing_new() {
        let timer = WakeTimer::default();
        timer.wake_again();
        timer.wake_again();
        assert!(!timer.wait().await);
        assert!(is_waiting(&timer).await);
        timer.wake_again();
        timer.wake_now();
        assert!(timer.wait().await);
        assert!(is_waiting(&timer).await);
        let woken = async { tokio::time::timeout(Duration::from_secs(30), timer.wait()).await };
        let (woken, ()) = tokio::join!(woken, async { timer.wake_again() });
        assert_eq!(woken, Ok(false));
    }

    #[tokio::test]
    async fn the_row_that_is_due_first_wakes_and_the_others_are_cleared() {
        let timer = WakeTimer::default();
        let (now, later) = (Instant::now(), Instant::now() + LATER);
        assert_eq!(timer.row_due(later), None);
        assert_eq!(timer.row_due(now), Some(later));
        assert_eq!(timer.row_due(later), Some(now));
        timer.wait().await;
        assert!(is_waiting(&timer).await);
        timer.row_due(now);
        timer.clear_due();
        assert!(is_waiting(&timer).await);
    }

    #[tokio::test]
    async fn an_earlier_row_wakes_a_wait_for_a_later_one() {
        let timer = WakeTimer::default();
        timer.row_due(Instant::now() + LATER);
        let woken = async { tokio::time::timeout(Duration::from_secs(30), timer.wait()).await };
        let (woken, _) = tokio::join!(woken, async { timer.row_due(Instant::now()) });
        assert!(woken.is_ok());
    }
}
