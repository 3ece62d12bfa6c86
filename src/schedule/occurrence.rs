//! The occurrences of a cron expression in a time zone: where daylight saving is decided.
//!
//! A clock change makes local times that no instant has (a *gap*, when the clock goes forward) or that two instants
//! have (an *overlap*, when it goes back). An expression with fixed times of day is meant once a day, so for each local
//! time that matches a [`ClockChangeRules`] says which instants it becomes. An expression that walks real time
//! ([`Cron::is_interval`]) fires at each instant whose local time matches, and at no other.
//!
//! The search walks the stretches of a zone between two clock changes. In each, local time runs evenly, and what a rule
//! leaves out is a piece at its beginning or end.

use chrono::{DateTime, FixedOffset, NaiveDateTime, Utc};

use super::cron::Cron;
use super::zone::{Stretch, Zone};

/// What becomes of a local time that a clock change leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// It fires when the gap is over, once for all that lie in it; what Cronos does.
    #[default]
    EndOfGap,
    /// It fires as much later as the gap is long: 02:30 becomes 03:30.
    Shift,
    /// It does not fire on this day.
    Skip,
}

/// Which of two equal local times is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlapTime {
    /// The earlier one; what Cronos does.
    #[default]
    First,
    /// The later one.
    Second,
    /// It fires twice on this day.
    Both,
}

/// What clock changes do to an expression of fixed times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockChangeRules {
    /// For local times that are left out.
    pub gap: Gap,
    /// For local times that come twice.
    pub overlap: OverlapTime,
}

/// When an expression fires, and what a clock change had to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The instant, in the offset of the zone.
    pub at: DateTime<FixedOffset>,
    /// Nothing on most days.
    pub adjustment: Option<ClockAdjustment>,
}

/// What a clock change did to an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockAdjustment {
    /// This local time is left out, and fires at the end of the gap.
    EndOfGap(NaiveDateTime),
    /// This local time is left out, and fires later by the length of the gap.
    Shifted(NaiveDateTime),
    /// This local time was left out, and did not fire before this occurrence.
    Skipped(NaiveDateTime),
    /// The first of two equal local times.
    FirstOfTwo,
    /// The second of two equal local times.
    SecondOfTwo,
}

/// An occurrence in seconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    at: i64,
    adjustment: Option<ClockAdjustment>,
}

/// More than any two offsets lie apart: they go from -12 to +14 hours today, and went to 16.
const WIDEST: i64 = 32 * 3600;

impl Cron {
    /// The first occurrence that is later than an instant; nothing after the year 9999. Before 1970 there is none.
    pub fn next_after(&self, after: DateTime<Utc>, zone: &Zone, rules: ClockChangeRules) -> Option<DateTime<Utc>> {
        let found = Walk::new(self, zone, rules, after).next_found()?;
        DateTime::from_timestamp(found.at, 0)
    }

    /// All occurrences that are later than an instant, with what clock changes did to them.
    pub fn occurrences<'a>(
        &'a self,
        after: DateTime<Utc>,
        zone: &'a Zone,
        rules: ClockChangeRules,
    ) -> impl Iterator<Item = Occurrence> + use<'a> {
        let mut walk = Walk::new(self, zone, rules, after);
        std::iter::from_fn(move || {
            let found = walk.next_found()?;
            let offset = FixedOffset::east_opt(i32::try_from(zone.offset_at(found.at)).ok()?)?;
            let at = DateTime::from_timestamp(found.at, 0)?.with_timezone(&offset);
            Some(Occurrence {
                at,
                adjustment: found.adjustment,
            })
        })
    }
}

/// A search that goes on where it found the last one.
struct Walk<'a> {
    cron: &'a Cron,
    zone: &'a Zone,
    rules: ClockChangeRules,
    from: i64,
    /// The stretch that was looked at last: most often it is also the next one.
    known: Option<Stretch>,
}

impl<'a> Walk<'a> {
    fn new(cron: &'a Cron, zone: &'a Zone, rules: ClockChangeRules, after: DateTime<Utc>) -> Self {
        Self {
            cron,
            zone,
            rules,
            from: after.timestamp().max(-1) + 1,
            known: None,
        }
    }

