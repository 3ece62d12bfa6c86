//! Bounds what refused requests write to the audit: refused requests come as often as the network allows.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many refused requests a node notes in each second.
const MOST_NOTED: u32 = 50;
const SPAN: Duration = Duration::from_secs(1);

/// Counts the refused requests of the second that runs.
#[derive(Debug, Default)]
pub(crate) struct RefusedRequests(Mutex<Option<(Instant, u32)>>);

impl RefusedRequests {
    /// Whether one more is noted.
    pub(super) fn is_noted(&self) -> bool {
        self.is_noted_at(Instant::now())
    }

    fn is_noted_at(&self, now: Instant) -> bool {
        let mut span = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, noted) = match &mut *span {
            Some(current) if now.duration_since(current.0) < SPAN => current,
            other => other.insert((now, 0)),
        };
        *noted = noted.saturating_add(1);
        *noted <= MOST_NOTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_a_bound_and_the_next_one_a_bound_of_its_own() {
        let (refused, now) = (RefusedRequests::default(), Instant::now());
        assert!((0..MOST_NOTED).all(|_| refused.is_noted_at(now)));
        assert!(!refused.is_noted_at(now + SPAN / 2));
        assert!(refused.is_noted_at(now + SPAN));
    }
}
