//! The digits of a decimal, and the text of an exponent.

use mainspring_language::Decimal;

/// `E+003`: with at least so many digits, and a plus if it is wanted.
pub(super) fn exponent(exponent: i64, letter: char, width: usize, has_plus: bool) -> String {
    let sign = match exponent {
        ..0 => "-",
        _ if has_plus => "+",
        _ => "",
    };
    format!("{letter}{sign}{:0>width$}", exponent.unsigned_abs())
}

/// A number by its digits, without zeros before them.
#[derive(Clone, Debug)]
pub(super) struct Digits {
    pub(super) digits: Vec<u8>,
    /// How many digits are before the point; less than 0 for zeros behind it.
    pub(super) point: i64,
    pub(super) is_negative: bool,
}

impl Digits {
    pub(super) fn of(value: Decimal) -> Self {
        let (mantissa, scale) = value.parts();
        let digits = if mantissa == 0 {
            Vec::new()
        } else {
            mantissa.to_string().into_bytes()
        };
        let count = i64::try_from(digits.len()).unwrap_or(0);
        Self {
            point: if mantissa == 0 { 0 } else { count - i64::from(scale) },
            digits,
            is_negative: value.is_negative(),
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The exponent of the first digit.
    pub(super) fn exponent(&self) -> i64 {
        if self.is_zero() { 0 } else { self.point - 1 }
    }

    pub(super) fn shown(&self) -> String {
        self.digits.iter().map(|digit| char::from(*digit)).collect()
    }

    /// Keeps so many digits, and none of the zeros at the end. Half goes away from zero, and zero has no sign.
    pub(super) fn round(&mut self, count: i64) {
        let kept = usize::try_from(count).unwrap_or(0);
        let goes_up = count >= 0 && self.digits.get(kept).is_some_and(|digit| *digit >= b'5');
        self.digits.truncate(kept);
        if goes_up {
            while self.digits.pop_if(|digit| *digit == b'9').is_some() {}
            match self.digits.last_mut() {
                Some(digit) => *digit += 1,
                None => {
                    self.digits.push(b'1');
                    self.point += 1;
                }
            }
        }
        while self.digits.pop_if(|digit| *digit == b'0').is_some() {}
        if self.is_zero() {
            self.point = 0;
            self.is_negative = false;
        }
    }
}
