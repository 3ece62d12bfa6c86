//! When the claim loop has to look again.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// How many times are kept. What does not fit is learned from a check-in, at most one interval late.
const KEPT: usize = 1024;

/// Times to wake at. One waiter.
#[derive(Default)]
pub(super) struct Alarm {
    at: Mutex<BTreeSet<Instant>>,
    changed: Notify,
}

impl Alarm {
    fn times(&self) -> MutexGuard<'_, BTreeSet<Instant>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes now. A wake that nobody waits for is kept.
    pub(super) fn now(&self) {
        self.at(Instant::now());
    }

    /// Wakes at `instant`.
    pub(super) fn at(&self, instant: Instant) {
        let mut times = self.times();
        times.insert(instant);
        if times.len() > KEPT {
            times.pop_last();
        }
        if times.first() == Some(&instant) {
            self.changed.notify_one();
        }
    }

    /// Waits until a time has come, and forgets it with all that are past. Cancellation safe.
    pub(super) async fn rings(&self) {
        loop {
            let next = {
                let mut times = self.times();
                let now = Instant::now();
                let later = times.split_off(&now);
                let rang = !std::mem::replace(&mut *times, later).is_empty();
                if rang {
                    return;
                }
                times.first().copied()
            };
            match next {
                Some(instant) => tokio::select! {
                    () = tokio::time::sleep_until(instant.into()) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Alarm;

    #[tokio::test]
    async fn the_earliest_time_rings_once() {
        let alarm = Alarm::default();
        alarm.at(Instant::now() + Duration::from_secs(3600));
        alarm.now();
        alarm.rings().await;
        assert!(
            tokio::time::timeout(Duration::from_millis(1), alarm.rings())
                .await
                .is_err()
        );
    }
}
