//! Texts as dates: ISO 8601, and the forms that .NET reads with the invariant culture.

use super::date_time::{ParsedDate, clock, date_ticks, in_range, parse_offset, time_ticks};
use super::format::{DAYS, MONTHS};

/// In bytes: the longest text of a date.
const LONGEST: usize = 64;

/// A part of a text, with the sign before it.
#[derive(Clone, Copy, Debug)]
enum Part<'t> {
    Number(i64, usize),
    Word(&'t str),
}

/// Reads a date, a time or both; `None` if the text is none of them.
pub(crate) fn parse(text: &str) -> Option<ParsedDate> {
    let text = text.trim();
    if text.len() > LONGEST || !text.is_ascii() || text.is_empty() {
        return None;
    }
    let (text, offset, is_utc) = split_offset(text)?;
    let text = text.trim_end();
    let (date, time) = split_time(text)?;
    let time = match time {
        Some(time) => Some(parse_time(time)?),
        None => None,
    };
    let day = if date.is_empty() { None } else { Some(parse_date(date)?) };
    if day.is_none() && (time.is_none() || offset.is_some()) {
        return None;
    }
    let ticks = in_range(Some(day.unwrap_or(0) + time.unwrap_or(0)))?;
    Some(ParsedDate {
        ticks,
        offset,
        is_utc,
        is_time: day.is_none(),
    })
}

fn split_offset(text: &str) -> Option<(&str, Option<i32>, bool)> {
    if let Some(rest) = text.strip_suffix(['Z', 'z']) {
        return Some((rest, Some(0), true));
    }
    // What .NET reads as `GMT` becomes the local time, other than what ends with `Z`.
    for zone in ["GMT", "UTC"] {
        if let Some(rest) = text.strip_suffix(zone) {
            return Some((rest, Some(0), false));
        }
    }
    // A sign behind a time.
    let Some(colon) = text.find(':') else {
        return Some((text, None, false));
    };
    let Some(sign) = text.get(colon..)?.find(['+', '-']).map(|at| at + colon) else {
        return Some((text, None, false));
    };
    let (rest, offset) = (text.get(..sign)?, text.get(sign..)?);
    Some((rest, Some(parse_offset(offset)?), false))
}

/// The date and the time of a text: the time is last, and is what has a colon, or ends with `AM` or `PM`.
fn split_time(text: &str) -> Option<(&str, Option<&str>)> {
    let upper = text.to_ascii_uppercase();
    let has_half = upper.ends_with("AM") || upper.ends_with("PM");
    let clock = if has_half {
        text.get(..text.len() - 2)?.trim_end()
    } else {
        text
    };
    let colon = clock.find(':');
    if colon.is_none() && !has_half {
        return Some((text, None));
    }
    let before = clock.get(..colon.unwrap_or(clock.len()))?;
    let hour = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (date, _) = before.split_at_checked(before.len() - hour)?;
    let time = text.get(date.len()..)?;
    // `Oct` ends with a T of its own.
    let date = match date.strip_suffix('T') {
        Some(rest) if rest.ends_with(|c: char| c.is_ascii_digit()) => rest,
        _ => date,
    };
    let is_apart = date.is_empty() || date.len() < before.len() - hour || date.ends_with([' ', ',']);
    is_apart.then_some((date.trim().trim_end_matches(','), Some(time)))
}

