//! A cron expression with the semantics of Cronos, Elsa's parser.
//!
//! Five fields (minute, hour, day of month, month, day of week) or six (seconds first), all of which must match, including
//! day of month *and* day of week, so `0 0 13 * 5` is a Friday the thirteenth. Ranges may wrap around (`22-2`), `?` is `*`,
//! 0 and 7 are Sunday. An expression that can never match is refused by the parser.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, NaiveDate};

use super::cron_field::{self as field, CronField, MonthDays, Weekdays};
use super::parse::quoted;
use crate::{Error, Result};

/// The longest expression in bytes; `0,1,…,59` has 169.
const MAX_LENGTH: usize = 1_000;
/// The calendar repeats after 400 years, which are a whole number of weeks.
const CYCLE_MONTHS: usize = 400 * 12;
/// The last year with occurrences.
const LAST_YEAR: i32 = 9999;
const DAY: i64 = 86_400;

const MACROS: [(&str, &str); 9] = [
    ("@every_second", "* * * * * *"),
    ("@every_minute", "* * * * *"),
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// A cron expression over local times; with a [`super::Zone`] and [`super::ClockChangeRules`] they become instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cron {
    text: String,
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: MonthDays,
    months: u64,
    weekdays: Weekdays,
    is_interval: bool,
}

