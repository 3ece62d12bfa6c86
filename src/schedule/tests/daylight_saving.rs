//! A year of minutes in six zones with daylight saving, compared with a reference that evaluates each minute.

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike, TimeDelta, Timelike};

use super::*;
use crate::schedule::{ClockAdjustment, Cron, Zone};

const MINUTE: i64 = 60;
/// In this year every zone with daylight saving has both clock changes.
const YEAR: i32 = 2026;

/// A minute of local time.
#[derive(Clone, Copy)]
struct LocalMinute {
    month: u32,
    day: u32,
    weekday: u32,
    hour: u32,
    minute: u32,
}

type Matches = fn(LocalMinute) -> bool;

/// Fixed times of day at the hours of the clock changes.
const FIXED: [(&str, Matches); 9] = [
    ("30 2 * * *", |w| (w.hour, w.minute) == (2, 30)),
    ("0 2 * * *", |w| (w.hour, w.minute) == (2, 0)),
    ("0 3 * * *", |w| (w.hour, w.minute) == (3, 0)),
    ("15,45 0,1,2,23 * * *", |w| {
        [0, 1, 2, 23].contains(&w.hour) && [15, 45].contains(&w.minute)
    }),
    ("0 0 * * *", |w| (w.hour, w.minute) == (0, 0)),
    ("0 30 1 * * SUN", |w| w.weekday == 0 && (w.hour, w.minute) == (1, 30)),
    ("10 2 * 3,4,10 SUN#1", |w| {
        [3, 4, 10].contains(&w.month) && w.weekday == 0 && w.day <= 7 && (w.hour, w.minute) == (2, 10)
    }),
    ("59 23 L * *", |w| {
        let length = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][w.month as usize - 1];
        w.day == length && (w.hour, w.minute) == (23, 59)
    }),
    ("5 1 13 * 5", |w| {
        w.day == 13 && w.weekday == 5 && (w.hour, w.minute) == (1, 5)
    }),
];

/// Interval-like expressions.
const INTERVALS: [(&str, Matches); 7] = [
    ("* * * * *", |_| true),
    ("*/15 * * * *", |w| w.minute % 15 == 0),
    ("30 * * * *", |w| w.minute == 30),
    ("*/10 2 * * *", |w| w.hour == 2 && w.minute % 10 == 0),
    ("20 0-3 * * *", |w| w.hour <= 3 && w.minute == 20),
    ("30 22-2 * * *", |w| (w.hour >= 22 || w.hour <= 2) && w.minute == 30),
    ("45 */2 * * MON-SUN", |w| w.hour % 2 == 0 && w.minute == 45),
];

/// Every minute of the year in a zone, and some days around it, computed from the offset of each quarter of an hour.
struct Reference {
    /// The time of the first entry of `local_minutes`, in minutes of local time.
    first_local: i64,
    /// Each local minute, with the instants in seconds at which it occurs.
    local_minutes: Vec<(LocalMinute, Vec<i64>)>,
    zone: Zone,
}

impl Reference {
    fn of(zone: &str) -> Self {
        let zone = Zone::named(zone).unwrap();
        let from = at(&format!("{YEAR}-01-01T00:00:00Z")).timestamp() - 3 * 86_400;
        let until = at(&format!("{}-01-01T00:00:00Z", YEAR + 1)).timestamp() + 3 * 86_400;
        let first_local = (from + zone.offset_at(from)) / MINUTE;
        let last_local = (until + zone.offset_at(until)) / MINUTE;
        let wall = |local: i64| {
            let time = DateTime::from_timestamp(local * MINUTE, 0).unwrap();
            LocalMinute {
                month: time.month(),
                day: time.day(),
                weekday: time.weekday().num_days_from_sunday(),
                hour: time.hour(),
                minute: time.minute(),
            }
        };
        let mut local_minutes: Vec<_> = (first_local..=last_local)
            .map(|local| (wall(local), Vec::new()))
            .collect();
        let mut offset = 0;
        for instant in (from..=until).step_by(MINUTE as usize) {
            // In this year no clock change lies between.
            if instant % (15 * MINUTE) == 0 {
                offset = zone.offset_at(instant);
            }
            let local = (instant + offset) / MINUTE;
            local_minutes[usize::try_from(local - first_local).unwrap()]
                .1
                .push(instant);
        }
        Self {
            first_local,
            local_minutes,
            zone,
        }
    }

