//! What fires now, and what is due next.
//!
//! The scheduler stores two values per schedule: the last occurrence that was decided (fired, or skipped by a policy),
//! and the next one with its time. Occurrences are decided in order, and none at or before the last decided one is decided
//! again, so a schedule may be republished, changed, or computed with another time zone database between any two decisions.
//!
//! When the oldest due occurrence is a misfire, the policy decides about all due occurrences; otherwise all of them fire.

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta, Utc};

use super::policy::{MAX_FIRES, MisfirePolicy, micros};
use super::recurrence::{PlannedFire, Progress, Schedule, ScheduleKind};

/// How many occurrences are counted one by one: more than a day of minutes. Further ones are counted as one.
const MAX_COUNTED: usize = 2_000;

/// An occurrence that fires now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fire {
    /// The planned time, which is passed to the workflow.
    pub occurrence: DateTime<Utc>,
    /// When it should have fired.
    pub fire_at: DateTime<Utc>,
    /// How many earlier due occurrences do not fire because this one does.
    pub stands_for: u64,
}

/// What fires now, and what is due next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FireDecision {
    /// What fires, oldest first; at most 1,000.
    pub fire: Vec<Fire>,
    /// What is due next; `None` if the schedule has ended.
    pub next: Option<PlannedFire>,
    /// The new [`Progress::last_occurrence`].
    pub last_occurrence: Option<DateTime<Utc>>,
    /// How many due occurrences are misfires.
    pub misfired: u64,
    /// How many due occurrences do not fire.
    pub skipped: u64,
    /// Whether the two numbers are exact; if not, they are lower bounds.
    pub is_counted: bool,
}

/// The due occurrences, of which at most the latest 1,000 are listed.
#[derive(Default)]
struct DueOccurrences {
    latest: VecDeque<PlannedFire>,
    /// How many there are before those.
    earlier: u64,
    is_counted: bool,
}

impl Schedule {
    /// What fires at `now`, the database's time. Pure: the same input gives the same decision. Takes bounded time,
    /// however long the last decision is ago.
    pub(crate) fn due(&self, progress: &Progress<'_>, now: DateTime<Utc>) -> FireDecision {
        let none = FireDecision {
            last_occurrence: progress.last_occurrence,
            is_counted: true,
            ..FireDecision::default()
        };
        let Some(oldest) = self.next(progress) else { return none };
        if oldest.fire_at > now {
            return FireDecision {
                next: Some(oldest),
                ..none
            };
        }
        if lateness(oldest, now) < self.misfire.threshold() {
            return self.all_in_time(oldest, progress, now);
        }
        let due = self.all_due(oldest, progress, now);
        let Some(latest) = due.latest.back().copied() else {
            return none;
        };
        let fire = self.apply_policy(&due, now);
        let all = due.earlier + due.latest.len() as u64;
        let threshold = self.misfire.threshold();
        let in_time = due.latest.iter().rev();
        let in_time = in_time.take_while(|planned| lateness(**planned, now) < threshold);
        FireDecision {
            misfired: all - in_time.count() as u64,
            skipped: all - fire.len() as u64,
            fire,
            next: self.plan_after(latest.occurrence, progress),
            last_occurrence: Some(latest.occurrence),
            is_counted: due.is_counted,
        }
    }

    /// No occurrence is late: all fire, at most [`MAX_FIRES`] per decision.
    fn all_in_time(&self, oldest: PlannedFire, progress: &Progress<'_>, now: DateTime<Utc>) -> FireDecision {
        let mut decision = FireDecision {
            is_counted: true,
            ..FireDecision::default()
        };
        let mut next = Some(oldest);
        while let Some(planned) = next.filter(|planned| planned.fire_at <= now && decision.fire.len() < MAX_FIRES) {
            decision.fire.push(fire(planned, 0));
            decision.last_occurrence = Some(planned.occurrence);
            next = self.plan_after(planned.occurrence, progress);
        }
        FireDecision { next, ..decision }
    }

