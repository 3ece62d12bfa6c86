//! .NET's `TimeSpan` in its text forms, and ISO 8601 durations.

use std::fmt;
use std::time::Duration;

const TICKS_PER_SECOND: i64 = 10_000_000;

/// A length of time in .NET's ticks of 100 ns; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(i64);

impl TimeSpan {
    /// Reads `[-][d.]hh:mm[:ss[.fffffff]]`, a bare number of days (all as .NET does), or an ISO 8601 duration such as
    /// `P1DT2H3M4.5S` (weeks too; years and months have no fixed length and are refused).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let ticks = match digits.strip_prefix('P') {
            Some(rest) => parse_iso(rest)?,
            None => parse_dotnet(digits)?,
        };
        Some(Self(if negative { -ticks } else { ticks }))
    }

    /// Its ticks of 100 ns.
    pub fn ticks(self) -> i64 {
        self.0
    }

    /// The same as a duration; nothing for a negative one.
    pub fn to_duration(self) -> Option<Duration> {
        let ticks = u64::try_from(self.0).ok()?;
        let second = TICKS_PER_SECOND.unsigned_abs();
        let nanos = u32::try_from(ticks % second * 100).ok()?;
        Some(Duration::new(ticks / second, nanos))
    }
}

/// .NET's constant form: `[-][d.]hh:mm:ss[.fffffff]`.
impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = TICKS_PER_SECOND.unsigned_abs();
        let ticks = self.0.unsigned_abs();
        let (seconds, fraction) = (ticks / second, ticks % second);
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if seconds >= 86_400 {
            write!(f, "{}.", seconds / 86_400)?;
        }
        write!(
            f,
            "{:02}:{:02}:{:02}",
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60
        )?;
        if fraction > 0 {
            write!(f, ".{fraction:07}")?;
        }
        Ok(())
    }
}

fn number(text: &str) -> Option<i64> {
    let is_plain = !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

fn fraction_ticks(text: &str) -> Option<i64> {
    let is_plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain {
        return None;
    }
    format!("{text:0<9}").parse::<i64>().ok().map(|nanos| nanos / 100)
}

fn sum(days: i64, hours: i64, minutes: i64, seconds: i64, ticks: i64) -> Option<i64> {
    days.checked_mul(24)?
        .checked_add(hours)?
        .checked_mul(60)?
        .checked_add(minutes)?
        .checked_mul(60)?
        .checked_add(seconds)?
        .checked_mul(TICKS_PER_SECOND)?
        .checked_add(ticks)
}

fn parse_dotnet(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (first, minutes, seconds) = (parts.next()?, parts.next(), parts.next());
    if parts.next().is_some() {
        return None;
    }
    let Some(minutes) = minutes else {
        return sum(number(first)?, 0, 0, 0, 0);
    };
    let (days, hours) = match first.split_once('.') {
        Some((days, hours)) => (number(days)?, number(hours)?),
        None => (0, number(first)?),
    };
    let (seconds, fraction) = match seconds.map(|seconds| seconds.split_once('.').unwrap_or((seconds, "0"))) {
        Some((seconds, fraction)) => (number(seconds)?, fraction_ticks(fraction)?),
        None => (0, 0),
    };
    let minutes = number(minutes)?;
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    sum(days, hours, minutes, seconds, fraction)
}

fn parse_iso(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let mut days = 0i64;
    for (amount, unit) in units(date)? {
        let factor = match unit {
            'W' => 7,
            'D' => 1,
            _ => return None,
        };
        days = days.checked_add(number(amount)?.checked_mul(factor)?)?;
    }
    let (mut seconds, mut ticks) = (0i64, 0i64);
    for (amount, unit) in units(time)? {
        let factor = match unit {
            'H' => 3600,
            'M' => 60,
            'S' => 1,
            _ => return None,
        };
        let (whole, fraction) = amount.split_once(['.', ',']).unwrap_or((amount, ""));
        seconds = seconds.checked_add(number(whole)?.checked_mul(factor)?)?;
        if !fraction.is_empty() {
            ticks = ticks.checked_add(fraction_ticks(fraction)?.checked_mul(factor)?)?;
        }
    }
    sum(days, 0, 0, seconds, ticks)
}

fn units(mut text: &str) -> Option<Vec<(&str, char)>> {
    let mut found = Vec::new();
    while !text.is_empty() {
        let at = text.find(|c: char| c.is_ascii_alphabetic())?;
        let (amount, rest) = text.split_at_checked(at)?;
        let unit = rest.chars().next()?;
        found.push((amount, unit));
        text = rest.get(unit.len_utf8()..)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_forms_of_dotnet() {
        for (text, written) in [
            ("00:00:05", "00:00:05"),
            ("1.02:03:04.5", "1.02:03:04.5000000"),
            ("00:05", "00:05:00"),
            ("2", "2.00:00:00"),
            ("-00:00:01", "-00:00:01"),
            ("PT5S", "00:00:05"),
            ("P1DT2H3M4.5S", "1.02:03:04.5000000"),
            ("P2W", "14.00:00:00"),
        ] {
            assert_eq!(TimeSpan::parse(text).unwrap().to_string(), written, "{text}");
        }
    }

    #[test]
    fn refuses_other_text() {
        for text in [
            "",
            "P",
            "5 s",
            "25:00:00",
            "00:61:00",
            "1:2:3:4",
            "P1Y",
            "99999999999999",
            "00:00:0é",
        ] {
            assert_eq!(TimeSpan::parse(text), None, "{text}");
        }
    }
}
