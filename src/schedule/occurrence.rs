//! The occurrences of a cron expression in a time zone: where daylight saving is decided.
//!
//! A clock change makes local times that no instant has (a *gap*, when the clock goes forward) or that two instants
//! have (an *overlap*, when it goes back). An expression with fixed times of day fires once a day, so for each matching
//! local time the [`ClockChangeRules`] give the instants. An interval-like expression ([`Cron::is_interval`]) fires at
//! each instant whose local time matches, and at no other.
//!
//! The search goes through the periods of a zone between two clock changes. Within a period, local time is continuous, and a
//! rule excludes a part at its beginning or end.

use chrono::{DateTime, FixedOffset, NaiveDateTime, Utc};

use super::clock_change::{ClockAdjustment, ClockChangeRules, Gap, OverlapTime};
use super::cron::Cron;
use super::zone::{OffsetPeriod, Zone};

/// When an expression fires, and what a clock change did to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occurrence {
    /// The instant, in the offset of the zone.
    pub at: DateTime<FixedOffset>,
    /// None on most days.
    pub adjustment: Option<ClockAdjustment>,
}

/// An occurrence in seconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CronMatch {
    at: i64,
    adjustment: Option<ClockAdjustment>,
}

/// More than the difference of any two offsets, in seconds: today's are from -12 to +14 hours, historic ones up to 16.
const MAX_OFFSET_DIFFERENCE: i64 = 32 * 3600;

impl Cron {
    /// The first occurrence that is later than an instant, in the years 1970 to 9999.
    pub(crate) fn next_after(
        &self,
        after: DateTime<Utc>,
        zone: &Zone,
        rules: ClockChangeRules,
    ) -> Option<DateTime<Utc>> {
        let found = OccurrenceCursor::new(self, zone, rules, after).next_match()?;
        DateTime::from_timestamp(found.at, 0)
    }

    /// All occurrences that are later than an instant, with what clock changes did to them.
    pub(crate) fn occurrences<'a>(
        &'a self,
        after: DateTime<Utc>,
        zone: &'a Zone,
        rules: ClockChangeRules,
    ) -> impl Iterator<Item = Occurrence> + use<'a> {
        let mut cursor = OccurrenceCursor::new(self, zone, rules, after);
        std::iter::from_fn(move || {
            let found = cursor.next_match()?;
            let offset = FixedOffset::east_opt(i32::try_from(zone.offset_at(found.at)).ok()?)?;
            let at = DateTime::from_timestamp(found.at, 0)?.with_timezone(&offset);
            Some(Occurrence {
                at,
                adjustment: found.adjustment,
            })
        })
    }
}

/// A search that continues where it found the last one.
struct OccurrenceCursor<'a> {
    cron: &'a Cron,
    zone: &'a Zone,
    rules: ClockChangeRules,
    from: i64,
    /// The period that was used last; most often it is also the next one.
    known: Option<OffsetPeriod>,
}

impl<'a> OccurrenceCursor<'a> {
    fn new(cron: &'a Cron, zone: &'a Zone, rules: ClockChangeRules, after: DateTime<Utc>) -> Self {
        Self {
            cron,
            zone,
            rules,
            from: after.timestamp().max(-1) + 1,
            known: None,
        }
    }

    fn next_match(&mut self) -> Option<CronMatch> {
        let found = self.first()?;
        self.from = found.at + 1;
        Some(found)
    }

    fn period_at(&mut self, at: i64) -> OffsetPeriod {
        let known = self.known.filter(|known| known.contains(at));
        *self.known.insert(known.unwrap_or_else(|| self.zone.period_at(at)))
    }

    fn first(&mut self) -> Option<CronMatch> {
        let (cron, rules) = (self.cron, self.rules);
        let mut at = self.from;
        let mut skipped = None;
        loop {
            let period = self.period_at(at);
            let gap_effect = gap_effect(cron, period, rules, at);
            if let Some(GapEffect::Skipped(local)) = gap_effect {
                skipped = skipped.or(naive(local));
            }
            let at_start = match gap_effect {
                Some(GapEffect::Fires(found)) => Some(found),
                _ => None,
            };
            let search = search_period(cron, period, rules, at + period.offset);
            let first = at_start.into_iter().chain(search.found);
            if let Some(found) = first.min_by_key(|found| found.at) {
                let adjustment = found.adjustment.or(skipped.map(ClockAdjustment::Skipped));
                return Some(CronMatch { adjustment, ..found });
            }
            let (end, offset) = period.end?;
            at = end;
            // A rare expression matches decades ahead: the clock changes before are not visited. A local time that occurs
            // again may lie before the beginning of this search.
            if end + offset >= search.searched_from {
                at = at.max(search.next_match? - MAX_OFFSET_DIFFERENCE);
            }
        }
    }
}

/// What the gap at the beginning of a period does to a match in it.
enum GapEffect {
    Fires(CronMatch),
    Skipped(i64),
}

fn gap_effect(cron: &Cron, period: OffsetPeriod, rules: ClockChangeRules, at: i64) -> Option<GapEffect> {
    let (start, before) = period.start?;
    let (gap_start, gap_end) = (start + before, start + period.offset);
    let in_gap = |from: i64| cron.next_local(from).filter(|local| *local < gap_end);
    let fires = |at, adjustment: Option<ClockAdjustment>| Some(GapEffect::Fires(CronMatch { at, adjustment }));
    let gap = if cron.is_interval() { Gap::Skip } else { rules.gap };
    match gap {
        Gap::FireAtEnd if at == start => fires(start, naive(in_gap(gap_start)?).map(ClockAdjustment::EndOfGap)),
        Gap::Skip if at == start => Some(GapEffect::Skipped(in_gap(gap_start)?)),
        // A local time in the gap is read with the offset before it.
        Gap::Shift => {
            let local = in_gap(at + before)?;
            fires(local - before, naive(local).map(ClockAdjustment::Shifted))
        }
        Gap::FireAtEnd | Gap::Skip => None,
    }
}

/// The result of a search within a period.
struct PeriodSearch {
    found: Option<CronMatch>,
    /// The first match of the expression from `searched_from` on, in this period or a later one.
    next_match: Option<i64>,
    searched_from: i64,
}

/// The first match in a period from a local time on.
fn search_period(cron: &Cron, period: OffsetPeriod, rules: ClockChangeRules, local_from: i64) -> PeriodSearch {
    // Earlier local times of the period also occur before it.
    let repeats_until = period.start.map_or(i64::MIN, |(start, before)| start + before);
    // Local times of the period from here on also occur after it.
    let repeated_from = period.end.map_or(i64::MAX, |(end, after)| end + after);
    let mut from = local_from;
    let mut until = period.end.map_or(i64::MAX, |(end, _)| end + period.offset);
    if !cron.is_interval() {
        match rules.overlap {
            OverlapTime::First => from = from.max(repeats_until),
            OverlapTime::Second => until = until.min(repeated_from),
            OverlapTime::Both => {}
        }
    }
    let next_match = cron.next_local(from);
    let found = next_match.filter(|local| *local < until).map(|local| CronMatch {
        at: local - period.offset,
        adjustment: if local < repeats_until {
            Some(ClockAdjustment::SecondOfTwo)
        } else if local >= repeated_from {
            Some(ClockAdjustment::FirstOfTwo)
        } else {
            None
        },
    });
    PeriodSearch {
        found,
        next_match,
        searched_from: from,
    }
}

fn naive(local: i64) -> Option<NaiveDateTime> {
    Some(DateTime::from_timestamp(local, 0)?.naive_utc())
}