    /// Which of the due occurrences fire by the policy.
    fn apply_policy(&self, due: &DueOccurrences, now: DateTime<Utc>) -> Vec<Fire> {
        let all = due.earlier + due.latest.len() as u64;
        let latest = due.latest.back().copied();
        let once = |planned| vec![fire(planned, all - 1)];
        match self.misfire.policy {
            MisfirePolicy::FireOnceNow => latest.map(once).unwrap_or_default(),
            MisfirePolicy::OnlyIfLateBy { less_than } => latest
                .filter(|latest| lateness(*latest, now) < micros(less_than))
                .map(once)
                .unwrap_or_default(),
            MisfirePolicy::Skip => {
                let threshold = self.misfire.threshold();
                let in_time = due.latest.iter().filter(|planned| lateness(**planned, now) < threshold);
                in_time.map(|planned| fire(*planned, 0)).collect()
            }
            MisfirePolicy::FireAll { up_to } => {
                let excess = due.latest.len().saturating_sub(up_to);
                due.latest
                    .iter()
                    .skip(excess)
                    .map(|planned| fire(*planned, 0))
                    .collect()
            }
        }
    }

    /// All due occurrences, from the oldest on.
    fn all_due(&self, oldest: PlannedFire, progress: &Progress<'_>, now: DateTime<Utc>) -> DueOccurrences {
        let mut due = DueOccurrences {
            is_counted: true,
            ..DueOccurrences::default()
        };
        let mut next = Some(oldest);
        for _ in 0..MAX_COUNTED {
            let Some(planned) = next.filter(|planned| planned.fire_at <= now) else {
                return due;
            };
            if due.latest.len() == MAX_FIRES {
                due.latest.pop_front();
                due.earlier += 1;
            }
            due.latest.push_back(planned);
            next = self.plan_after(planned.occurrence, progress);
        }
        if next.is_none_or(|planned| planned.fire_at > now) {
            return due;
        }
        self.latest_due(oldest, progress, now)
    }

    /// The latest due occurrences, where there are too many to list one by one.
    fn latest_due(&self, oldest: PlannedFire, progress: &Progress<'_>, now: DateTime<Utc>) -> DueOccurrences {
        let floor = oldest.occurrence - TimeDelta::microseconds(1);
        let mut latest = VecDeque::new();
        let mut before = now.checked_add_signed(TimeDelta::microseconds(1)).unwrap_or(now);
        let mut hint = TimeDelta::seconds(1);
        while latest.len() < MAX_FIRES {
            let Some(occurrence) = self.previous(before, floor, hint, progress) else {
                break;
            };
            // The distance of the last two, with which the next search begins.
            if before <= now {
                hint = before - occurrence;
            }
            before = occurrence;
            let planned = self.plan(occurrence, progress);
            if planned.fire_at <= now {
                latest.push_front(planned);
            }
        }
        let (earlier, is_counted) = match (&self.kind, latest.front()) {
            (ScheduleKind::Interval(interval), Some(first)) => {
                let span = micros(first.occurrence - oldest.occurrence);
                (span.unsigned_abs() / interval.as_micros().unsigned_abs(), true)
            }
            (_, _) => ((MAX_COUNTED + 1 - MAX_FIRES) as u64, false),
        };
        DueOccurrences {
            latest,
            earlier,
            is_counted,
        }
    }

    /// The last occurrence before `before` and later than `floor`, found by asking for the next one after ever earlier
    /// instants, and then by bisection. `hint` is a first estimate of how far it lies back.
    fn previous(
        &self,
        before: DateTime<Utc>,
        floor: DateTime<Utc>,
        hint: TimeDelta,
        progress: &Progress<'_>,
    ) -> Option<DateTime<Utc>> {
        let next = |after| self.next_after(after, progress.anchor).filter(|next| *next < before);
        let mut back = hint.max(TimeDelta::microseconds(1));
        let mut found = loop {
            let from = before.checked_sub_signed(back).unwrap_or(floor).max(floor);
            match next(from) {
                Some(found) => break found,
                None if from == floor => return None,
                None => back = back.checked_mul(2).unwrap_or(TimeDelta::MAX),
            }
        };
        // No occurrence lies between `high` and `before`.
        let mut high = before;
        while let Some(later) = next(found) {
            let middle = found + (high - found) / 2;
            found = next(middle).unwrap_or_else(|| {
                high = middle;
                later
            });
        }
        Some(found)
    }
}

fn fire(planned: PlannedFire, stands_for: u64) -> Fire {
    Fire {
        occurrence: planned.occurrence,
        fire_at: planned.fire_at,
        stands_for,
    }
}

/// In microseconds.
fn lateness(planned: PlannedFire, now: DateTime<Utc>) -> i64 {
    micros(now - planned.fire_at)
}
