//! One field of a cron expression: which values it allows.

use super::parse::quoted;

/// A field: its name, and the values that it may have.
#[derive(Debug)]
pub(super) struct CronField {
    pub(super) name: &'static str,
    low: u32,
    high: u32,
    /// How many values there are before they wrap around: weekdays have seven, though eight numbers.
    modulus: u32,
    names: &'static [&'static str],
    /// What is allowed, for messages.
    allowed: &'static str,
}

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(super) const SECOND: CronField = CronField {
    name: "second",
    low: 0,
    high: 59,
    modulus: 60,
    names: &[],
    allowed: "0-59 and * , - / ?",
};
pub(super) const MINUTE: CronField = CronField {
    name: "minute",
    ..SECOND
};
pub(super) const HOUR: CronField = CronField {
    name: "hour",
    high: 23,
    modulus: 24,
    allowed: "0-23 and * , - / ?",
    ..SECOND
};
pub(super) const DAY: CronField = CronField {
    name: "day of month",
    low: 1,
    high: 31,
    modulus: 31,
    names: &[],
    allowed: "1-31 and * , - / ?, L (last day), L-3 (three days before), 15W (nearest weekday to the 15th), LW",
};
pub(super) const MONTH: CronField = CronField {
    name: "month",
    low: 1,
    high: 12,
    modulus: 12,
    names: &MONTHS,
    allowed: "1-12 or JAN-DEC and * , - / ?",
};
pub(super) const WEEKDAY: CronField = CronField {
    name: "day of week",
    low: 0,
    high: 7,
    modulus: 7,
    names: &WEEKDAYS,
    allowed: "0-7 (0 and 7 are Sunday) or SUN-SAT and * , - / ?, 5L (last Friday), MON#2 (second Monday)",
};

/// The values of a field, and whether it makes the expression interval-like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueSet {
    pub(super) bits: u64,
    pub(super) has_steps: bool,
}

/// Which days of a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonthDays {
    /// Bits 1 to 31.
    Set(u32),
    /// The weekday nearest to this day, in the same month.
    NearestWeekday(u32),
    /// The day this many days before the last one, or the weekday nearest to it.
    Last { before: u32, weekday: bool },
}

/// Which days of a week, 0 being Sunday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weekdays {
    /// Bits 0 to 6.
    Set(u32),
    /// The last one of the month.
    Last(u32),
    /// The first to fifth one of the month.
    Nth(u32, u32),
}

/// The error of a field, without its name.
pub(super) type ParseError = String;

impl CronField {
    /// An error with the name of the field and what is allowed.
    pub(super) fn describe_error(&self, error: &str) -> String {
        format!("field {:?}: {error}; allowed are {}", self.name, self.allowed)
    }

    /// `*`, `*/5`, or a list of values, ranges and steps.
    pub(super) fn set(&self, text: &str) -> Result<ValueSet, ParseError> {
        if let Some(rest) = text.strip_prefix(['*', '?']) {
            let step = match rest.strip_prefix('/') {
                Some(step) => self.step(step)?,
                None if rest.is_empty() => 1,
                None => {
                    return Err(format!(
                        "{} follows {}, after which only a step is allowed",
                        quoted(rest),
                        if text.starts_with('*') { '*' } else { '?' }
                    ));
                }
            };
            let bits = self.range(self.low, self.high, step);
            return Ok(ValueSet { bits, has_steps: true });
        }
        let mut all = ValueSet {
            bits: 0,
            has_steps: false,
        };
        for item in text.split(',') {
            let item = self.item(item)?;
            all.bits |= item.bits;
            all.has_steps |= item.has_steps;
        }
        Ok(all)
    }

