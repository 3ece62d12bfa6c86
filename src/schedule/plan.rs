//! A schedule: what a timer trigger has, and when its occurrences are.

use std::sync::LazyLock;

use chrono::{DateTime, TimeDelta, Utc};

use super::cron::Cron;
use super::due::{PlannedFire, Progress};
use super::interval::Interval;
use super::jitter::jitter;
use super::misfire::Misfire;
use super::occurrence::ClockChangeRules;
use super::overlap::OverlapPolicy;
use super::zone::Zone;

/// What makes occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleKind {
    /// Local times of the zone.
    Cron(Cron),
    /// Real time, counted from `startAt` (which is itself the first occurrence) or from [`Progress::anchor`].
    Interval(Interval),
    /// One point in time. One that has passed is due at once.
    Once(DateTime<Utc>),
    /// Once, that long after `startAt` or [`Progress::anchor`].
    After(Interval),
}

/// When something is due, and what to do if it was missed. Valid by construction: see
/// [`Schedule::from_inputs`].
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
    /// What makes its occurrences.
    pub fn kind(&self) -> &ScheduleKind {
        &self.kind
    }

    /// Its time zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// What to do while an earlier occurrence runs.
    pub fn overlap(&self) -> OverlapPolicy {
        self.overlap
    }

    /// What to do about misfires.
    pub fn misfire(&self) -> Misfire {
        self.misfire
    }

    /// The first occurrence that is later than an instant, by the schedule alone: without its progress and jitter, but
    /// within `startAt` and `endAt`. An interval without `startAt` is counted from `anchor`.
    pub fn next_after(&self, after: DateTime<Utc>, anchor: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let micro = TimeDelta::microseconds(1);
        let after = match self.start_at {
            Some(start) => after.max(start - micro),
            None => after,
        };
        let next = match &self.kind {
            ScheduleKind::Cron(cron) => cron.next_after(after, &self.zone, self.rules),
            ScheduleKind::Once(at) => (*at > after).then_some(*at),
            ScheduleKind::After(interval) => {
                let base = self.start_at.unwrap_or(anchor);
                let at = interval.next(base.timestamp_micros(), false, base.timestamp_micros());
                at.and_then(DateTime::from_timestamp_micros).filter(|at| *at > after)
            }
            ScheduleKind::Interval(interval) => {
                let (base, with_base) = self.start_at.map_or((anchor, false), |start| (start, true));
                let next = interval.next(base.timestamp_micros(), with_base, after.timestamp_micros())?;
                DateTime::from_timestamp_micros(next)
            }
        };
        next.filter(|next| *next <= *LATEST && self.end_at.is_none_or(|end| *next <= end))
    }

    /// The first occurrence that is neither settled nor older than the schedule. Nothing: it is over.
    pub fn next(&self, progress: &Progress<'_>) -> Option<PlannedFire> {
        self.plan_after(self.floor(progress), progress)
    }

    /// Occurrences are later than this one.
    pub(super) fn floor(&self, progress: &Progress<'_>) -> DateTime<Utc> {
        let settled = progress.last_occurrence.unwrap_or(DateTime::<Utc>::MIN_UTC);
        match self.kind {
            // A point in time that passed before it was planned is due now.
            ScheduleKind::Once(_) => settled,
            ScheduleKind::Cron(_) | ScheduleKind::Interval(_) | ScheduleKind::After(_) => settled.max(progress.anchor),
        }
    }

    pub(super) fn plan_after(&self, after: DateTime<Utc>, progress: &Progress<'_>) -> Option<PlannedFire> {
        let occurrence = self.next_after(after, progress.anchor)?;
        Some(self.plan(occurrence, progress))
    }

    /// When an occurrence fires. Jitter never takes it to the next one or past it, so fires keep their order.
    pub(super) fn plan(&self, occurrence: DateTime<Utc>, progress: &Progress<'_>) -> PlannedFire {
        if self.jitter_seconds == 0 {
            return PlannedFire {
                occurrence,
                fire_at: occurrence,
            };
        }
        let most = i64::from(self.jitter_seconds) * 1_000_000;
        let room = self
            .next_after(occurrence, progress.anchor)
            .and_then(|next| (next - occurrence).num_microseconds());
        let later = jitter(
            progress.id,
            occurrence.timestamp_micros(),
            room.map_or(most, |room| room.min(most)),
        );
        let fire_at = occurrence.checked_add_signed(TimeDelta::microseconds(later));
        PlannedFire {
            occurrence,
            fire_at: fire_at.unwrap_or(occurrence),
        }
    }
}