    fn matching(&self, matches: Matches) -> Vec<usize> {
        let local_minutes = self.local_minutes.iter().enumerate();
        local_minutes
            .filter(|(_, (wall, _))| matches(*wall))
            .map(|(index, _)| index)
            .collect()
    }

    /// The instants of the year at which an expression fires that matches these local_minutes.
    fn fires(&self, matching: &[usize], is_interval: bool, rules: ClockChangeRules) -> Vec<i64> {
        let mut fires = BTreeSet::new();
        for index in matching.iter().copied() {
            let (_, instants) = &self.local_minutes[index];
            match (instants.as_slice(), rules) {
                ([], _) if is_interval => {}
                ([], ClockChangeRules { gap: Gap::Skip, .. }) => {}
                (
                    [],
                    ClockChangeRules {
                        gap: Gap::FireAtEnd, ..
                    },
                ) => {
                    let after = self.local_minutes[index..]
                        .iter()
                        .find_map(|(_, instants)| instants.first());
                    fires.extend(after);
                }
                ([], ClockChangeRules { gap: Gap::Shift, .. }) => {
                    let before = self.local_minutes[..index]
                        .iter()
                        .rev()
                        .find_map(|(_, instants)| instants.last());
                    let local = self.first_local + i64::try_from(index).unwrap();
                    fires.insert(local * MINUTE - self.zone.offset_at(*before.unwrap()));
                }
                (instants, _) if is_interval => fires.extend(instants),
                (
                    instants,
                    ClockChangeRules {
                        overlap: OverlapTime::First,
                        ..
                    },
                ) => fires.extend(instants.first()),
                (
                    instants,
                    ClockChangeRules {
                        overlap: OverlapTime::Second,
                        ..
                    },
                ) => fires.extend(instants.last()),
                (
                    instants,
                    ClockChangeRules {
                        overlap: OverlapTime::Both,
                        ..
                    },
                ) => fires.extend(instants),
            }
        }
        let (from, until) = year();
        fires.into_iter().filter(|fire| (from..until).contains(fire)).collect()
    }
}

fn year() -> (i64, i64) {
    let start = |year: i32| at(&format!("{year}-01-01T00:00:00Z")).timestamp();
    (start(YEAR), start(YEAR + 1))
}

/// All occurrences of the year, one after another.
fn year_of_occurrences(cron: &Cron, zone: &Zone, rules: ClockChangeRules) -> Vec<i64> {
    let (from, until) = year();
    let start = DateTime::from_timestamp(from - 1, 0).unwrap();
    let mut after = from - 1;
    let mut fires = Vec::new();
    for next in cron.occurrences(start, zone, rules).map(|next| next.at.timestamp()) {
        assert!(next > after, "{cron} {zone}: {next} comes after {after}");
        if next >= until {
            break;
        }
        fires.push(next);
        after = next;
    }
    fires
}

/// Fixed times fire by the rules; interval-like expressions follow real time whatever the rules.
fn compare(zone: &str) {
    let reference = Reference::of(zone);
    let odd = reference
        .local_minutes
        .iter()
        .filter(|(_, instants)| instants.len() != 1);
    assert!(
        zone == "Asia/Kathmandu" || odd.count() >= 60,
        "{zone} has no clock changes"
    );
    let fixed = FIXED.iter().map(|case| (case, false));
    for ((text, matches), is_interval) in fixed.chain(INTERVALS.iter().map(|case| (case, true))) {
        let cron = Cron::parse(text).unwrap();
        assert_eq!(cron.is_interval(), is_interval, "{text}");
        let matching = reference.matching(*matches);
        for rules in all_rules() {
            // The rules do not apply; to save time, one set is tested that differs from the default in both.
            if is_interval && (rules.gap, rules.overlap) != (Gap::Shift, OverlapTime::Second) {
                continue;
            }
            // Half a million minutes a year: only in the zone with the most unusual clock change.
            if *text == "* * * * *" && zone != "Australia/Lord_Howe" {
                continue;
            }
            let expected = reference.fires(&matching, is_interval, rules);
            let fires = year_of_occurrences(&cron, &reference.zone, rules);
            let differs = fires.iter().zip(&expected).find(|(fire, expected)| fire != expected);
            assert_eq!(differs, None, "{text} {zone} {rules:?}");
            assert_eq!(fires.len(), expected.len(), "{text} {zone} {rules:?}");
        }
    }
}