    fn item(&self, text: &str) -> Result<ValueSet, ParseError> {
        if text.is_empty() {
            return Err("a value is missing beside a comma".to_owned());
        }
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (text, None),
        };
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (self.value(low)?, Some(self.value(high)?)),
            None => (self.value(range)?, None),
        };
        let (high, has_steps) = match (high, step) {
            (Some(high), _) => (high, true),
            (None, Some(_)) => (self.high, true),
            (None, None) => (low, false),
        };
        let bits = self.range(low, high, step.unwrap_or(1));
        Ok(ValueSet { bits, has_steps })
    }

    /// From `low` in steps up to `high`; wraps around after the largest value if `high` is smaller.
    fn range(&self, low: u32, high: u32, step: u32) -> u64 {
        // In a range that wraps around, Sunday is 0: 7-2 is 0-2.
        let low = if high < low && low == self.modulus && self.low == 0 {
            0
        } else {
            low
        };
        let length = if high < low {
            high + self.modulus - low
        } else {
            high - low
        };
        (0..=length)
            .step_by(step as usize)
            .map(|distance| low + distance)
            .map(|value| {
                let wraps = high < low && value >= self.low + self.modulus;
                if wraps { value - self.modulus } else { value }
            })
            .fold(0, |bits, value| bits | 1 << value)
    }

    fn step(&self, text: &str) -> Result<u32, ParseError> {
        let step = number(text).filter(|step| (1..=self.high).contains(step));
        step.ok_or_else(|| format!("{} is not a step from 1 to {}", quoted(text), self.high))
    }

    fn value(&self, text: &str) -> Result<u32, ParseError> {
        let named = || {
            let at = self.names.iter().position(|name| name.eq_ignore_ascii_case(text))?;
            Some(u32::try_from(at).ok()? + self.low)
        };
        let value = number(text).filter(|value| (self.low..=self.high).contains(value));
        value.or_else(named).ok_or_else(|| {
            if text.eq_ignore_ascii_case("H") {
                return "H (a value that the parser chooses) is not supported, use jitterSeconds".to_owned();
            }
            let or_name = match (self.names.first(), self.names.last()) {
                (Some(first), Some(last)) => format!(", nor a name from {first} to {last}"),
                _ => String::new(),
            };
            format!(
                "{} is not a number from {} to {}{or_name}",
                quoted(text),
                self.low,
                self.high
            )
        })
    }
}

/// The field of the days of a month.
pub(super) fn days(text: &str) -> Result<MonthDays, ParseError> {
    let upper = text.to_ascii_uppercase();
    if let Some(rest) = upper.strip_prefix('L') {
        let (rest, weekday) = rest.strip_suffix('W').map_or((rest, false), |rest| (rest, true));
        let before = match rest.strip_prefix('-') {
            Some(before) => number(before)
                .filter(|before| *before < DAY.high)
                .ok_or_else(|| format!("{} after L- is not a number from 0 to 30", quoted(before)))?,
            None if rest.is_empty() => 0,
            None => {
                return Err(format!(
                    "{} follows L, after which only W, or - and a number, is allowed",
                    quoted(rest)
                ));
            }
        };
        return Ok(MonthDays::Last { before, weekday });
    }
    if let Some(day) = upper.strip_suffix('W') {
        let day = DAY.value(day);
        return day
            .map(MonthDays::NearestWeekday)
            .map_err(|error| format!("{error}, and W requires a single day"));
    }
    let set = DAY.set(text)?;
    // Bits 1 to 31.
    Ok(MonthDays::Set(u32::try_from(set.bits).unwrap_or(u32::MAX)))
}

/// The field of the days of a week.
pub(super) fn weekdays(text: &str) -> Result<Weekdays, ParseError> {
    if let Some((day, nth)) = text.split_once('#') {
        let day = WEEKDAY.value(day)? % 7;
        let nth_number = number(nth).filter(|nth| (1..=5).contains(nth));
        let nth = nth_number.ok_or_else(|| format!("{} after # is not a number from 1 to 5", quoted(nth)))?;
        return Ok(Weekdays::Nth(day, nth));
    }
    if let Some(day) = text.strip_suffix(['L', 'l']) {
        if day.is_empty() {
            return Err("L alone is allowed only in the day of month; here it must follow a day".to_owned());
        }
        return Ok(Weekdays::Last(WEEKDAY.value(day)? % 7));
    }
    let bits = WEEKDAY.set(text)?.bits;
    let sunday = bits >> 7 & 1;
    Ok(Weekdays::Set(u32::try_from((bits | sunday) & 0x7f).unwrap_or(0x7f)))
}

/// One or two digits.
fn number(text: &str) -> Option<u32> {
    let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
