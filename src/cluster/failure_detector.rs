//! Which nodes have expired because they missed their check-ins.
//!
//! A node counts how late others are only while its own check-ins are answered: a stall of the database delays those of all
//! nodes, and a node that was stopped finds all others late when it continues. So its own check-ins must have been answered
//! for as long as the tolerance of the late node; a pause between two of them starts the count again. When most of the
//! others seem expired at once, it waits one more interval.
//!
//! Lateness is measured by the database's clock. After a step of that clock, forward or back, all nodes seem late until
//! their next check-in: a step also starts the count again.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::id::Incarnation;
use crate::store::node::CheckIn;

/// Compares each check-in with the one before.
pub(super) struct FailureDetector {
    interval: Duration,
    /// The longest pause between two own check-ins that does not start the count again.
    longest_pause: Duration,
    answered: Option<AnsweredSince>,
    /// Since when most of the others seem expired.
    most_expired_since: Option<Instant>,
}

/// A sequence of answered check-ins without a long pause or a step of the clock.
struct AnsweredSince {
    first: Instant,
    last: Instant,
    /// The database's time at the last one.
    clock: DateTime<Utc>,
}

impl AnsweredSince {
    /// Whether the database's clock has advanced like the monotonic one since the last check-in, within this tolerance.
    fn agrees(&self, now: Instant, clock: DateTime<Utc>, within: Duration) -> bool {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let theirs = (clock - self.clock).num_microseconds().unwrap_or(i64::MAX);
        theirs.abs_diff(micros(now.duration_since(self.last))) <= micros(within).unsigned_abs()
    }
}

impl FailureDetector {
    pub(super) fn new(interval: Duration, tolerance: Duration) -> Self {
        Self {
            interval,
            // A node with the same settings could check in during the other half of its tolerance.
            longest_pause: (tolerance / 2).max(interval * 2),
            answered: None,
            most_expired_since: None,
        }
    }

    /// The expired nodes, by a check-in that was answered at `now`.
    pub(super) fn expired(&mut self, now: Instant, check_in: &CheckIn) -> Vec<Incarnation> {
        let pause = self.longest_pause;
        let continues = |answered: &AnsweredSince| {
            now.duration_since(answered.last) <= pause && answered.agrees(now, check_in.clock, pause)
        };
        let first = self
            .answered
            .take()
            .filter(continues)
            .map_or(now, |answered| answered.first);
        self.answered = Some(AnsweredSince {
            first,
            last: now,
            clock: check_in.clock,
        });
        let answered_for = now.duration_since(first);
        let expired: Vec<Incarnation> = check_in
            .expired
            .iter()
            .filter(|expired| answered_for >= expired.tolerance)
            .map(|expired| expired.incarnation)
            .collect();
        let others = check_in.members.len().saturating_sub(1);
        if expired.len() < 2 || expired.len() * 2 <= others {
            self.most_expired_since = None;
            return expired;
        }
        let since = *self.most_expired_since.get_or_insert(now);
        if now.duration_since(since) < self.interval {
            return Vec::new();
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::node::ExpiredNode;

    const TOLERANCE: Duration = Duration::from_secs(5);
    const CHECK_IN: Duration = Duration::from_secs(1);

    fn check_in(members: i64, expired: &[i64]) -> CheckIn {
        CheckIn {
            registered: true,
            expired: expired
                .iter()
                .map(|incarnation| ExpiredNode {
                    incarnation: Incarnation(*incarnation),
                    tolerance: TOLERANCE,
                })
                .collect(),
            members: (1..=members).map(Incarnation).collect(),
            ..CheckIn::default()
        }
    }

    /// How many nodes have expired at each of these seconds.
    fn expired_at(at: &[u64], check_in: &CheckIn) -> Vec<usize> {
        let (mut detector, start) = (FailureDetector::new(CHECK_IN, TOLERANCE), Instant::now());
        at.iter()
            .map(|second| {
                let clock = DateTime::UNIX_EPOCH + Duration::from_secs(*second);
                let check_in = CheckIn {
                    clock,
                    ..check_in.clone()
                };
                detector.expired(start + Duration::from_secs(*second), &check_in).len()
            })
            .collect()
    }

    #[test]
    fn a_step_of_the_clock_starts_the_count_again() {
        for step in [3600, -3600] {
            let (mut detector, start) = (FailureDetector::new(CHECK_IN, TOLERANCE), Instant::now());
            let mut count = |second: u64, off: i64, expired: &[i64]| {
                let clock = DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(second.cast_signed() + off);
                let check_in = CheckIn {
                    clock,
                    ..check_in(2, expired)
                };
                detector.expired(start + Duration::from_secs(second), &check_in).len()
            };
            for second in 0..20 {
                assert_eq!(count(second, 0, &[]), 0);
            }
            // It seems late until it has checked in by the new clock.
            assert_eq!(count(20, step, &[2]), 0, "{step}");
            assert_eq!(count(21, step, &[]), 0, "{step}");
            // A node that checks in no more expires all the same.
            let counts: Vec<usize> = (22..28).map(|second| count(second, step, &[2])).collect();
            assert_eq!(counts, [0, 0, 0, 1, 1, 1], "{step}");
        }
    }

    #[test]
    fn a_node_expires_once_own_check_ins_were_answered_for_its_tolerance() {
        assert_eq!(
            expired_at(&[0, 1, 2, 3, 4, 5, 6], &check_in(3, &[2])),
            [0, 0, 0, 0, 0, 1, 1]
        );
    }

    #[test]
    fn a_pause_between_own_check_ins_starts_the_count_again() {
        // From 5 to 11 no check-in was answered, not even an own one.
        let seconds = [0, 1, 2, 3, 4, 11, 12, 13, 14, 15, 16];
        let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(expired_at(&seconds, &check_in(3, &[2])), expected);
    }

    #[test]
    fn most_nodes_at_once_expire_one_interval_later() {
        let seconds = [0, 2, 4, 5, 6];
        assert_eq!(expired_at(&seconds, &check_in(3, &[2, 3])), [0, 0, 0, 0, 2]);
        assert_eq!(
            expired_at(&seconds, &check_in(5, &[2, 3])),
            [0, 0, 0, 2, 2],
            "half is not most"
        );
    }

    #[test]
    fn a_node_with_a_longer_tolerance_expires_later() {
        let mut tolerant = check_in(3, &[2]);
        tolerant.expired[0].tolerance = TOLERANCE * 2;
        assert_eq!(expired_at(&[0, 2, 4, 6, 8, 9, 10], &tolerant), [0, 0, 0, 0, 0, 0, 1]);
    }
}
