//! .NET's `decimal`: 96 bits and a scale of 0 to 28, rounded half to even where digits are lost.
//!
//! A product or quotient is worked out exactly in 256 bits and then cut to 96. As in .NET the scale is part of the value
//! that is shown (`1.10m + 2m` is `3.10`) and not of the one that is compared.

use std::cmp::Ordering;
use std::fmt;

const MOST: u128 = (1 << 96) - 1;
const MOST_SCALE: u32 = 28;

/// A decimal number: its digits, its scale and its sign.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decimal {
    digits: u128,
    scale: u32,
    is_negative: bool,
}

/// 256 bits in four limbs, the lowest first.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wide([u64; 4]);

impl Wide {
    #[allow(clippy::cast_possible_truncation)]
    fn of(value: u128) -> Self {
        Self([value as u64, (value >> 64) as u64, 0, 0])
    }

    #[allow(clippy::cast_possible_truncation)]
    fn times(self, factor: u64) -> Self {
        let mut carry = 0u128;
        Self(self.0.map(|limb| {
            let product = u128::from(limb) * u128::from(factor) + carry;
            carry = product >> 64;
            product as u64
        }))
    }

    fn plus(self, other: Self) -> Self {
        let mut carry = false;
        let mut sum = [0; 4];
        for ((to, a), b) in sum.iter_mut().zip(self.0).zip(other.0) {
            let (partial, first) = a.overflowing_add(b);
            let (total, second) = partial.overflowing_add(u64::from(carry));
            *to = total;
            carry = first || second;
        }
        Self(sum)
    }

    /// The product of two numbers of 96 bits.
    #[allow(clippy::cast_possible_truncation)]
    fn product(a: u128, b: u128) -> Self {
        let high = Self::of(a).times((b >> 64) as u64);
        let [x, y, z, _] = high.0;
        Self::of(a).times(b as u64).plus(Self([0, x, y, z]))
    }

    /// Divides by a small number; returns the remainder, too.
    #[allow(clippy::cast_possible_truncation)]
    fn over(self, divisor: u64) -> (Self, u64) {
        let mut rest = 0u128;
        let mut quotient = [0; 4];
        for (to, limb) in quotient.iter_mut().rev().zip(self.0.into_iter().rev()) {
            let part = (rest << 64) | u128::from(limb);
            *to = (part / u128::from(divisor)) as u64;
            rest = part % u128::from(divisor);
        }
        (Self(quotient), rest as u64)
    }

    fn narrow(self) -> Option<u128> {
        let [a, b, c, d] = self.0;
        let value = u128::from(a) | (u128::from(b) << 64);
        (c == 0 && d == 0 && value <= MOST).then_some(value)
    }
}

fn power(of_ten: u32) -> u128 {
    10u128.pow(of_ten.min(38))
}

impl Decimal {
    pub(crate) const ZERO: Self = Self {
        digits: 0,
        scale: 0,
        is_negative: false,
    };

    /// `decimal.MaxValue`.
    pub(crate) const MAX: Self = Self {
        digits: MOST,
        scale: 0,
        is_negative: false,
    };

    /// Cuts digits that do not fit, rounding half to even.
    fn fit(mut digits: Wide, mut scale: u32, mut sticky: bool, is_negative: bool) -> Option<Self> {
        let mut last = 0;
        while scale > MOST_SCALE || digits.narrow().is_none() {
            let next = scale.checked_sub(1)?;
            sticky |= last != 0;
            (digits, last) = digits.over(10);
            scale = next;
        }
        let mut kept = digits.narrow()?;
        let up = last > 5 || (last == 5 && (sticky || kept % 2 == 1));
        kept += u128::from(up);
        if kept > MOST {
            return Self::fit(Wide::of(kept), scale, false, is_negative);
        }
        Some(Self {
            digits: kept,
            scale,
            is_negative: is_negative && kept != 0,
        })
    }

