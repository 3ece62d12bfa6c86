//! Formats of dates: the standard ones of the invariant culture, custom ones, and parsing with a format.

use super::{FormatError, LONGEST};
use crate::date_time::parse_offset;
use crate::date_time::{
    Clock, DateKind, DateTime, DateTimeOffset, ParsedDate, clock, date_ticks, in_range, time_ticks,
};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// What `K` and `z` show.
#[derive(Clone, Copy)]
enum Zone {
    None,
    Utc,
    Minutes(i32),
}

pub(crate) fn date(value: DateTime, format: &str) -> Result<String, FormatError> {
    let zone = match value.kind {
        DateKind::Unspecified => Zone::None,
        DateKind::Utc => Zone::Utc,
        DateKind::Local => Zone::Minutes(0),
    };
    write(value.ticks, zone, value.ticks, format, "MM/dd/yyyy HH:mm:ss")
}

pub(crate) fn offset(value: DateTimeOffset, format: &str) -> Result<String, FormatError> {
    let zone = Zone::Minutes(value.minutes);
    write(value.ticks, zone, value.utc_ticks(), format, "MM/dd/yyyy HH:mm:ss zzz")
}

fn write(ticks: i64, zone: Zone, utc: i64, format: &str, plain: &str) -> Result<String, FormatError> {
    if format.len() > LONGEST {
        return Err(FormatError::invalid(format));
    }
    let mut ticks = ticks;
    let pattern = match format {
        "" => plain,
        "d" => "MM/dd/yyyy",
        "D" => "dddd, dd MMMM yyyy",
        "f" => "dddd, dd MMMM yyyy HH:mm",
        "F" => "dddd, dd MMMM yyyy HH:mm:ss",
        "g" => "MM/dd/yyyy HH:mm",
        "G" => "MM/dd/yyyy HH:mm:ss",
        "m" | "M" => "MMMM dd",
        "o" | "O" => "yyyy-MM-ddTHH:mm:ss.fffffffK",
        "r" | "R" => {
            ticks = if matches!(zone, Zone::Minutes(_)) { utc } else { ticks };
            "ddd, dd MMM yyyy HH:mm:ss 'GMT'"
        }
        "s" => "yyyy-MM-ddTHH:mm:ss",
        "t" => "HH:mm",
        "T" => "HH:mm:ss",
        "u" => {
            ticks = if matches!(zone, Zone::Minutes(_)) { utc } else { ticks };
            "yyyy-MM-dd HH:mm:ss'Z'"
        }
        "U" => {
            ticks = utc;
            "dddd, dd MMMM yyyy HH:mm:ss"
        }
        "y" | "Y" => "yyyy MMMM",
        _ if format.chars().count() == 1 => return Err(FormatError::invalid(format)),
        _ => format,
    };
    custom(&clock(ticks), zone, pattern)
}

fn custom(at: &Clock, zone: Zone, pattern: &str) -> Result<String, FormatError> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        let mut count = 1;
        if next.is_ascii_alphabetic() {
            while chars.next_if_eq(&next).is_some() {
                count += 1;
            }
        }
        match next {
            '\\' => out.push(chars.next().ok_or_else(|| FormatError::invalid(pattern))?),
            '\'' | '"' => out.extend(chars.by_ref().take_while(|c| *c != next)),
            '%' => {}
            _ => part(&mut out, at, zone, next, count, pattern)?,
        }
    }
    Ok(out)
}

fn part(out: &mut String, at: &Clock, zone: Zone, kind: char, count: usize, pattern: &str) -> Result<(), FormatError> {
    let month = usize::try_from(at.month).unwrap_or(1) - 1;
    let month = MONTHS.get(month).copied().unwrap_or_default();
    let weekday = usize::try_from(at.weekday).unwrap_or(0);
    let weekday = DAYS.get(weekday).copied().unwrap_or_default();
    let two = count.min(2);
    let text = match (kind, count) {
        ('y', 1 | 2) => format!("{:0two$}", at.year % 100),
        ('y', _) => format!("{:0count$}", at.year),
        ('M', 1 | 2) => format!("{:0two$}", at.month),
        ('M', 3) => month.get(..3).unwrap_or_default().to_owned(),
        ('M', _) => month.to_owned(),
        ('d', 1 | 2) => format!("{:0two$}", at.day),
        ('d', 3) => weekday.get(..3).unwrap_or_default().to_owned(),
        ('d', _) => weekday.to_owned(),
        ('H', _) => format!("{:0two$}", at.hour),
        ('h', _) => format!("{:0two$}", if at.hour % 12 == 0 { 12 } else { at.hour % 12 }),
        ('m', _) => format!("{:0two$}", at.minute),
        ('s', _) => format!("{:0two$}", at.second),
        ('f', 1..=7) => format!("{:07}", at.fraction)
            .get(..count)
            .unwrap_or_default()
            .to_owned(),
        ('F', 1..=7) => {
            let text = format!("{:07}", at.fraction);
            let text = text.get(..count).unwrap_or_default().trim_end_matches('0').to_owned();
            if text.is_empty() && out.ends_with('.') {
                out.pop();
            }
            text
        }
        ('t', 1) => if at.hour < 12 { "A" } else { "P" }.to_owned(),
        ('t', _) => if at.hour < 12 { "AM" } else { "PM" }.to_owned(),
        ('g', _) => "A.D.".to_owned(),
        ('z', _) => zone_text(zone, count),
        ('K', _) => match zone {
            Zone::None => String::new(),
            Zone::Utc => "Z".to_owned(),
            Zone::Minutes(_) => zone_text(zone, 3),
        },
        ('f' | 'F', _) => return Err(FormatError::invalid(pattern)),
        (other, _) => other.to_string().repeat(count),
    };
    out.push_str(&text);
    Ok(())
}

