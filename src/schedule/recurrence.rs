//! A schedule: its parts, and when its occurrences are planned.

use std::sync::LazyLock;
use std::time::Duration;

use chrono::{DateTime, FixedOffset, TimeDelta, Utc};

use sha2::{Digest, Sha256};

use super::clock_change::ClockChangeRules;
use super::cron::Cron;
use super::interval::Interval;
use super::policy::{Misfire, OverlapPolicy};
use super::zone::Zone;

/// The rule that occurrences follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleKind {
    /// A cron expression over local times of the zone.
    Cron(Cron),
    /// An interval of real time, counted from `startAt` (itself the first occurrence) or from [`Progress::anchor`].
    Interval(Interval),
    /// One point in time; due at once if it has passed.
    Once(DateTime<Utc>),
}

/// The stored progress of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress<'a> {
    /// The schedule's id, from which its jitter is derived.
    pub id: &'a str,
    /// When the schedule was first published or last changed; an unchanged new version keeps it. Its occurrences are
    /// later, and an interval is counted from here.
    pub anchor: DateTime<Utc>,
    /// The last occurrence that was decided. A paused schedule skips what it missed by setting this to the time of its
    /// resumption.
    pub last_occurrence: Option<DateTime<Utc>>,
}

/// An occurrence, and when it fires: they differ by jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFire {
    /// The planned time, which identifies the occurrence.
    pub occurrence: DateTime<Utc>,
    /// It does not fire before this time.
    pub fire_at: DateTime<Utc>,
}

/// When occurrences are due, and the policies for them. Valid by construction: see [`Schedule::from_inputs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(super) kind: ScheduleKind,
    pub(super) zone: Zone,
    pub(super) rules: ClockChangeRules,
    pub(super) misfire: Misfire,
    pub(super) overlap: OverlapPolicy,
    pub(super) jitter_seconds: u32,
    pub(super) start_at: Option<DateTime<Utc>>,
    pub(super) end_at: Option<DateTime<Utc>>,
    pub(super) below_a_second: bool,
}

/// The first instant that can be planned.
pub(super) static EARLIEST: DateTime<Utc> = DateTime::UNIX_EPOCH;
/// The last instant that can be planned: .NET's last second.
pub(super) static LATEST: LazyLock<DateTime<Utc>> =
    LazyLock::new(|| DateTime::from_timestamp(253_402_300_799, 999_999_000).unwrap_or(DateTime::<Utc>::MAX_UTC));

impl Schedule {
    /// The rule that its occurrences follow.
    pub(crate) fn kind(&self) -> &ScheduleKind {
        &self.kind
    }

    /// The policy for occurrences while an earlier instance runs.
    pub(crate) fn overlap(&self) -> OverlapPolicy {
        self.overlap
    }

    /// The policy for misfires.
    #[cfg(test)]
    pub(crate) fn misfire(&self) -> Misfire {
        self.misfire
    }

    /// The cron expression, and the next occurrences after an instant in its time zone; `None` for other rules.
    pub(crate) fn next_of_cron(
        &self,
        after: DateTime<Utc>,
        count: usize,
    ) -> Option<(&Cron, Vec<DateTime<FixedOffset>>)> {
        let ScheduleKind::Cron(cron) = &self.kind else {
            return None;
        };
        let occurrences = cron.occurrences(after, &self.zone, self.rules).take(count);
        Some((cron, occurrences.map(|occurrence| occurrence.at).collect()))
    }

    /// The first occurrence that is later than an instant and within `startAt` and `endAt`, regardless of progress and
    /// jitter. An interval without `startAt` is counted from `anchor`.
    pub fn next_after(&self, after: DateTime<Utc>, anchor: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let micro = TimeDelta::microseconds(1);
        let after = match self.start_at {
            Some(start) => after.max(start - micro),
            None => after,
        };
        let next = match &self.kind {
            ScheduleKind::Cron(cron) => cron.next_after(after, &self.zone, self.rules),
            ScheduleKind::Once(at) => (*at > after).then_some(*at),
            ScheduleKind::Interval(interval) => {
                let (base, with_base) = self.start_at.map_or((anchor, false), |start| (start, true));
                let next = interval.next(base.timestamp_micros(), with_base, after.timestamp_micros())?;
                DateTime::from_timestamp_micros(next)
            }
        };
        next.filter(|next| *next <= *LATEST && self.end_at.is_none_or(|end| *next <= end))
    }

