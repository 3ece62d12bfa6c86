//! Intervals in real time.

use std::fmt;

use crate::expression::TimeSpan;
use crate::{Error, Result};

const SECOND: i64 = 1_000_000;
/// A millisecond: below it the rounding of the database's microseconds would matter.
const MIN_LENGTH: i64 = SECOND / 1_000;
/// A hundred years.
const MAX_LENGTH: i64 = 36_525 * 86_400 * SECOND;

/// A length of time between two occurrences: 1 ms to 100 years, in microseconds, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval(i64);

impl Interval {
    /// Reads Elsa's `TimeSpan`: `[d.]hh:mm:ss[.fffffff]`, or an ISO 8601 duration as `PT1H`.
    /// Errors: `invalid-interval`: no length of time, zero or below, or out of bounds.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let quoted = super::parse::quoted(text);
        let wrong = |what: &str| {
            Err(Error::invalid(
                "invalid-interval",
                format!("the interval {quoted} {what}"),
            ))
        };
        let Some(span) = TimeSpan::parse(text) else {
            return wrong("is not a length of time; write it as \"00:01:00\"");
        };
        let micros = span
            .to_duration()
            .and_then(|length| i64::try_from(length.as_micros()).ok());
        match micros {
            None | Some(0) if span <= TimeSpan::default() => wrong("is not above zero"),
            Some(micros) if micros < MIN_LENGTH => wrong("is shorter than a millisecond"),
            Some(micros) if micros <= MAX_LENGTH => Ok(Self(micros)),
            _ => wrong("is longer than 100 years (36525 days)"),
        }
    }

    /// In microseconds.
    pub(crate) fn as_micros(self) -> i64 {
        self.0
    }

    /// Whether there is more than one occurrence in a second.
    pub(crate) fn is_below_a_second(self) -> bool {
        self.0 < SECOND
    }

    /// The first of `base + interval`, `base + 2 * interval`, … (and `base` itself `with_base`) that is later than
    /// `after`; all in microseconds. None beyond the range of the numbers.
    pub(super) fn next(self, base: i64, with_base: bool, after: i64) -> Option<i64> {
        let first = i64::from(!with_base);
        let passed = after.checked_sub(base)?.div_euclid(self.0);
        let count = passed.checked_add(1)?.max(first);
        base.checked_add(count.checked_mul(self.0)?)
    }
}

/// In .NET's format.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / SECOND, self.0 % SECOND);
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
        if micros > 0 {
            write!(f, ".{micros:06}0")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_read_and_written() {
        for (text, micros, written) in [
            ("00:01:00", 60 * SECOND, "00:01:00"),
            ("PT1H", 3600 * SECOND, "01:00:00"),
            ("1.00:00:00", 86_400 * SECOND, "1.00:00:00"),
            ("00:00:00.2500000", SECOND / 4, "00:00:00.2500000"),
            ("36525", MAX_LENGTH, "36525.00:00:00"),
        ] {
            let interval = Interval::parse(text).unwrap();
            assert_eq!(interval.as_micros(), micros, "{text}");
            assert_eq!(interval.to_string(), written);
            assert_eq!(Interval::parse(written).unwrap(), interval);
        }
        for (text, hint) in [
            ("00:00:00", "above zero"),
            ("-00:01:00", "above zero"),
            ("00:00:00.0000001", "millisecond"),
            ("36525.00:00:01", "100 years"),
            ("soon", "length of time"),
            ("", "length of time"),
        ] {
            let error = Interval::parse(text).unwrap_err();
            assert_eq!(error.code(), "invalid-interval");
            assert!(error.message().contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn occurrences_are_multiples_of_the_interval() {
        let minute = Interval::parse("00:01:00").unwrap();
        let next = |with_base, after| minute.next(1_000, with_base, after).unwrap();
        assert_eq!(next(false, 0), 60_001_000);
        assert_eq!(next(false, 1_000), 60_001_000);
        assert_eq!(next(false, 60_000_999), 60_001_000);
        assert_eq!(next(false, 60_001_000), 120_001_000);
        assert_eq!(next(true, 999), 1_000);
        assert_eq!(next(true, -100_000_000), 1_000);
        assert_eq!(next(true, 1_000), 60_001_000);
        assert_eq!(minute.next(0, true, i64::MAX), None);
        assert_eq!(minute.next(i64::MAX, true, i64::MIN), None);
    }
}