fn zone_text(zone: Zone, count: usize) -> String {
    let minutes = match zone {
        Zone::Minutes(minutes) => minutes,
        Zone::None | Zone::Utc => 0,
    };
    let sign = if minutes < 0 { '-' } else { '+' };
    let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
    match count {
        1 => format!("{sign}{hours}"),
        2 => format!("{sign}{hours:02}"),
        _ => format!("{sign}{hours:02}:{rest:02}"),
    }
}

/// Reads a text by a custom format; `None` if it has another form.
pub(crate) fn parse_exact(text: &str, format: &str) -> Option<ParsedDate> {
    let pattern = match format {
        "d" => "MM/dd/yyyy",
        "s" => "yyyy-MM-ddTHH:mm:ss",
        "o" | "O" => "yyyy-MM-ddTHH:mm:ss.fffffffK",
        "u" => "yyyy-MM-dd HH:mm:ss'Z'",
        "t" => "HH:mm",
        "T" => "HH:mm:ss",
        other => other,
    };
    if pattern.len() > LONGEST || text.len() > LONGEST {
        return None;
    }
    let mut reader = Reader {
        rest: text,
        year: 1,
        month: 1,
        day: 1,
        hour: 0,
        minute: 0,
        second: 0,
        fraction: 0,
        half: None,
        offset: None,
        is_utc: false,
    };
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        let mut count = 1;
        if next.is_ascii_alphabetic() {
            while chars.next_if_eq(&next).is_some() {
                count += 1;
            }
        }
        match next {
            '\\' => reader.literal(chars.next()?)?,
            '\'' | '"' => {
                for literal in chars.by_ref().take_while(|c| *c != next) {
                    reader.literal(literal)?;
                }
            }
            '%' => {}
            _ => reader.part(next, count)?,
        }
    }
    reader.finish()
}

struct Reader<'t> {
    rest: &'t str,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    fraction: i64,
    half: Option<i64>,
    offset: Option<i32>,
    is_utc: bool,
}

impl Reader<'_> {
    fn literal(&mut self, wanted: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(wanted)?;
        Some(())
    }

    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return None;
        }
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        digits.parse().ok()
    }

    fn name(&mut self, names: &[&str], length: usize) -> Option<i64> {
        for (place, name) in names.iter().enumerate() {
            let name = if length == 3 { name.get(..3)? } else { name };
            let start = self.rest.get(..name.len());
            if start.is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                self.rest = self.rest.get(name.len()..)?;
                return i64::try_from(place).ok();
            }
        }
        None
    }

    fn part(&mut self, kind: char, count: usize) -> Option<()> {
        let two = if count == 1 { 1 } else { 2 };
        match (kind, count) {
            ('y', 1 | 2) => {
                let year = self.number(two, 2)?;
                self.year = if year < 50 { 2000 + year } else { 1900 + year };
            }
            ('y', _) => self.year = self.number(count.min(4), 4)?,
            ('M', 1 | 2) => self.month = self.number(two, 2)?,
            ('M', _) => self.month = self.name(&MONTHS, count)? + 1,
            ('d', 1 | 2) => self.day = self.number(two, 2)?,
            ('d', _) => drop(self.name(&DAYS, count)?),
            ('H' | 'h', _) => self.hour = self.number(two, 2)?,
            ('m', _) => self.minute = self.number(two, 2)?,
            ('s', _) => self.second = self.number(two, 2)?,
            ('f', 1..=7) => self.fraction(count, count)?,
            ('F', 1..=7) => self.fraction(0, count)?,
            ('t', _) => {
                let half = self.name(&["AM", "PM"], 2)?;
                self.half = Some(half * 12);
            }
            ('z' | 'K', _) => self.zone()?,
            (other, _) => {
                for _ in 0..count {
                    self.literal(other)?;
                }
            }
        }
        Some(())
    }

    fn fraction(&mut self, least: usize, most: usize) -> Option<()> {
        let before = self.rest.len();
        let number = self.number(least, most).unwrap_or(0);
        let read = before - self.rest.len();
        self.fraction = number * 10i64.pow(u32::try_from(7 - read.min(7)).ok()?);
        (read >= least).then_some(())
    }

    fn zone(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            (self.offset, self.is_utc) = (Some(0), true);
            return Some(());
        }
        if !self.rest.starts_with(['+', '-']) {
            return Some(());
        }
        let count = self
            .rest
            .bytes()
            .skip(1)
            .take_while(|byte| byte.is_ascii_digit() || *byte == b':')
            .count()
            + 1;
        let (offset, rest) = self.rest.split_at_checked(count)?;
        self.offset = Some(parse_offset(offset)?);
        self.rest = rest;
        Some(())
    }

    fn finish(self) -> Option<ParsedDate> {
        let hour = match self.half {
            Some(half) => self.hour % 12 + half,
            None => self.hour,
        };
        if !self.rest.is_empty() {
            return None;
        }
        let ticks = date_ticks(self.year, self.month, self.day)? + time_ticks(hour, self.minute, self.second)?;
        Some(ParsedDate {
            ticks: in_range(Some(ticks + self.fraction))?,
            offset: self.offset,
            is_utc: self.is_utc,
        })
    }
}
