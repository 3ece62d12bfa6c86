//! Bounds what the holder of a resume link that cannot be used costs: for each link, the first attempts of a minute are noted in the
//! audit and waited for, and the log has a line at intervals. All are counted by a metric.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::id::LinkId;
use crate::refusals::Refusals;

/// So many attempts at a link are noted by a node in each [`WINDOW`].
const NOTED: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// So many links are followed at once; attempts at others are only counted.
const MOST_LINKS: usize = 10_000;

/// The attempts at links that were not accepted.
#[derive(Debug, Default)]
pub(crate) struct RefusedLinks {
    attempts: Mutex<Option<(Instant, HashMap<LinkId, u32>)>>,
    logged: Refusals,
}

impl RefusedLinks {
    /// Counts an attempt; returns whether it is to be noted.
    pub(super) fn is_noted(&self, link: LinkId) -> bool {
        self.is_noted_at(link, Instant::now())
    }

    fn is_noted_at(&self, link: LinkId, now: Instant) -> bool {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, counts) = attempts.get_or_insert_with(|| (now, HashMap::new()));
        if now.saturating_duration_since(*began) >= WINDOW {
            *began = now;
            counts.clear();
        }
        if counts.len() >= MOST_LINKS && !counts.contains_key(&link) {
            return false;
        }
        let count = counts.entry(link).or_default();
        *count = count.saturating_add(1);
        *count <= NOTED
    }

    /// Whether this node has refused the link a short time ago.
    pub(super) fn is_known(&self, link: LinkId) -> bool {
        let attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = attempts.as_ref();
        known.is_some_and(|(_, counts)| counts.contains_key(&link) || counts.len() >= MOST_LINKS)
    }

    /// How many were refused since the last line of the log, if the next one is due.
    pub(super) fn to_log(&self) -> Option<u64> {
        self.logged.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempts_of_a_minute_are_noted() {
        let refused = RefusedLinks::default();
        let (one, began) = (LinkId::random(), Instant::now());
        assert!(!refused.is_known(one));
        let noted = |now| (0..50).filter(|_| refused.is_noted_at(one, now)).count();
        assert_eq!(noted(began), NOTED as usize);
        assert_eq!(noted(began + WINDOW / 2), 0);
        assert!(
            refused.is_known(one) && refused.is_noted_at(LinkId::random(), began),
            "another link"
        );
        assert_eq!(noted(began + WINDOW), NOTED as usize);
        let many = (0..MOST_LINKS * 2).filter(|_| refused.is_noted_at(LinkId::random(), began + WINDOW));
        assert_eq!(many.count(), MOST_LINKS - 1);
    }
}