    fn next_found(&mut self) -> Option<Found> {
        let found = self.first()?;
        self.from = found.at + 1;
        Some(found)
    }

    fn stretch(&mut self, at: i64) -> Stretch {
        let known = self.known.filter(|known| known.holds(at));
        *self.known.insert(known.unwrap_or_else(|| self.zone.stretch(at)))
    }

    fn first(&mut self) -> Option<Found> {
        let (cron, rules) = (self.cron, self.rules);
        let mut at = self.from;
        let mut left_out = None;
        loop {
            let stretch = self.stretch(at);
            let opening = opening(cron, stretch, rules, at);
            if let Some(Opening::LeftOut(local)) = opening {
                left_out = left_out.or(naive(local));
            }
            let at_opening = match opening {
                Some(Opening::Fires(found)) => Some(found),
                _ => None,
            };
            let within = within(cron, stretch, rules, at + stretch.offset);
            let first = at_opening.into_iter().chain(within.found);
            if let Some(found) = first.min_by_key(|found| found.at) {
                let adjustment = found.adjustment.or(left_out.map(ClockAdjustment::Skipped));
                return Some(Found { adjustment, ..found });
            }
            let (end, offset) = stretch.end?;
            at = end;
            // Rare expressions match decades ahead: no need to look at every clock change on the way. A local time that
            // comes again may lie before where this search began.
            if end + offset >= within.searched_from {
                at = at.max(within.next_match? - WIDEST);
            }
        }
    }
}

/// What the gap at the beginning of a stretch does.
enum Opening {
    Fires(Found),
    LeftOut(i64),
}

fn opening(cron: &Cron, stretch: Stretch, rules: ClockChangeRules, at: i64) -> Option<Opening> {
    let (start, before) = stretch.start?;
    let (gap_start, gap_end) = (start + before, start + stretch.offset);
    let in_gap = |from: i64| cron.next_local(from).filter(|local| *local < gap_end);
    let fires = |at, adjustment: Option<ClockAdjustment>| Some(Opening::Fires(Found { at, adjustment }));
    let gap = if cron.is_interval() { Gap::Skip } else { rules.gap };
    match gap {
        Gap::EndOfGap if at == start => fires(start, naive(in_gap(gap_start)?).map(ClockAdjustment::EndOfGap)),
        Gap::Skip if at == start => Some(Opening::LeftOut(in_gap(gap_start)?)),
        // What lies in the gap is read with the offset before it.
        Gap::Shift => {
            let local = in_gap(at + before)?;
            fires(local - before, naive(local).map(ClockAdjustment::Shifted))
        }
        Gap::EndOfGap | Gap::Skip => None,
    }
}

struct Within {
    found: Option<Found>,
    /// The first match of the expression from here on, in this stretch or not.
    next_match: Option<i64>,
    searched_from: i64,
}

/// The first match in a stretch from a local time on.
fn within(cron: &Cron, stretch: Stretch, rules: ClockChangeRules, local_from: i64) -> Within {
    // Local times of the stretch below this one came before, too.
    let repeats_until = stretch.start.map_or(i64::MIN, |(start, before)| start + before);
    // Those from this one on come again.
    let repeated_from = stretch.end.map_or(i64::MAX, |(end, after)| end + after);
    let mut from = local_from;
    let mut until = stretch.end.map_or(i64::MAX, |(end, _)| end + stretch.offset);
    if !cron.is_interval() {
        match rules.overlap {
            OverlapTime::First => from = from.max(repeats_until),
            OverlapTime::Second => until = until.min(repeated_from),
            OverlapTime::Both => {}
        }
    }
    let next_match = cron.next_local(from);
    let found = next_match.filter(|local| *local < until).map(|local| Found {
        at: local - stretch.offset,
        adjustment: if local < repeats_until {
            Some(ClockAdjustment::SecondOfTwo)
        } else if local >= repeated_from {
            Some(ClockAdjustment::FirstOfTwo)
        } else {
            None
        },
    });
    Within {
        found,
        next_match,
        searched_from: from,
    }
}

fn naive(local: i64) -> Option<NaiveDateTime> {
    Some(DateTime::from_timestamp(local, 0)?.naive_utc())
}