fn whole(text: &str) -> Option<i64> {
    let is_plain = !text.is_empty() && text.len() <= 7 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// The place of a name in a list, by the whole name or its first three letters.
fn place_of(names: &[&str], word: &str) -> Option<i64> {
    let is_name = |name: &&str| {
        let short = name.get(..3).unwrap_or_default();
        name.eq_ignore_ascii_case(word) || short.eq_ignore_ascii_case(word)
    };
    i64::try_from(names.iter().position(is_name)?).ok()
}

/// A year of two digits is one from 1950 to 2049.
fn year_of(year: i64, digits: usize) -> Option<i64> {
    match digits {
        1 | 2 if year < 50 => Some(2000 + year),
        1 | 2 => Some(1900 + year),
        3 | 4 => Some(year),
        _ => None,
    }
}

fn parse_date(text: &str) -> Option<i64> {
    let (mut numbers, mut month, mut weekday) = (Vec::new(), None, None);
    let mut names_first = false;
    for part in parts(text)? {
        match part {
            Part::Number(number, digits) => numbers.push((number, digits)),
            Part::Word(word) => {
                if let Some(place) = place_of(&MONTHS, word).filter(|_| month.is_none()) {
                    names_first = numbers.is_empty();
                    month = Some(place + 1);
                } else if let Some(place) = place_of(&DAYS, word).filter(|_| weekday.is_none()) {
                    weekday = Some(place);
                } else {
                    return None;
                }
            }
        }
    }
    let ticks = match (month, numbers.as_slice()) {
        (Some(month), [(year, digits @ 3..)]) => date_ticks(year_of(*year, *digits)?, month, 1)?,
        (Some(month), [(year, digits @ 3..), (day, 1 | 2)]) if !names_first => {
            date_ticks(year_of(*year, *digits)?, month, *day)?
        }
        (Some(month), [(day, 1 | 2), (year, digits)]) => date_ticks(year_of(*year, *digits)?, month, *day)?,
        // The year is first, or last: then the month is first.
        (None, [(year, digits @ 3..), (month, 1 | 2), (day, 1 | 2)]) => {
            date_ticks(year_of(*year, *digits)?, *month, *day)?
        }
        (None, [(month, 1 | 2), (day, 1 | 2), (year, digits)]) => date_ticks(year_of(*year, *digits)?, *month, *day)?,
        (None, [(year, digits @ 3..), (month, 1 | 2)]) => date_ticks(year_of(*year, *digits)?, *month, 1)?,
        (None, [(month, 1 | 2), (year, digits @ 3..)]) => date_ticks(year_of(*year, *digits)?, *month, 1)?,
        _ => return None,
    };
    let is_day = weekday.is_none_or(|weekday| i64::from(clock(ticks).weekday) == weekday);
    is_day.then_some(ticks)
}

/// Numbers and words; between two of them are a sign or blanks.
fn parts(text: &str) -> Option<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (part, after) = rest.split_at_checked(digits.max(letters))?;
        if digits > 0 {
            parts.push(Part::Number(whole(part)?, digits));
        } else if letters > 0 {
            parts.push(Part::Word(part));
        }
        let signs = after.bytes().take_while(|byte| b" ,-/.".contains(byte)).count();
        let (sign, next) = after.split_at_checked(signs)?;
        let is_one = sign.bytes().filter(|byte| !b" ,".contains(byte)).count() <= 1;
        // Letters may follow digits at once, as in `31Jan2026`; two numbers need something between them.
        if !is_one || (part.is_empty() && sign.is_empty()) || parts.is_empty() {
            return None;
        }
        rest = next;
    }
    Some(parts)
}

fn parse_time(text: &str) -> Option<i64> {
    let upper = text.to_ascii_uppercase();
    let (text, half) = if let Some(rest) = upper.strip_suffix("PM") {
        (rest.trim_end(), Some(12))
    } else if let Some(rest) = upper.strip_suffix("AM") {
        (rest.trim_end(), Some(0))
    } else {
        (upper.trim_end(), None)
    };
    let mut parts = text.split(':');
    let mut hour = whole(parts.next()?)?;
    let minute = match parts.next() {
        Some(minute) => whole(minute)?,
        None if half.is_some() => 0,
        None => return None,
    };
    let seconds = parts.next().unwrap_or("0");
    if parts.next().is_some() {
        return None;
    }
    if let Some(half) = half {
        if !(0..=12).contains(&hour) {
            return None;
        }
        hour = hour % 12 + half;
    }
    let (second, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let fraction = fraction.get(..fraction.len().min(7))?;
    let fraction = whole(&format!("{fraction:0<7}"))?;
    Some(time_ticks(hour, minute, whole(second)?)? + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_dates_are_read_as_dotnet_reads_them() {
        let ticks = |y, m, d, h, min, s| date_ticks(y, m, d).unwrap() + time_ticks(h, min, s).unwrap();
        let read = |text: &str| parse(text).map(|parsed| (parsed.ticks, parsed.offset));
        let day = |d| ticks(2024, 1, d, 0, 0, 0);
        for (text, wanted, offset) in [
            ("2024-02-29", ticks(2024, 2, 29, 0, 0, 0), None),
            ("2024-01-31T10:20:30Z", ticks(2024, 1, 31, 10, 20, 30), Some(0)),
            ("2024-01-31T10:20:30+02:00", ticks(2024, 1, 31, 10, 20, 30), Some(120)),
            ("01/31/2024 1:05 PM", ticks(2024, 1, 31, 13, 5, 0), None),
            ("31 Jan 2024", day(31), None),
            ("31-Jan-2024", day(31), None),
            ("31 January 24", day(31), None),
            ("Jan 31, 2024", day(31), None),
            ("January 31, 2024 2 PM", ticks(2024, 1, 31, 14, 0, 0), None),
            ("Jan 2024", day(1), None),
            ("2024-01", day(1), None),
            ("2024.01.31", day(31), None),
            ("1/5/24", day(5), None),
            ("Wed, 31 Jan 2024 12:00:00 GMT", ticks(2024, 1, 31, 12, 0, 0), Some(0)),
            ("Wednesday, 31 January 2024", day(31), None),
            ("31 Oct 2024 08:00", ticks(2024, 10, 31, 8, 0, 0), None),
        ] {
            assert_eq!(read(text), Some((wanted, offset)), "{text}");
        }
        let time = parse("14:30").unwrap();
        assert!(time.is_time && time.ticks == time_ticks(14, 30, 0).unwrap(), "{time:?}");
        for wrong in [
            "",
            "2023-02-29",
            "soon",
            "2024-13-01",
            "24:00",
            "2024-01-31T25:00",
            "é",
            "Thu, 31 Jan 2024",
            "31.01.2024",
            "20240131",
            "12",
            "Jan",
            "2024--01",
            "31 Jan Feb 2024",
            "1/2/3/4",
            "AM",
            ":",
            "T12:00",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
