//! What to do about occurrences that are late, because no node was there or all were busy.

use chrono::TimeDelta;

use super::due::MOST_FIRES;

/// When an occurrence counts as late, and what then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfire {
    /// What to do.
    pub policy: MisfirePolicy,
    /// From this lateness on an occurrence is a misfire: 60 s unless set, which is also Quartz's threshold.
    pub late_from: TimeDelta,
}

/// What to do when the oldest occurrence that is due is a misfire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MisfirePolicy {
    /// One fire, now, for all that is due: the latest occurrence of it.
    #[default]
    FireOnceNow,
    /// No misfire fires. What is due and not that late does.
    Skip,
    /// All that is due fires, the oldest first, but only so many: the latest ones.
    FireAll {
        /// 1 to 1,000; 100 unless set.
        up_to: usize,
    },
    /// As [`MisfirePolicy::FireOnceNow`] if the latest occurrence is less late than this, and else nothing.
    OnlyIfLateBy {
        /// This late is too late.
        less_than: TimeDelta,
    },
}

impl MisfirePolicy {
    /// [`MisfirePolicy::FireAll`] without a number.
    pub const FIRE_ALL: Self = Self::FireAll { up_to: 100 };

    /// The largest number for [`MisfirePolicy::FireAll`].
    pub const MOST: usize = MOST_FIRES;
}

impl Misfire {
    /// The lateness that is usually taken for none, in seconds.
    pub const LATE_FROM_SECONDS: i64 = 60;

    /// From which lateness on the policy decides, in microseconds.
    pub(super) fn threshold(&self) -> i64 {
        let late_from = micros(self.late_from);
        match self.policy {
            // Who says ten seconds means it, though less than a minute is usually not late.
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
