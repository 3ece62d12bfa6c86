//! When the claim loop has to look again.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// A time to wake at, that anybody may bring forward. One waiter.
#[derive(Default)]
pub(super) struct Alarm {
    at: Mutex<Option<Instant>>,
    changed: Notify,
}

impl Alarm {
    /// Wakes now. A wake that nobody waits for is kept.
    pub(super) fn now(&self) {
        self.at(Instant::now());
    }

    /// Wakes at `instant`, or earlier if that was asked for.
    pub(super) fn at(&self, instant: Instant) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if at.is_none_or(|earlier| instant < earlier) {
            *at = Some(instant);
            self.changed.notify_one();
        }
    }

    /// Waits until the time has come, and forgets it. Cancellation safe.
    pub(super) async fn rings(&self) {
        loop {
            let changed = self.changed.notified();
            let at = *self.at.lock().unwrap_or_else(PoisonError::into_inner);
            match at {
                Some(instant) if instant <= Instant::now() => {
                    let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
                    if at.is_some_and(|instant| instant <= Instant::now()) {
                        *at = None;
                        return;
                    }
                }
                Some(instant) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(instant.into()) => {}
                        () = changed => {}
                    }
                }
                None => changed.await,
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
