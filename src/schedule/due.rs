//! What fires now, and when to look again.
//!
//! Whoever fires stores two things per schedule: the last occurrence that is settled (fired, or skipped by a policy),
//! and the next one with its time. Occurrences are decided in order, and none at or before the settled one is ever
//! decided again: so a schedule may be published again, changed, or computed with another time zone database between
//! any two decisions.
//!
//! When the oldest occurrence that is due is a misfire, the policy decides about all that is due; else all of it fires.

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta, Utc};

use super::misfire::{MisfirePolicy, micros};
use super::plan::{Schedule, ScheduleKind};

/// At most so many fires come of one decision. If more are due, `next` lies in the past and asks to be decided.
pub(super) const MOST_FIRES: usize = 1_000;
/// So many occurrences are counted one by one: more than a day of minutes. What is beyond is counted as one.
const MOST_COUNTED: usize = 2_000;

/// How far a schedule has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The schedule's id, from which its jitter is derived.
    pub id: &'a str,
    /// When the schedule began to hold: first published, or changed since. Its occurrences are later, and an interval
    /// is counted from here. Published again unchanged, it keeps this time.
    pub anchor: DateTime<Utc>,
    /// The last occurrence that is settled. A schedule that was paused settles what it missed by setting this to when
    /// it goes on.
    pub last_occurrence: Option<DateTime<Utc>>,
}

/// An occurrence, and when it fires: the same but for jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFire {
    /// Names the occurrence.
    pub occurrence: DateTime<Utc>,
    /// Not before this.
    pub fire_at: DateTime<Utc>,
}

/// An occurrence that fires now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fire {
    /// The planned time, which the workflow is told.
    pub occurrence: DateTime<Utc>,
    /// When it should have fired.
    pub fire_at: DateTime<Utc>,
    /// How many earlier occurrences it stands for, that were due and do not fire.
    pub stands_for: u64,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FireDecision {
    /// What fires, the oldest first; at most 1,000.
    pub fire: Vec<Fire>,
    /// What is due next. Nothing: the schedule is over.
    pub next: Option<PlannedFire>,
    /// To be stored as [`Progress::last_occurrence`].
    pub last_occurrence: Option<DateTime<Utc>>,
    /// How many were due too late.
    pub misfired: u64,
    /// How many were due and do not fire.
    pub skipped: u64,
    /// Whether the two numbers are exact; if not they are at least that.
    pub is_counted: bool,
}

/// What is due, the latest 1,000 at most.
#[derive(Default)]
struct Due {
    latest: VecDeque<PlannedFire>,
    /// How many more there are, before those.
    earlier: u64,
    is_counted: bool,
}

impl Schedule {
    /// What fires at `now`, which is the database's time. Pure: the same question gets the same answer. The time that
    /// passed since the last decision does not matter for how long this takes, but for a bounded count.
    pub fn due(&self, progress: &Progress<'_>, now: DateTime<Utc>) -> FireDecision {
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
        let fire = self.choose(&due, now);
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

    /// Nothing is late: all fires, page by page.
    fn all_in_time(&self, oldest: PlannedFire, progress: &Progress<'_>, now: DateTime<Utc>) -> FireDecision {
        let mut decision = FireDecision {
            is_counted: true,
            ..FireDecision::default()
        };
        let mut next = Some(oldest);
        while let Some(planned) = next.filter(|planned| planned.fire_at <= now && decision.fire.len() < MOST_FIRES) {
            decision.fire.push(fire(planned, 0));
            decision.last_occurrence = Some(planned.occurrence);
            next = self.plan_after(planned.occurrence, progress);
        }
        FireDecision { next, ..decision }
    }

    /// What the policy makes of it.
    fn choose(&self, due: &Due, now: DateTime<Utc>) -> Vec<Fire> {
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
                let left_out = due.latest.len().saturating_sub(up_to);
                due.latest
                    .iter()
                    .skip(left_out)
                    .map(|planned| fire(*planned, 0))
                    .collect()
            }
        }
    }

    /// All that is due, the oldest of it being known.
    fn all_due(&self, oldest: PlannedFire, progress: &Progress<'_>, now: DateTime<Utc>) -> Due {
        let mut due = Due {
            is_counted: true,
            ..Due::default()
        };
        let mut next = Some(oldest);
        for _ in 0..MOST_COUNTED {
            let Some(planned) = next.filter(|planned| planned.fire_at <= now) else {
                return due;
            };
            if due.latest.len() == MOST_FIRES {
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

    /// The latest ones, where there are too many to walk over.
    fn latest_due(&self, oldest: PlannedFire, progress: &Progress<'_>, now: DateTime<Utc>) -> Due {
        let floor = oldest.occurrence - TimeDelta::microseconds(1);
        let mut latest = VecDeque::new();
        let mut before = now.checked_add_signed(TimeDelta::microseconds(1)).unwrap_or(now);
        let mut hint = TimeDelta::seconds(1);
        while latest.len() < MOST_FIRES {
            let Some(occurrence) = self.previous(before, floor, hint, progress) else {
                break;
            };
            // The usual distance between two, from which the next search begins.
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
            (_, _) => ((MOST_COUNTED + 1 - MOST_FIRES) as u64, false),
        };
        Due {
            latest,
            earlier,
            is_counted,
        }
    }

    /// The last occurrence before an instant and later than another, found by asking for the next one of earlier and
    /// earlier instants, and then by halving. `hint` is a first guess at how far it lies back.
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
        // Nothing is found after `high`.
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