#[test]
fn a_year_of_minutes_in_new_york() {
    compare("America/New_York");
}

#[test]
fn a_year_of_minutes_in_berlin() {
    compare("Europe/Berlin");
}

#[test]
fn a_year_of_minutes_in_sydney() {
    compare("Australia/Sydney");
}

/// The clock goes forward at midnight, and back to the day before.
#[test]
fn a_year_of_minutes_in_santiago() {
    compare("America/Santiago");
}

/// The clock changes by half an hour.
#[test]
fn a_year_of_minutes_on_lord_howe_island() {
    compare("Australia/Lord_Howe");
}

/// No summer time, and an offset of 5:45.
#[test]
fn a_year_of_minutes_in_kathmandu() {
    compare("Asia/Kathmandu");
}

#[test]
fn the_next_occurrence_is_the_same_from_any_earlier_instant() {
    let mut rng = TestRng(4);
    let all: Vec<&str> = FIXED.iter().chain(&INTERVALS).map(|(text, _)| *text).collect();
    for zone in [
        "UTC",
        "America/New_York",
        "Europe/Berlin",
        "Australia/Sydney",
        "America/Santiago",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "Africa/Casablanca",
        "Pacific/Apia",
        "Europe/Dublin",
    ] {
        let zone = Zone::named(zone).unwrap();
        for text in &all {
            let cron = Cron::parse(text).unwrap();
            for rules in all_rules() {
                let mut after =
                    at("2009-12-25T00:00:00Z") + TimeDelta::milliseconds(rng.next() as i64 % 1_000_000_000_000);
                for _ in 0..4 {
                    let next = cron.next_after(after, &zone, rules).unwrap();
                    assert!(next > after);
                    for before in [1, 999_999, 1_000_000, rng.next() as i64 % 60_000_000] {
                        let before = (next - TimeDelta::microseconds(before)).max(after);
                        assert_eq!(
                            cron.next_after(before, &zone, rules),
                            Some(next),
                            "{text} {zone} {rules:?}"
                        );
                    }
                    after = next;
                }
            }
        }
    }
}

type Rules = (Gap, OverlapTime);

