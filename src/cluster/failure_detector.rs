//! Who is taken for dead because it checks in no more.
//!
//! A node counts the silence of others only while it was heard itself: a database that stalls silences everybody, and a
//! node that was stopped would wake up to find everybody late. So its own check-ins must have come through for as long
//! as the silent node may be silent; a pause between two of them starts the count anew. If most of the others look dead
//! at once, it waits one more interval.
//!
//! Silence is told by the database's clock. When that was stepped, forward or back, everybody looks silent until the next
//! check-in: a step starts the count anew, too.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::id::Incarnation;
use crate::store::node::CheckIn;

/// Judges each check-in after the one before.
pub(super) struct FailureDetector {
    check_in: Duration,
    /// The longest pause between two check-ins of our own that does not start the count anew.
    pause: Duration,
    heard: Option<Streak>,
    /// Since when most of the others look dead.
    crowd: Option<Instant>,
}

struct Streak {
    first: Instant,
    last: Instant,
    clock: DateTime<Utc>,
}

impl Streak {
    /// Whether the database's clock has gone as ours has since, to within so much.
    fn agrees(&self, now: Instant, clock: DateTime<Utc>, within: Duration) -> bool {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let theirs = (clock - self.clock).num_microseconds().unwrap_or(i64::MAX);
        theirs.abs_diff(micros(now.duration_since(self.last))) <= micros(within).unsigned_abs()
    }
}

impl FailureDetector {
    pub(super) fn new(check_in: Duration, tolerance: Duration) -> Self {
        Self {
            check_in,
            // Whoever has our settings, too, could check in during the other half of its tolerance.
            pause: (tolerance / 2).max(check_in * 2),
            heard: None,
            crowd: None,
        }
    }

    /// The nodes that are to be taken for dead, by a check-in of ours that was answered at `now`.
    pub(super) fn judge(&mut self, now: Instant, check_in: &CheckIn) -> Vec<Incarnation> {
        let heard = match self.heard.take() {
            Some(heard)
                if now.duration_since(heard.last) <= self.pause && heard.agrees(now, check_in.clock, self.pause) =>
            {
                Streak {
                    first: heard.first,
                    last: now,
                    clock: check_in.clock,
                }
            }
            _ => Streak {
                first: now,
                last: now,
                clock: check_in.clock,
            },
        };
        let steady = heard.last.duration_since(heard.first);
        self.heard = Some(heard);
        let silent: Vec<Incarnation> = check_in
            .expired
            .iter()
            .filter(|expired| steady >= expired.tolerance)
            .map(|expired| expired.incarnation)
            .collect();
        let others = check_in.members.len().saturating_sub(1);
        if silent.len() < 2 || silent.len() * 2 <= others {
            self.crowd = None;
            return silent;
        }
        let since = *self.crowd.get_or_insert(now);
        if now.duration_since(since) < self.check_in {
            return Vec::new();
        }
        silent
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
            revision: 0,
            next_due: None,
            head: chrono::DateTime::UNIX_EPOCH,
            next_fire: None,
            queued: false,
            expired: expired
                .iter()
                .map(|incarnation| ExpiredNode {
                    incarnation: Incarnation(*incarnation),
                    tolerance: TOLERANCE,
                })
                .collect(),
            members: (1..=members).map(Incarnation).collect(),
            jobs_due: false,
            has_api_peers: false,
            has_worker_peers: false,
            worker_peers: 0,
            rank: 0,
            transactions: 0,
            clock: DateTime::UNIX_EPOCH,
        }
    }

    /// What is judged at each of these seconds.
    fn judged(at: &[u64], check_in: &CheckIn) -> Vec<usize> {
        let (mut judge, start) = (FailureDetector::new(CHECK_IN, TOLERANCE), Instant::now());
        at.iter()
            .map(|second| {
                let clock = DateTime::UNIX_EPOCH + Duration::from_secs(*second);
                let check_in = CheckIn {
                    clock,
                    ..check_in.clone()
                };
                judge.judge(start + Duration::from_secs(*second), &check_in).len()
            })
            .collect()
    }

    #[test]
    fn a_clock_that_is_stepped_starts_the_count_anew() {
        for step in [3600, -3600] {
            let (mut judge, start) = (FailureDetector::new(CHECK_IN, TOLERANCE), Instant::now());
            let mut judged = |second: u64, off: i64, expired: &[i64]| {
                let clock = DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(second.cast_signed() + off);
                let check_in = CheckIn {
                    clock,
                    ..check_in(2, expired)
                };
                judge.judge(start + Duration::from_secs(second), &check_in).len()
            };
            for second in 0..20 {
                assert_eq!(judged(second, 0, &[]), 0);
            }
            // It looks expired until it has checked in by the new clock.
            assert_eq!(judged(20, step, &[2]), 0, "{step}");
            assert_eq!(judged(21, step, &[]), 0, "{step}");
            // One that checks in no more is given up all the same.
            let verdicts: Vec<usize> = (22..28).map(|second| judged(second, step, &[2])).collect();
            assert_eq!(verdicts, [0, 0, 0, 1, 1, 1], "{step}");
        }
    }

    #[test]
    fn silence_counts_once_we_were_heard_for_as_long() {
        assert_eq!(
            judged(&[0, 1, 2, 3, 4, 5, 6], &check_in(3, &[2])),
            [0, 0, 0, 0, 0, 1, 1]
        );
    }

    #[test]
    fn a_pause_of_our_own_starts_the_count_anew() {
        // From 5 to 11 nobody was heard: neither they nor we.
        let seconds = [0, 1, 2, 3, 4, 11, 12, 13, 14, 15, 16];
        let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(judged(&seconds, &check_in(3, &[2])), expected);
    }

    #[test]
    fn most_at_once_get_one_more_interval() {
        let seconds = [0, 2, 4, 5, 6];
        assert_eq!(judged(&seconds, &check_in(3, &[2, 3])), [0, 0, 0, 0, 2]);
        assert_eq!(
            judged(&seconds, &check_in(5, &[2, 3])),
            [0, 0, 0, 2, 2],
            "half is not most"
        );
    }

    #[test]
    fn a_node_with_more_patience_gets_it() {
        let mut patient = check_in(3, &[2]);
        patient.expired[0].tolerance = TOLERANCE * 2;
        assert_eq!(judged(&[0, 2, 4, 6, 8, 9, 10], &patient), [0, 0, 0, 0, 0, 0, 1]);
    }
}
