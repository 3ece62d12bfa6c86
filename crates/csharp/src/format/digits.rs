//! The digits of a number, and how they are rounded.

use crate::value::Value;

/// The decimal digits of a number, as formats use them: `0.digits × 10^point`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digits {
    pub(super) is_negative: bool,
    pub(super) digits: Vec<u8>,
    /// How many of them are before the point; may be negative.
    pub(super) point: i32,
    /// A double that is rounded to zero keeps its sign.
    pub(super) keeps_sign: bool,
}

impl Digits {
    /// Rounds to a number of places after the point, half away from zero.
    pub(super) fn round(&mut self, places: i32) {
        let keep = self.point.saturating_add(places);
        let keep_count = usize::try_from(keep.max(0)).unwrap_or(0);
        if keep < 0 {
            self.digits.clear();
        } else if keep_count < self.digits.len() {
            let up = self.digits.get(keep_count).is_some_and(|digit| *digit >= 5);
            self.digits.truncate(keep_count);
            if up {
                self.carry();
            }
        }
        if self.digits.iter().all(|digit| *digit == 0) {
            self.digits.clear();
            self.is_negative &= self.keeps_sign;
        }
    }

    fn carry(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
        self.point += 1;
    }

    /// The digit of a power of ten.
    pub(super) fn at(&self, power: i32) -> u8 {
        let place = self.point - 1 - power;
        usize::try_from(place)
            .ok()
            .and_then(|place| self.digits.get(place).copied())
            .unwrap_or(0)
    }

    pub(super) fn whole(&self) -> String {
        if self.point <= 0 {
            return "0".to_owned();
        }
        let text: String = (0..self.point)
            .rev()
            .map(|power| char::from(b'0' + self.at(power)))
            .collect();
        let trimmed = text.trim_start_matches('0');
        if trimmed.is_empty() {
            "0".to_owned()
        } else {
            trimmed.to_owned()
        }
    }

    pub(super) fn places(&self, count: usize) -> String {
        let count = i32::try_from(count).unwrap_or(0);
        (1..=count).map(|place| char::from(b'0' + self.at(-place))).collect()
    }
}

/// To what a double is rounded before its digits are shown: .NET rounds its exact value, half to even.
#[derive(Clone, Copy, Debug)]
pub(super) enum Precision {
    /// Places after the point.
    Places(usize),
    /// Digits from the first one that is not zero.
    Significant(usize),
}

/// The digits of a number; `None` if it is not a finite number.
pub(super) fn digits_of(value: &Value, precision: Precision) -> Option<Digits> {
    let text = match (value, precision) {
        (Value::Double(number), _) if !number.is_finite() => return None,
        (Value::Double(number), Precision::Places(places)) => format!("{number:.places$}"),
        (Value::Double(number), Precision::Significant(count)) => {
            let places = count.saturating_sub(1);
            format!("{number:.places$e}")
        }
        (Value::Decimal(number), _) => {
            let (digits, scale) = number.parts();
            let text = digits.to_string();
            let point = i32::try_from(text.len()).unwrap_or(0) - i32::try_from(scale).unwrap_or(0);
            return Some(Digits {
                is_negative: number.is_negative(),
                digits: text.bytes().map(|byte| byte - b'0').collect(),
                point: if digits == 0 { 1 } else { point },
                keeps_sign: false,
            });
        }
        (other, _) => other.as_i64()?.to_string(),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, places) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let point = i32::try_from(whole.len()).ok()? + exponent.parse::<i32>().ok()?;
    let digits = whole
        .bytes()
        .chain(places.bytes())
        .map(|byte| byte.wrapping_sub(b'0'))
        .collect();
    Some(Digits {
        is_negative,
        digits,
        point,
        keeps_sign: matches!(value, Value::Double(_)),
    })
}

/// Commas between thousands.
pub(super) fn group(whole: &str) -> String {
    let count = whole.len();
    let mut grouped = String::with_capacity(count + count / 3);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (count - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub(super) fn is_zero(digits: &Digits) -> bool {
    digits.digits.iter().all(|digit| *digit == 0)
}