/// An expression, an instant, and the next occurrence after it.
type Occurrence = (&'static str, &'static str, &'static str);

/// The expected times are from the official documentation of each zone, not computed.
#[test]
fn documented_clock_changes_are_found() {
    let end = (Gap::FireAtEnd, OverlapTime::First);
    let cases: [(&str, Rules, &[Occurrence]); 13] = [
        // From 02:00 to 03:00 on 8 March, from 02:00 to 01:00 on 1 November.
        (
            "America/New_York",
            end,
            &[
                ("30 2 * * *", "2026-03-08T00:00:00-05:00", "2026-03-08T03:00:00-04:00"),
                ("30 1 * * *", "2026-11-01T00:00:00-04:00", "2026-11-01T01:30:00-04:00"),
                ("30 1 * * *", "2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"),
                ("*/30 * * * *", "2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00"),
                ("*/30 * * * *", "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00"),
            ],
        ),
        // From 02:00 to 03:00 on 29 March, from 03:00 to 02:00 on 25 October.
        (
            "Europe/Berlin",
            (Gap::Shift, OverlapTime::First),
            &[("30 2 * * *", "2026-03-29T00:00:00+01:00", "2026-03-29T03:30:00+02:00")],
        ),
        (
            "Europe/Berlin",
            (Gap::Skip, OverlapTime::First),
            &[("30 2 * * *", "2026-03-29T00:00:00+01:00", "2026-03-30T02:30:00+02:00")],
        ),
        (
            "Europe/Berlin",
            (Gap::Skip, OverlapTime::Second),
            &[("30 2 * * *", "2026-10-25T00:00:00+02:00", "2026-10-25T02:30:00+01:00")],
        ),
        (
            "Europe/Berlin",
            (Gap::Skip, OverlapTime::Both),
            &[("30 2 * * *", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00")],
        ),
        // From 00:00 to 01:00 on 6 September, from 24:00 to 23:00 on 4 April.
        (
            "America/Santiago",
            end,
            &[
                ("0 0 * * *", "2026-09-05T12:00:00-04:00", "2026-09-06T01:00:00-03:00"),
                ("30 23 * * *", "2026-04-04T23:30:00-03:00", "2026-04-05T23:30:00-04:00"),
            ],
        ),
        // From 02:00 to 02:30 on 4 October, from 02:00 to 01:30 on 5 April.
        (
            "Australia/Lord_Howe",
            end,
            &[("15 2 * * *", "2026-10-03T12:00:00Z", "2026-10-04T02:30:00+11:00")],
        ),
        (
            "Australia/Lord_Howe",
            (Gap::Shift, OverlapTime::First),
            &[("15 2 * * *", "2026-10-03T12:00:00Z", "2026-10-04T02:45:00+11:00")],
        ),
        (
            "Australia/Lord_Howe",
            (Gap::Skip, OverlapTime::Second),
            &[("45 1 * * *", "2026-04-04T12:00:00Z", "2026-04-05T01:45:00+10:30")],
        ),
        // Across the date line: there was no 30 December.
        (
            "Pacific/Apia",
            end,
            &[("0 9 * * *", "2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00")],
        ),
        (
            "Pacific/Apia",
            (Gap::Skip, OverlapTime::First),
            &[("0 9 * * *", "2011-12-29T09:00:00-10:00", "2011-12-31T09:00:00+14:00")],
        ),
        (
            "Asia/Kathmandu",
            end,
            &[("0 0 * * *", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00+05:45")],
        ),
        // Beyond the years that the database lists.
        (
            "Europe/Berlin",
            end,
            &[("30 2 * 3 SUNL", "2998-12-01T00:00:00Z", "2999-03-31T03:00:00+02:00")],
        ),
    ];
    for (zone, (gap, overlap), occurrences) in cases {
        let zone = Zone::named(zone).unwrap();
        for (text, after, next) in occurrences {
            let cron = Cron::parse(text).unwrap();
            let found = cron
                .occurrences(at(after), &zone, ClockChangeRules { gap, overlap })
                .next();
            let found = found.unwrap().at.to_rfc3339();
            assert_eq!(found, *next, "{text} {zone} {gap:?} {overlap:?} after {after}");
        }
    }
}

#[test]
fn an_occurrence_has_its_clock_adjustment() {
    let berlin = Zone::named("Europe/Berlin").unwrap();
    let adjustment = |text: &str, gap, overlap, after: &str| {
        let cron = Cron::parse(text).unwrap();
        let found = cron
            .occurrences(at(after), &berlin, ClockChangeRules { gap, overlap })
            .next();
        found.unwrap().adjustment
    };
    let half_past: chrono::NaiveDateTime = "2026-03-29T02:30:00".parse().unwrap();
    let spring = "2026-03-28T23:00:00Z";
    let autumn = "2026-10-24T22:00:00Z";
    let daily = "30 2 * * *";
    assert_eq!(
        adjustment(daily, Gap::FireAtEnd, OverlapTime::First, spring),
        Some(ClockAdjustment::EndOfGap(half_past))
    );
    assert_eq!(
        adjustment(daily, Gap::Shift, OverlapTime::First, spring),
        Some(ClockAdjustment::Shifted(half_past))
    );
    assert_eq!(
        adjustment(daily, Gap::Skip, OverlapTime::First, spring),
        Some(ClockAdjustment::Skipped(half_past))
    );
    assert_eq!(
        adjustment("30 * * * *", Gap::FireAtEnd, OverlapTime::First, "2026-03-29T00:30:00Z"),
        Some(ClockAdjustment::Skipped(half_past))
    );
    assert_eq!(
        adjustment(daily, Gap::Skip, OverlapTime::First, autumn),
        Some(ClockAdjustment::FirstOfTwo)
    );
    assert_eq!(
        adjustment(daily, Gap::Skip, OverlapTime::Second, autumn),
        Some(ClockAdjustment::SecondOfTwo)
    );
    assert_eq!(
        adjustment(daily, Gap::Skip, OverlapTime::First, "2026-07-01T00:00:00Z"),
        None
    );
}