impl Cron {
    /// Reads an expression.
    /// Errors: `invalid-cron`, with the field, its error and what is allowed; also for an expression that can never fire.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Self::read(text).map_err(|error| {
            Error::invalid(
                "invalid-cron",
                format!("the cron expression {} is invalid: {error}", quoted(text)),
            )
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("it is longer than {MAX_LENGTH} bytes"));
        }
        let blank = [' ', '\t'];
        let trimmed = text.trim_matches(blank);
        let expanded = if trimmed.starts_with('@') {
            expand(trimmed)?
        } else {
            trimmed
        };
        let fields: Vec<&str> = expanded.split(blank).filter(|field| !field.is_empty()).collect();
        let (second, minute, hour, day, month, weekday) = match fields.as_slice() {
            [minute, hour, day, month, weekday] => ("0", *minute, *hour, *day, *month, *weekday),
            [second, minute, hour, day, month, weekday] => (*second, *minute, *hour, *day, *month, *weekday),
            other => {
                return Err(format!(
                    "it has {} fields; allowed are 5 (minute, hour, day of month, month, day of week), or 6 with the \
                     second first",
                    other.len()
                ));
            }
        };
        fn of<T>(field: &CronField, read: Result<T, String>) -> Result<T, String> {
            read.map_err(|error| field.describe_error(&error))
        }
        let seconds = of(&field::SECOND, field::SECOND.set(second))?;
        let minutes = of(&field::MINUTE, field::MINUTE.set(minute))?;
        let hours = of(&field::HOUR, field::HOUR.set(hour))?;
        let cron = Self {
            text: trimmed.to_owned(),
            seconds: seconds.bits,
            minutes: minutes.bits,
            hours: hours.bits,
            days: of(&field::DAY, field::days(day))?,
            months: of(&field::MONTH, field::MONTH.set(month))?.bits,
            weekdays: of(&field::WEEKDAY, field::weekdays(weekday))?,
            is_interval: seconds.has_steps || minutes.has_steps || hours.has_steps,
        };
        let mut month = Month { year: 2000, number: 1 };
        for _ in 0..CYCLE_MONTHS {
            if cron.days_of(month) != 0 {
                return Ok(cron);
            }
            month = month.next();
        }
        Err("it never fires: no year has a day that day of month, month and day of week allow together".to_owned())
    }

    /// Whether seconds, minutes or hours have `*`, a range or a step. Such an expression follows real time: it fires in
    /// both passes of a repeated hour, and not for local times that a clock change skips.
    pub(crate) fn is_interval(&self) -> bool {
        self.is_interval
    }

    /// Whether it is written for Quartz, which Elsa can use instead of Cronos: it has six fields, and `?` or numbers of weekdays,
    /// which begin with 1 for Sunday there. Quartz has no form with five fields.
    pub(crate) fn may_be_for_quartz(&self) -> bool {
        let fields: Vec<&str> = self.text.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
        let [.., weekday] = fields.as_slice() else { return false };
        let mut parts = weekday
            .split(',')
            .map(|part| part.split(['#', '/']).next().unwrap_or_default());
        let has_numbers = parts.any(|part| part.contains(|character: char| character.is_ascii_digit()));
        self.text.contains('?') || fields.len() == 6 && has_numbers
    }

    /// The first matching local time at or after the given one, both in seconds since 1970-01-01T00:00:00 local time;
    /// none after the year 9999.
    pub(super) fn next_local(&self, from: i64) -> Option<i64> {
        let (day, second) = (from.div_euclid(DAY), from.rem_euclid(DAY));
        let today = DateTime::from_timestamp(day * DAY, 0)?.date_naive();
        if today.year() > LAST_YEAR {
            return None;
        }
        let mut month = Month {
            year: today.year(),
            number: today.month(),
        };
        let this_day = 1u32 << today.day();
        let mut days = self.days_of(month);
        if days & this_day != 0
            && let Some(second) = self.second_of_day(second)
        {
            return Some(day * DAY + second);
        }
        // No match is left on this day.
        days &= !(this_day | (this_day - 1));
        for _ in 0..=CYCLE_MONTHS {
            if days != 0 {
                let date = month.day(days.trailing_zeros())?;
                let midnight = date.and_hms_opt(0, 0, 0)?.and_utc().timestamp();
                return Some(midnight + self.second_of_day(0)?);
            }
            month = month.next();
            if month.year > LAST_YEAR {
                return None;
            }
            days = self.days_of(month);
        }
        None
    }

    /// The first matching second of a day, at or after the given one.
    fn second_of_day(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        let first_minute = at_or_after(self.minutes, 0)?;
        let first_second = at_or_after(self.seconds, 0)?;
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = at_or_after(self.seconds, second)
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = at_or_after(self.minutes, minute + 1) {
                return Some(hour * 3600 + minute * 60 + first_second);
            }
        }
        let hour = at_or_after(self.hours, hour + 1)?;
        Some(hour * 3600 + first_minute * 60 + first_second)
    }

    /// The days of a month that match, as bits 1 to 31.
    fn days_of(&self, month: Month) -> u32 {
        if self.months >> month.number & 1 == 0 {
            return 0;
        }
        let Some(first) = month.day(1) else { return 0 };
        let length = u32::from(first.num_days_in_month());
        let first_weekday = first.weekday().num_days_from_sunday();
        let weekday_of = |day: u32| (first_weekday + day - 1) % 7;
        let bit = |day: u32| if (1..=length).contains(&day) { 1u32 << day } else { 0 };
        // The weekday nearest to a day within the month.
        let nearest = |day: u32| match weekday_of(day) {
            6 if day == 1 => 3,
            6 => day - 1,
            0 if day == length => day - 2,
            0 => day + 1,
            _ => day,
        };
        let days = match self.days {
            MonthDays::Set(days) => days & u32::try_from((2u64 << length) - 2).unwrap_or_default(),
            MonthDays::NearestWeekday(day) if day <= length => bit(nearest(day)),
            MonthDays::Last { before, weekday } if before < length => {
                let day = length - before;
                bit(if weekday { nearest(day) } else { day })
            }
            MonthDays::NearestWeekday(_) | MonthDays::Last { .. } => 0,
        };
        let first_of = |weekday: u32| (weekday + 7 - first_weekday) % 7 + 1;
        let weekdays = match self.weekdays {
            Weekdays::Set(weekdays) => {
                // The week from the weekday of the first day on, five times.
                let two_weeks = u64::from(weekdays) << 7 | u64::from(weekdays);
                let week = two_weeks >> first_weekday & 0x7f;
                let month = week << 1 | week << 8 | week << 15 | week << 22 | week << 29;
                u32::try_from(month & ((2 << length) - 2)).unwrap_or_default()
            }
            Weekdays::Nth(weekday, nth) => bit(first_of(weekday) + 7 * (nth - 1)),
            Weekdays::Last(weekday) => {
                let first = first_of(weekday);
                bit(first + (length - first) / 7 * 7)
            }
        };
        days & weekdays
    }
}

impl FromStr for Cron {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

/// The text as parsed, without blanks around it.
impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn expand(text: &str) -> Result<&'static str, String> {
    let known = MACROS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<&str> = MACROS.iter().map(|(name, _)| *name).collect();
        format!("there is no such macro; allowed are {}", names.join(", "))
    })
}

/// The lowest bit from this one on.
fn at_or_after(bits: u64, from: i64) -> Option<i64> {
    let rest = bits.checked_shr(u32::try_from(from).ok()?)?;
    (rest != 0).then(|| from + i64::from(rest.trailing_zeros()))
}

#[derive(Clone, Copy, Debug)]
struct Month {
    year: i32,
    number: u32,
}

impl Month {
    fn next(self) -> Self {
        if self.number == 12 {
            Self {
                year: self.year + 1,
                number: 1,
            }
        } else {
            Self {
                number: self.number + 1,
                ..self
            }
        }
    }

    fn day(self, day: u32) -> Option<NaiveDate> {
        NaiveDate::from_ymd_opt(self.year, self.number, day)
    }
}
