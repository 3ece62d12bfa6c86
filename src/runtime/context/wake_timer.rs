//! When a loop has to look again: at times that this node knows of, and when the next row is due that the database or a
//! commit of this node told of. Each look asks the database anew what is due next, so one such time is enough.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// How many other times are kept. What does not fit is found by the look at an earlier one, or at a check-in.
const KEPT: usize = 1024;

/// Times to wake at. One waiter.
#[derive(Default)]
pub(crate) struct Alarm {
    times: Mutex<Times>,
    changed: Notify,
}

#[derive(Default)]
struct Times {
    at: BTreeSet<Instant>,
    /// Something let go of what an earlier wake-up may have passed over.
    again: bool,
    /// When the next row is due, as far as is known.
    due: Option<Instant>,
}

impl Times {
    fn first(&self) -> Option<Instant> {
        self.at.first().copied().into_iter().chain(self.due).min()
    }
}

impl Alarm {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes now. A wake that nobody waits for is kept.
    pub(crate) fn now(&self) {
        self.at(Instant::now());
    }

    /// Wakes at `instant`.
    pub(crate) fn at(&self, instant: Instant) {
        let mut times = self.times();
        times.at.insert(instant);
        if times.at.len() > KEPT {
            times.at.pop_last();
        }
        if times.first() == Some(instant) {
            self.changed.notify_one();
        }
    }

    /// Wakes now, for what an earlier wake-up may have passed over: nothing is new.
    pub(crate) fn again(&self) {
        let mut times = self.times();
        if !std::mem::replace(&mut times.again, true) {
            self.changed.notify_one();
        }
    }

    /// A row is due at `instant`: wakes then, unless another one is due before. Gives when the next one was due before this.
    pub(crate) fn due(&self, instant: Instant) -> Option<Instant> {
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

    /// Forgets what is due next: whoever is about to ask the database will tell. What is told meanwhile is kept.
    pub(crate) fn ask_anew(&self) {
        self.times().due = None;
    }

    /// Waits until a time has come, and forgets it with all that are past; whether there may be anything new. Cancellation
    /// safe.
    pub(crate) async fn rings(&self) -> bool {
        loop {
            let next = {
                let mut times = self.times();
                let now = Instant::now();
                let later = times.at.split_off(&now);
                let mut rang = !std::mem::replace(&mut times.at, later).is_empty();
                rang |= times.due.take_if(|due| *due <= now).is_some();
                if std::mem::take(&mut times.again) || rang {
                    return rang;
                }
                times.first()
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

    const LATER: Duration = Duration::from_secs(3600);

    async fn is_silent(alarm: &Alarm) -> bool {
        let rings = tokio::time::timeout(Duration::from_millis(1), alarm.rings());
        rings.await.is_err()
    }

    #[tokio::test]
    async fn the_earliest_time_rings_once() {
        let alarm = Alarm::default();
        alarm.at(Instant::now() + LATER);
        alarm.now();
        alarm.rings().await;
        assert!(is_silent(&alarm).await);
    }

    #[tokio::test]
    async fn what_wakes_again_is_nothing_new() {
        let alarm = Alarm::default();
        alarm.again();
        alarm.again();
        assert!(!alarm.rings().await);
        assert!(is_silent(&alarm).await);
        alarm.again();
        alarm.now();
        assert!(alarm.rings().await);
        assert!(is_silent(&alarm).await);
        let rings = async { tokio::time::timeout(Duration::from_secs(30), alarm.rings()).await };
        let (rang, ()) = tokio::join!(rings, async { alarm.again() });
        assert_eq!(rang, Ok(false));
    }

    #[tokio::test]
    async fn what_is_due_first_rings_and_the_rest_is_asked_for() {
        let alarm = Alarm::default();
        let (now, later) = (Instant::now(), Instant::now() + LATER);
        assert_eq!(alarm.due(later), None);
        assert_eq!(alarm.due(now), Some(later));
        assert_eq!(alarm.due(later), Some(now));
        alarm.rings().await;
        assert!(is_silent(&alarm).await);
        alarm.due(now);
        alarm.ask_anew();
        assert!(is_silent(&alarm).await);
    }

    #[tokio::test]
    async fn an_earlier_row_wakes_who_waits_for_a_later_one() {
        let alarm = Alarm::default();
        alarm.due(Instant::now() + LATER);
        let rings = async { tokio::time::timeout(Duration::from_secs(30), alarm.rings()).await };
        let (rang, _) = tokio::join!(rings, async { alarm.due(Instant::now()) });
        assert!(rang.is_ok());
    }
}
