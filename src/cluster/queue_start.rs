//! From where the next check-in reads the queues. What was consumed stays in their indexes while an old snapshot exists in the
//! database, as of a backup or a replica, and each node would walk over all of it with each check-in.
//!
//! A row may become visible after younger ones, by as long as its transaction took: a read begins [`MARGIN`] before what the
//! last one found. A row that comes still later is found by the whole read of each [`WHOLE`].

use std::time::{Duration, Instant};

use crate::id::FanOutId;
use crate::store::node::{CheckIn, QueueStart};

/// Longer than the server lets a statement or an idle transaction take. check_in.sql has it, too.
const MARGIN: Duration = Duration::from_secs(30);

const WHOLE: Duration = Duration::from_secs(60);

/// Where the queues of the last check-ins began.
#[derive(Debug)]
pub(super) struct QueueStarts {
    /// When a whole read was sent; none since the connection was opened.
    whole: Option<Instant>,
    start: QueueStart,
    /// The first fan-out of a check-in, to begin from once that is as long ago as the margin.
    sample: Option<(Instant, FanOutId)>,
}

impl QueueStarts {
    pub(super) fn new() -> Self {
        Self {
            whole: None,
            start: QueueStart::WHOLE,
            sample: None,
        }
    }

    /// Where the check-in that is sent now begins.
    pub(super) fn next(&mut self, now: Instant) -> QueueStart {
        if self.whole.is_some_and(|whole| now.duration_since(whole) < WHOLE) {
            return self.start;
        }
        self.whole = Some(now);
        QueueStart::WHOLE
    }

    /// Takes note of what a check-in found; returns the fan-out before which all are finished.
    pub(super) fn found(&mut self, now: Instant, check_in: &CheckIn) -> FanOutId {
        let first = check_in.first_fan_out;
        let (at, sampled) = *self.sample.get_or_insert((now, first));
        if now.duration_since(at) >= MARGIN {
            self.start.fan_out = sampled;
            self.sample = Some((now, first));
        }
        // One that became visible late.
        self.start.fan_out = self.start.fan_out.min(first);
        self.start.due = Some(check_in.head - MARGIN);
        self.start.fan_out
    }
}

#[cfg(test)]
mod tests {
    use chrono::{TimeDelta, Utc};

    use super::*;

    #[test]
    fn a_read_begins_a_margin_before_what_was_found_and_is_whole_each_minute() {
        let (began, head) = (Instant::now(), Utc::now());
        let mut starts = QueueStarts::new();
        let mut at = |second: u64, first: i64| {
            let now = began + Duration::from_secs(second);
            let start = starts.next(now);
            let check_in = CheckIn {
                head: head + TimeDelta::seconds(i64::try_from(second).unwrap()),
                first_fan_out: FanOutId(first),
                ..CheckIn::default()
            };
            (start, starts.found(now, &check_in).0)
        };
        assert_eq!(at(0, 5), (QueueStart::WHOLE, 0));
        let due = |second: i64| Some(head + TimeDelta::seconds(second - 30));
        let begins = |second, fan_out| QueueStart {
            due: due(second),
            fan_out: FanOutId(fan_out),
        };
        assert_eq!(at(10, 20), (begins(0, 0), 0));
        assert_eq!(at(29, 40), (begins(10, 0), 0));
        // The first one of thirty seconds ago.
        assert_eq!(at(30, 50), (begins(29, 0), 5));
        assert_eq!(at(31, 50), (begins(30, 5), 5));
        // A late one is below all that was found meanwhile, and stays in sight while it is unfinished.
        assert_eq!(at(40, 30), (begins(31, 5), 5));
        assert_eq!(at(59, 30), (begins(40, 5), 5));
        assert_eq!(at(60, 30), (QueueStart::WHOLE, 30));
        assert_eq!(at(61, 60), (begins(60, 30), 30));
        // Later than the margin: the next whole read finds it.
        assert_eq!(at(120, 10), (QueueStart::WHOLE, 10));
        assert_eq!(at(121, 10), (begins(120, 10), 10));
    }
}