    /// The first occurrence that is neither decided nor older than the schedule. `None` if the schedule has ended.
    pub(crate) fn next(&self, progress: &Progress<'_>) -> Option<PlannedFire> {
        self.plan_after(self.floor(progress), progress)
    }

    /// The time to the first occurrence of an interval that is counted from no point in time of its own, with its jitter: a length,
    /// the same whenever it is asked for.
    pub(crate) fn length(&self, id: &str) -> Option<Duration> {
        if !matches!(self.kind, ScheduleKind::Interval(_)) || self.start_at.is_some() {
            return None;
        }
        let unbounded = Self {
            end_at: None,
            ..self.clone()
        };
        let progress = Progress {
            id,
            anchor: EARLIEST,
            last_occurrence: None,
        };
        (unbounded.next(&progress)?.fire_at - EARLIEST).to_std().ok()
    }

    /// The next occurrence is later than this instant.
    pub(super) fn floor(&self, progress: &Progress<'_>) -> DateTime<Utc> {
        let decided = progress.last_occurrence.unwrap_or(DateTime::<Utc>::MIN_UTC);
        match self.kind {
            // A point in time that passed before it was planned is due now.
            ScheduleKind::Once(_) => decided,
            ScheduleKind::Cron(_) | ScheduleKind::Interval(_) => decided.max(progress.anchor),
        }
    }

    pub(super) fn plan_after(&self, after: DateTime<Utc>, progress: &Progress<'_>) -> Option<PlannedFire> {
        let occurrence = self.next_after(after, progress.anchor)?;
        Some(self.plan(occurrence, progress))
    }

    /// When an occurrence fires. Jitter is shorter than the distance to the next one, so fires keep their order.
    pub(super) fn plan(&self, occurrence: DateTime<Utc>, progress: &Progress<'_>) -> PlannedFire {
        if self.jitter_seconds == 0 {
            return PlannedFire {
                occurrence,
                fire_at: occurrence,
            };
        }
        let max = i64::from(self.jitter_seconds) * 1_000_000;
        let to_next = self
            .next_after(occurrence, progress.anchor)
            .and_then(|next| (next - occurrence).num_microseconds());
        let delay = jitter(
            progress.id,
            occurrence.timestamp_micros(),
            to_next.map_or(max, |to_next| to_next.min(max)),
        );
        let fire_at = occurrence.checked_add_signed(TimeDelta::microseconds(delay));
        PlannedFire {
            occurrence,
            fire_at: fire_at.unwrap_or(occurrence),
        }
    }
}

/// How much later than planned an occurrence fires: from 0 to below `below`; all in microseconds. Derived from the
/// schedule and the occurrence, so that every node computes the same.
pub(super) fn jitter(schedule: &str, occurrence: i64, below: i64) -> i64 {
    let mut hash = Sha256::new();
    hash.update(schedule.as_bytes());
    hash.update(b"|");
    hash.update(occurrence.to_be_bytes());
    let digest = hash.finalize();
    let number = digest
        .iter()
        .take(8)
        .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let scaled = (u128::from(number) * u128::from(below.max(0).unsigned_abs())) >> 64;
    i64::try_from(scaled).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_derived_and_spread() {
        assert_eq!(jitter("a", 1, 1000), jitter("a", 1, 1000));
        let spread: std::collections::BTreeSet<i64> = (0..100).map(|i| jitter("a", i, 1_000_000)).collect();
        assert!(spread.len() > 90);
        assert!(spread.iter().all(|jitter| (0..1_000_000).contains(jitter)));
        assert!(spread.first().unwrap() < &100_000 && spread.last().unwrap() > &900_000);
        let others = (0..100).filter(|i| jitter(&i.to_string(), 7, 1000) == jitter("a", 7, 1000));
        assert!(others.count() < 5);
        assert_eq!(jitter("a", 1, 0), 0);
        assert_eq!(jitter("a", 1, 1), 0);
        assert_eq!(jitter("a", 1, -5), 0);
    }
}