    fn at_scale(self, scale: u32) -> Wide {
        let mut wide = Wide::of(self.digits);
        for _ in self.scale..scale {
            wide = wide.times(10);
        }
        wide
    }

    pub(crate) fn is_zero(self) -> bool {
        self.digits == 0
    }

    pub(crate) fn is_negative(self) -> bool {
        self.is_negative && self.digits != 0
    }

    pub(crate) fn scale(self) -> u32 {
        self.scale
    }

    pub(crate) fn abs(self) -> Self {
        Self {
            is_negative: false,
            ..self
        }
    }

    /// Whether nothing but zeros is behind its point.
    pub(crate) fn is_whole(self) -> bool {
        self.digits.is_multiple_of(power(self.scale))
    }

    pub(crate) fn negate(self) -> Self {
        Self {
            is_negative: !self.is_negative && self.digits != 0,
            ..self
        }
    }

    pub(crate) fn add(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.at_scale(scale), other.at_scale(scale));
        if self.is_negative == other.is_negative {
            return Self::fit(a.plus(b), scale, false, self.is_negative);
        }
        let (large, small, is_negative) = match compare(a, b) {
            Ordering::Less => (b, a, other.is_negative),
            _ => (a, b, self.is_negative),
        };
        // Two's complement of the smaller one.
        let negated = Wide(small.0.map(|limb| !limb)).plus(Wide([1, 0, 0, 0]));
        Self::fit(large.plus(negated), scale, false, is_negative)
    }

    pub(crate) fn subtract(self, other: Self) -> Option<Self> {
        self.add(other.negate())
    }

    pub(crate) fn multiply(self, other: Self) -> Option<Self> {
        let product = Wide::product(self.digits, other.digits);
        let is_negative = self.is_negative != other.is_negative;
        let mut scale = self.scale + other.scale;
        let (mut digits, mut last, mut sticky) = (product, 0, false);
        // A product of many places may keep more of them than 28 before it is cut.
        while scale > MOST_SCALE {
            sticky |= last != 0;
            (digits, last) = digits.over(10);
            scale -= 1;
        }
        if digits.narrow().is_none() {
            return Self::fit(digits, scale, sticky || last != 0, is_negative);
        }
        let kept = digits.narrow()?;
        let up = last > 5 || (last == 5 && (sticky || kept % 2 == 1));
        Self::fit(Wide::of(kept + u128::from(up)), scale, false, is_negative)
    }

    /// None: it does not fit; the divisor is not zero.
    pub(crate) fn divide(self, other: Self) -> Option<Self> {
        if other.digits == 0 {
            return None;
        }
        let is_negative = self.is_negative != other.is_negative;
        let mut quotient = Wide::of(self.digits / other.digits);
        let mut rest = self.digits % other.digits;
        let mut scale = i64::from(self.scale) - i64::from(other.scale);
        while scale < 0 || (rest != 0 && scale <= i64::from(MOST_SCALE)) {
            let next = quotient.times(10);
            if rest != 0 && scale >= 0 && next.narrow().is_none() {
                break;
            }
            let (digit, left) = step(rest, other.digits);
            quotient = next.plus(Wide([digit, 0, 0, 0]));
            rest = left;
            scale += 1;
        }
        // One more digit than is kept decides the rounding.
        if rest != 0 && scale <= i64::from(MOST_SCALE) {
            let (digit, left) = step(rest, other.digits);
            quotient = quotient.times(10).plus(Wide([digit, 0, 0, 0]));
            rest = left;
            scale += 1;
        }
        Self::fit(quotient, u32::try_from(scale).ok()?, rest != 0, is_negative)
    }

    /// None: it does not fit, or the divisor is zero.
    pub(crate) fn remainder(self, other: Self) -> Option<Self> {
        if other.digits == 0 {
            return None;
        }
        let scale = self.scale.max(other.scale);
        let (mut rest, divisor) = (0u128, other.digits);
        // The digits of the dividend, the highest first, at the common scale.
        let shift = power(scale - other.scale);
        let divisor = divisor.checked_mul(shift)?;
        for digit in self.at_scale(scale).digits() {
            rest = (rest.checked_mul(10)? + u128::from(digit)) % divisor;
        }
        Self::fit(Wide::of(rest), scale, false, self.is_negative)
    }

    /// Rounds to a number of places. `to` decides about what is cut.
    pub(crate) fn round(self, places: u32, to: Rounding) -> Self {
        if self.scale <= places {
            return self;
        }
        let factor = power(self.scale - places);
        let (kept, cut) = (self.digits / factor, self.digits % factor);
        let half = factor / 2;
        let up = match to {
            Rounding::HalfEven => cut > half || (cut == half && kept % 2 == 1),
            Rounding::HalfAway => cut >= half,
            Rounding::Truncate => false,
            Rounding::Floor => cut != 0 && self.is_negative,
            Rounding::Ceiling => cut != 0 && !self.is_negative,
        };
        let digits = kept + u128::from(up);
        Self {
            digits,
            scale: places,
            is_negative: self.is_negative && digits != 0,
        }
    }

    pub(crate) fn from_i64(value: i64) -> Self {
        Self {
            digits: u128::from(value.unsigned_abs()),
            scale: 0,
            is_negative: value < 0,
        }
    }

    /// As .NET converts a double: 15 significant digits.
    pub(crate) fn from_f64(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let parsed = Self::parse_exponent(&format!("{value:.14e}"))?;
        Some(parsed.without_zeros())
    }

    /// Digits after the point that are zero are dropped.
    pub(crate) fn without_zeros(mut self) -> Self {
        while self.scale > 0 && self.digits.is_multiple_of(10) {
            self.digits /= 10;
            self.scale -= 1;
        }
        self
    }

    pub(crate) fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The part before the point, if it fits.
    pub(crate) fn to_i64(self) -> Option<i64> {
        let whole = i128::try_from(self.digits / power(self.scale)).ok()?;
        i64::try_from(if self.is_negative { -whole } else { whole }).ok()
    }

    /// Reads digits with a point, and an exponent after `e`.
    pub(crate) fn parse_exponent(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let mut value = Self::parse(mantissa)?;
        if exponent < 0 {
            let scale = value.scale.checked_add(exponent.unsigned_abs())?;
            if scale > 200 {
                return Some(Self::ZERO);
            }
            return Self::fit(Wide::of(value.digits), scale, false, value.is_negative);
        }
        if value.digits == 0 {
            return Some(Self::ZERO);
        }
        for _ in 0..exponent {
            if value.scale > 0 {
                value.scale -= 1;
            } else {
                value.digits = value.digits.checked_mul(10).filter(|digits| *digits <= MOST)?;
            }
        }
        Some(value)
    }

    /// Reads `-12.50`; the places are kept.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, places) = rest.split_once('.').unwrap_or((rest, ""));
        let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + places.len() == 0 || !is_plain(whole) || !is_plain(places) {
            return None;
        }
        let (mut digits, mut scale) = (Wide::of(0), 0);
        let mut cut = None;
        let mut sticky = false;
        for byte in whole.bytes() {
            digits = digits.times(10).plus(Wide::of(u128::from(byte - b'0')));
            digits.narrow()?;
        }
        for byte in places.bytes() {
            let digit = u128::from(byte - b'0');
            if cut.is_some() || scale == MOST_SCALE {
                sticky |= cut.is_some() && digit != 0;
                cut.get_or_insert(digit);
                continue;
            }
            let next = digits.times(10).plus(Wide::of(digit));
            if next.narrow().is_none() {
                cut = Some(digit);
                continue;
            }
            digits = next;
            scale += 1;
        }
        let kept = digits.narrow()?;
        let cut = cut.unwrap_or(0);
        let up = cut > 5 || (cut == 5 && (sticky || kept % 2 == 1));
        Self::fit(Wide::of(kept + u128::from(up)), scale, false, is_negative)
    }

    /// Its digits without the point, and how many of them are behind it.
    pub(crate) fn parts(self) -> (u128, u32) {
        (self.digits, self.scale)
    }
}

