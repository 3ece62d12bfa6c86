//! Texts as dates: what .NET reads, and some forms that Fluid adds.

use chrono::{DateTime, Utc};
use mainspring_language::{ReadDate, parse_date_text};

/// A text as a date. Fluid tries its own forms first; none of them means something else to .NET.
pub(super) fn parse(text: &str, now: DateTime<Utc>) -> Option<ReadDate> {
    parse_date_text(text, now).or_else(|| parse_date_text(&as_dotnet_writes(text)?, now))
}

/// A form of Fluid, as .NET writes it.
fn as_dotnet_writes(text: &str) -> Option<String> {
    /// All forms are shorter.
    const LONGEST: usize = 60;
    if text.len() > LONGEST || !text.is_ascii() {
        return None;
    }
    if let Some((before, offset)) = text.split_once("GMT") {
        return of_javascript(before, offset);
    }
    let is_plain = |byte: u8| byte.is_ascii_digit() || b"-/:.+TZ".contains(&byte);
    if !text.bytes().all(is_plain) {
        return None;
    }
    match text.split_once('T') {
        Some(("", time)) => time_alone(time),
        // Hours, minutes and seconds of one digit.
        Some((date, time)) => begins_with_digits(date, 4).then(|| format!("{date} {time}")),
        None => year_alone(text),
    }
}

/// `Sat Jan 31 2026 12:00:00 GMT+0100`, `12:00:00 GMT+0100`: the text of a date in JavaScript.
fn of_javascript(before: &str, offset: &str) -> Option<String> {
    let local = before.strip_suffix(' ')?;
    let is_time = |time: &str| {
        let sections: Vec<&str> = time.split(':').collect();
        sections.len() == 3 && sections.iter().all(|section| is_digits(section, 2))
    };
    let (date, time) = local.rsplit_once(' ').unwrap_or(("", local));
    let sections: Vec<&str> = date.split(' ').collect();
    let is_date = match sections.as_slice() {
        [""] => true,
        [weekday, month, day, year] => {
            weekday.len() == 3 && month.len() == 3 && is_digits(day, 2) && is_digits(year, 4)
        }
        _ => false,
    };
    (is_date && is_time(time) && is_offset(offset)).then(|| format!("{local} {offset}"))
}

/// `T14`, `T14:30`, `T14:30:05.123Z`, behind the `T`.
fn time_alone(time: &str) -> Option<String> {
    let (hour, rest) = time.split_at_checked(2)?;
    if !is_digits(hour, 2) {
        return None;
    }
    if rest.starts_with(':') {
        return Some(time.to_owned());
    }
    is_offset(rest).then(|| format!("{hour}:00 {rest}"))
}

/// `2026`, `2026Z`.
fn year_alone(text: &str) -> Option<String> {
    let (year, offset) = text.split_at_checked(4)?;
    (is_digits(year, 4) && is_offset(offset)).then(|| format!("{year}-01-01 {offset}"))
}

/// Nothing, `Z`, `+0200` or `+02:00`.
fn is_offset(text: &str) -> bool {
    let Some(digits) = text.strip_prefix(['+', '-']) else {
        return text.is_empty() || text == "Z";
    };
    match digits.split_once(':') {
        Some((hours, minutes)) => (is_digits(hours, 1) || is_digits(hours, 2)) && is_digits(minutes, 2),
        None => is_digits(digits, 4),
    }
}

fn is_digits(text: &str, count: usize) -> bool {
    text.len() == count && begins_with_digits(text, count)
}

fn begins_with_digits(text: &str, count: usize) -> bool {
    text.bytes().take_while(u8::is_ascii_digit).count() >= count
}
