//! .NET's `DateTime` and `DateTimeOffset` in ticks of 100 ns since the year 1. The local time zone is UTC.

use std::time::SystemTime;

use chrono::{Datelike, NaiveDate, Timelike};
use mainspring_language::parse_date_text;

pub(crate) const TICKS_PER_MILLISECOND: i64 = 10_000;
pub(crate) const TICKS_PER_SECOND: i64 = 10_000_000;
pub(crate) const TICKS_PER_MINUTE: i64 = 60 * TICKS_PER_SECOND;
pub(crate) const TICKS_PER_HOUR: i64 = 60 * TICKS_PER_MINUTE;
pub(crate) const TICKS_PER_DAY: i64 = 24 * TICKS_PER_HOUR;
pub(crate) const MOST_TICKS: i64 = 3_155_378_975_999_999_999;
/// Ticks of 1970.
pub(crate) const UNIX_TICKS: i64 = 621_355_968_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateKind {
    Unspecified,
    Utc,
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateTime {
    pub(crate) ticks: i64,
    pub(crate) kind: DateKind,
}

/// A clock time and its distance from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateTimeOffset {
    pub(crate) ticks: i64,
    pub(crate) minutes: i32,
}

impl DateTimeOffset {
    pub(crate) fn utc_ticks(self) -> i64 {
        self.ticks.saturating_sub(i64::from(self.minutes) * TICKS_PER_MINUTE)
    }
}

/// The parts of a clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) year: i32,
    pub(crate) month: u32,
    pub(crate) day: u32,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    /// Ticks of the second.
    pub(crate) fraction: i64,
    /// From 0, Sunday.
    pub(crate) weekday: u32,
    pub(crate) day_of_year: u32,
}

pub(crate) fn clock(ticks: i64) -> Clock {
    let day = ticks.div_euclid(TICKS_PER_DAY);
    let time = ticks.rem_euclid(TICKS_PER_DAY);
    let number = i32::try_from(day).unwrap_or(0).saturating_add(1);
    let date = NaiveDate::from_num_days_from_ce_opt(number).unwrap_or_default();
    Clock {
        year: date.year(),
        month: date.month(),
        day: date.day(),
        hour: time / TICKS_PER_HOUR,
        minute: time / TICKS_PER_MINUTE % 60,
        second: time / TICKS_PER_SECOND % 60,
        fraction: time % TICKS_PER_SECOND,
        weekday: date.weekday().num_days_from_sunday(),
        day_of_year: date.ordinal(),
    }
}

/// The ticks of a date; `None` if there is no such day.
pub(crate) fn date_ticks(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = i32::try_from(year).ok().filter(|year| (1..=9999).contains(year))?;
    let date = NaiveDate::from_ymd_opt(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)?;
    Some(i64::from(date.num_days_from_ce() - 1) * TICKS_PER_DAY)
}

pub(crate) fn time_ticks(hour: i64, minute: i64, second: i64) -> Option<i64> {
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    is_time.then(|| hour * TICKS_PER_HOUR + minute * TICKS_PER_MINUTE + second * TICKS_PER_SECOND)
}

pub(crate) fn days_in_month(year: i64, month: i64) -> Option<i64> {
    (28..=31).rev().find(|day| date_ticks(year, month, *day).is_some())
}

/// Adds months; the day is cut to the length of the month.
pub(crate) fn add_months(ticks: i64, months: i64) -> Option<i64> {
    let at = clock(ticks);
    let number = i64::from(at.year)
        .checked_mul(12)?
        .checked_add(i64::from(at.month) - 1)?
        .checked_add(months)?;
    let (year, month) = (number.div_euclid(12), number.rem_euclid(12) + 1);
    let day = i64::from(at.day).min(days_in_month(year, month)?);
    Some(date_ticks(year, month, day)? + ticks.rem_euclid(TICKS_PER_DAY))
}

/// Ticks within the years 1 to 9999.
pub(crate) fn in_range(ticks: Option<i64>) -> Option<i64> {
    ticks.filter(|ticks| (0..=MOST_TICKS).contains(ticks))
}

/// The ticks of a time since 1970; of an earlier one those of 1970.
pub(crate) fn ticks_of(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let ticks = i64::try_from(since.as_nanos() / 100).unwrap_or(MOST_TICKS);
    in_range(ticks.checked_add(UNIX_TICKS)).unwrap_or(MOST_TICKS)
}

/// `+02:00`, `+0200` or `+02`.
pub(crate) fn parse_offset(text: &str) -> Option<i32> {
    let is_negative = text.starts_with('-');
    let digits = text.get(1..)?.replace(':', "");
    let (hours, minutes) = match digits.len() {
        1 | 2 => (digits.as_str(), "0"),
        4 => (digits.get(..2)?, digits.get(2..)?),
        _ => return None,
    };
    let total = hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?;
    (total <= 14 * 60).then_some(if is_negative { -total } else { total })
}

/// What a text says: the clock time, and the offset in minutes if it names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParsedDate {
    pub(crate) ticks: i64,
    pub(crate) offset: Option<i32>,
    /// It ends with `Z`.
    pub(crate) is_utc: bool,
}

impl ParsedDate {
    /// Reads a date, a time or both, as .NET does; the day that a text does not name is that of `now`.
    pub(crate) fn read(text: &str, now: SystemTime) -> Option<Self> {
        let read = parse_date_text(text, now.into())?;
        let (day, time) = (read.local.date(), read.local.time());
        let seconds = i64::from(time.num_seconds_from_midnight());
        let fraction = i64::from(time.nanosecond()) / 100;
        Some(Self {
            ticks: i64::from(day.num_days_from_ce() - 1) * TICKS_PER_DAY + seconds * TICKS_PER_SECOND + fraction,
            offset: read.offset.map(|offset| offset.local_minus_utc() / 60),
            is_utc: text.trim_end().ends_with(['Z', 'z']),
        })
    }

    /// As `DateTime.Parse` returns it: with an offset it is the local time, which is UTC. What says `Z` stays UTC, so that it
    /// is written as it was read.
    pub(crate) fn date_time(self) -> Option<DateTime> {
        let Some(minutes) = self.offset else {
            return Some(DateTime {
                ticks: self.ticks,
                kind: DateKind::Unspecified,
            });
        };
        let ticks = in_range(self.ticks.checked_sub(i64::from(minutes) * TICKS_PER_MINUTE))?;
        let kind = if self.is_utc { DateKind::Utc } else { DateKind::Local };
        Some(DateTime { ticks, kind })
    }

    pub(crate) fn offset(self) -> DateTimeOffset {
        DateTimeOffset {
            ticks: self.ticks,
            minutes: self.offset.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_added_as_in_dotnet() {
        let day = |y, m, d| date_ticks(y, m, d).unwrap();
        assert_eq!(add_months(day(2024, 1, 31), 1), Some(day(2024, 2, 29)));
        assert_eq!(add_months(day(2024, 3, 31), -13), Some(day(2023, 2, 28)));
        assert_eq!(add_months(day(9999, 12, 1), 1), None);
        assert_eq!(clock(UNIX_TICKS).weekday, 4);
    }
}