impl Wide {
    fn digits(self) -> Vec<u8> {
        let mut digits = Vec::new();
        let mut rest = self;
        while rest != Self([0; 4]) {
            let (next, digit) = rest.over(10);
            digits.push(u8::try_from(digit).unwrap_or(0));
            rest = next;
        }
        digits.reverse();
        digits
    }
}

/// One step of a long division: the rest is below the divisor, and both below 2^96.
fn step(rest: u128, divisor: u128) -> (u64, u128) {
    let rest = rest * 10;
    (u64::try_from(rest / divisor).unwrap_or(0), rest % divisor)
}

fn compare(a: Wide, b: Wide) -> Ordering {
    a.0.iter().rev().cmp(b.0.iter().rev())
}

/// What becomes of digits that are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    HalfEven,
    HalfAway,
    Truncate,
    Floor,
    Ceiling,
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self::from_i64(value)
    }
}

impl From<u64> for Decimal {
    fn from(value: u64) -> Self {
        Self {
            digits: value.into(),
            ..Self::ZERO
        }
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.at_scale(scale), other.at_scale(scale));
        match (self.is_negative(), other.is_negative()) {
            (false, false) => compare(a, b),
            (true, true) => compare(b, a),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_negative() {
            f.write_str("-")?;
        }
        let factor = power(self.scale);
        write!(f, "{}", self.digits / factor)?;
        if self.scale > 0 {
            let width = usize::try_from(self.scale).unwrap_or(0);
            write!(f, ".{:0width$}", self.digits % factor)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn the_scale_is_that_of_dotnet() {
        assert_eq!(d("1.10").add(d("2")).unwrap().to_string(), "3.10");
        assert_eq!(d("1.10").multiply(d("2.0")).unwrap().to_string(), "2.200");
        assert_eq!(
            d("1").divide(d("3")).unwrap().to_string(),
            "0.3333333333333333333333333333"
        );
        assert_eq!(
            d("2").divide(d("3")).unwrap().to_string(),
            "0.6666666666666666666666666667"
        );
        assert_eq!(d("10").divide(d("4")).unwrap().to_string(), "2.5");
        assert_eq!(
            d("200").divide(d("3")).unwrap().to_string(),
            "66.666666666666666666666666667"
        );
        assert_eq!(d("7").remainder(d("2.5")).unwrap().to_string(), "2.0");
        assert_eq!(d("-7").remainder(d("3")).unwrap().to_string(), "-1");
        assert_eq!(d("0.1").subtract(d("0.3")).unwrap().to_string(), "-0.2");
    }

    #[test]
    fn what_does_not_fit_is_cut_half_to_even_or_refused() {
        assert!(Decimal::MAX.add(d("1")).is_none());
        assert_eq!(Decimal::MAX.to_string(), "79228162514264337593543950335");
        assert!(Decimal::parse("79228162514264337593543950336").is_none());
        assert!(Decimal::MAX.multiply(d("2")).is_none());
        assert_eq!(d("2.5").round(0, Rounding::HalfEven).to_string(), "2");
        assert_eq!(d("2.5").round(0, Rounding::HalfAway).to_string(), "3");
        assert_eq!(Decimal::from_f64(0.1 + 0.2).unwrap().to_string(), "0.3");
        assert_eq!(Decimal::from_f64(1e10).unwrap().to_string(), "10000000000");
        assert_eq!(Decimal::MAX.divide(d("0.1")), None);
        assert_eq!(d("1.0"), d("1.00"));
    }
}
