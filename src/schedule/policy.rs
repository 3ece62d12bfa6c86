//! The policies of a schedule: for misfires (occurrences that are late, because no node ran or all were busy), and for
//! occurrences that are due while an earlier instance still runs.

use chrono::TimeDelta;

/// The most fires of one decision. If more are due, the next one lies in the past and is decided at once.
pub(super) const MAX_FIRES: usize = 1_000;

/// When an occurrence is a misfire, and what happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misfire {
    /// What happens to misfires.
    pub policy: MisfirePolicy,
    /// From this lateness on, an occurrence is a misfire. Default: 60 s, like Quartz's threshold.
    pub late_from: TimeDelta,
}

/// What happens when the oldest due occurrence is a misfire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MisfirePolicy {
    /// The latest due occurrence fires now, once for all due occurrences.
    #[default]
    FireOnceNow,
    /// Misfires do not fire. Due occurrences that are less late do.
    Skip,
    /// The latest due occurrences fire, oldest first.
    FireAll {
        /// How many, 1 to 1,000. Default: 100.
        up_to: usize,
    },
    /// As [`MisfirePolicy::FireOnceNow`] if the latest occurrence is less late than this; otherwise none fires.
    OnlyIfLateBy {
        /// The lateness from which on it does not fire.
        less_than: TimeDelta,
    },
}

impl MisfirePolicy {
    /// [`MisfirePolicy::FireAll`] without a number.
    pub(crate) const FIRE_ALL: Self = Self::FireAll { up_to: 100 };

    /// The largest number for [`MisfirePolicy::FireAll`].
    pub(crate) const MAX_FIRES: usize = MAX_FIRES;
}

impl Misfire {
    /// The default of [`Misfire::late_from`], in seconds.
    pub(crate) const LATE_FROM_SECONDS: i64 = 60;

    /// The lateness from which on the policy decides, in microseconds.
    pub(super) fn threshold(&self) -> i64 {
        let late_from = micros(self.late_from);
        match self.policy {
            // A bound below `late_from` applies, too.
            MisfirePolicy::OnlyIfLateBy { less_than } => late_from.min(micros(less_than)),
            _ => late_from,
        }
    }
}

impl Default for Misfire {
    fn default() -> Self {
        Self {
            policy: MisfirePolicy::default(),
            late_from: TimeDelta::seconds(Self::LATE_FROM_SECONDS),
        }
    }
}

pub(super) fn micros(length: TimeDelta) -> i64 {
    length.num_microseconds().unwrap_or(i64::MAX)
}

/// Whether instances of one schedule may run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OverlapPolicy {
    /// Each occurrence starts an instance.
    #[default]
    Allow,
    /// An occurrence is dropped while an earlier instance runs.
    Skip,
    /// One occurrence waits while an earlier instance runs; additional ones are dropped.
    QueueOne,
}

/// What happens to an occurrence that fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverlapDecision {
    /// Start it.
    Start,
    /// Queue it until the running instance has ended.
    Queue,
    /// Drop it; it counts as fired.
    Drop,
}

impl OverlapPolicy {
    /// Decides by how many instances of the schedule run and how many occurrences wait.
    pub(crate) fn decide(self, running: u64, waiting: u64) -> OverlapDecision {
        match self {
            Self::Allow => OverlapDecision::Start,
            Self::Skip | Self::QueueOne if running == 0 && waiting == 0 => OverlapDecision::Start,
            Self::QueueOne if waiting == 0 => OverlapDecision::Queue,
            Self::Skip | Self::QueueOne => OverlapDecision::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OverlapDecision::{Drop, Queue, Start};

    #[test]
    fn every_case_is_decided() {
        let decide =
            |overlap: OverlapPolicy| [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(run, wait)| overlap.decide(run, wait));
        assert_eq!(decide(OverlapPolicy::Allow), [Start; 4]);
        assert_eq!(decide(OverlapPolicy::Skip), [Start, Drop, Drop, Drop]);
        assert_eq!(decide(OverlapPolicy::QueueOne), [Start, Queue, Drop, Drop]);
    }
}
