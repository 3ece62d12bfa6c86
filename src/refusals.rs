//! Repeated refusals are counted, and logged at intervals, so that clients cannot fill the log.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least interval between two log messages.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The refusals of one kind since the last log message, and when that was.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<(Option<Instant>, u64)>);

impl Refusals {
    /// Counts a refusal. Returns how many there were since the last log message, if the next one is due.
    pub(crate) fn count(&self) -> Option<u64> {
        self.count_at(Instant::now())
    }

    fn count_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (logged, count) = &mut *state;
        *count += 1;
        if logged.is_some_and(|logged| now.saturating_duration_since(logged) < LOG_INTERVAL) {
            return None;
        }
        *logged = Some(now);
        Some(std::mem::take(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_logged_at_intervals() {
        let refused = Refusals::default();
        let began = Instant::now();
        assert_eq!(refused.count_at(began), Some(1));
        for _ in 0..1000 {
            assert_eq!(refused.count_at(began + LOG_INTERVAL / 2), None);
        }
        assert_eq!(refused.count_at(began + LOG_INTERVAL), Some(1001));
        assert_eq!(refused.count_at(began + LOG_INTERVAL), None);
    }
}
