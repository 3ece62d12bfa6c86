//! .NET's `decimal`: 96 bits and a scale of 0 to 28, rounded half to even where digits are lost.
//!
//! As in .NET the scale is part of the value that is shown (`1.10m + 2m` is `3.10`) and not of the one that is compared. The
//! arithmetic is that of [`rust_decimal`], whose model is .NET's, with three exceptions: .NET keeps the places of a zero,
//! drops zeros that a division has added, and reads text rounded half to even and a `double` with fifteen digits.

use std::cmp::Ordering;
use std::fmt;

use rust_decimal::RoundingStrategy;
use rust_decimal::prelude::ToPrimitive;

const MOST: u128 = (1 << 96) - 1;
const MOST_SCALE: u32 = 28;

/// A decimal number: its digits, its scale and its sign.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decimal(rust_decimal::Decimal);

/// What becomes of digits that are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest; of two to the even one.
    HalfEven,
    /// To the nearest; of two to the one that is farther from zero.
    HalfAway,
    /// Towards zero.
    Truncate,
    /// Down.
    Floor,
    /// Up.
    Ceiling,
}

impl Decimal {
    /// `0`.
    pub const ZERO: Self = Self(rust_decimal::Decimal::ZERO);

    /// `decimal.MaxValue`.
    pub const MAX: Self = Self(rust_decimal::Decimal::MAX);

    /// Cuts digits that do not fit, rounding half to even; `sticky` says whether digits other than zero were cut before.
    fn fit(mut digits: u128, mut scale: u32, mut sticky: bool, is_negative: bool) -> Option<Self> {
        let mut last = 0;
        while scale > MOST_SCALE || digits > MOST {
            sticky |= last != 0;
            last = digits % 10;
            digits /= 10;
            scale = scale.checked_sub(1)?;
        }
        let up = last > 5 || (last == 5 && (sticky || digits % 2 == 1));
        let kept = digits + u128::from(up);
        if kept > MOST {
            return Self::fit(kept, scale, false, is_negative);
        }
        let signed = i128::try_from(kept).ok()?;
        let signed = if is_negative { -signed } else { signed };
        rust_decimal::Decimal::try_from_i128_with_scale(signed, scale)
            .ok()
            .map(Self)
    }

    /// Whether it is zero, of whatever scale.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.0.is_sign_negative() && !self.0.is_zero()
    }

    /// How many digits are behind the point.
    pub fn scale(self) -> u32 {
        self.0.scale()
    }

    /// Without its sign.
    #[must_use]
    pub fn abs(self) -> Self {
        Self(self.0.abs())
    }

    /// Whether nothing but zeros is behind its point.
    pub fn is_whole(self) -> bool {
        self.0.is_integer()
    }

    /// With the other sign.
    #[must_use]
    pub fn negate(self) -> Self {
        Self(-self.0)
    }

    /// The sum. `None` if it does not fit.
    #[expect(
        clippy::should_implement_trait,
        reason = "the operator would have to panic beyond the range"
    )]
    pub fn add(self, other: Self) -> Option<Self> {
        let sum = self.0.checked_add(other.0)?;
        if !self.is_zero() && !other.is_zero() {
            return Some(Self(sum));
        }
        // Zero adds its places.
        Some(Self(sum).widened(self.scale().max(other.scale())))
    }

    /// The difference. `None` if it does not fit.
    pub fn subtract(self, other: Self) -> Option<Self> {
        self.add(other.negate())
    }

    /// The product. `None` if it does not fit.
    pub fn multiply(self, other: Self) -> Option<Self> {
        if self.is_zero() || other.is_zero() {
            return Some(Self::ZERO.widened(self.scale() + other.scale()));
        }
        self.0.checked_mul(other.0).map(Self)
    }

    /// The quotient. `None` if it does not fit, or the divisor is zero.
    pub fn divide(self, other: Self) -> Option<Self> {
        let quotient = Self(self.0.checked_div(other.0)?);
        let places = self.scale().saturating_sub(other.scale());
        if self.is_zero() {
            return Some(Self::ZERO.widened(places));
        }
        // Places that the division has added have no zeros at their end.
        Some(if quotient.scale() > places {
            quotient.without_zeros()
        } else {
            quotient
        })
    }

    /// With more places, if they fit.
    fn widened(mut self, places: u32) -> Self {
        if self.scale() < places {
            self.0.rescale(places.min(MOST_SCALE));
        }
        self
    }

    /// The remainder, with the sign of the dividend. `None` if it does not fit, or the divisor is zero.
    pub fn remainder(self, other: Self) -> Option<Self> {
        if self.is_zero() && !other.is_zero() {
            return Some(self);
        }
        let remainder = self.0.checked_rem(other.0).map(Self)?;
        // A zero has the places of the operands, as any other remainder has.
        Some(if remainder.is_zero() {
            remainder.widened(self.scale().max(other.scale()))
        } else {
            remainder
        })
    }

    /// Rounds to a number of places. `to` decides about what is cut.
    #[must_use]
    pub fn round(self, places: u32, to: Rounding) -> Self {
        let strategy = match to {
            Rounding::HalfEven => RoundingStrategy::MidpointNearestEven,
            Rounding::HalfAway => RoundingStrategy::MidpointAwayFromZero,
            Rounding::Truncate => RoundingStrategy::ToZero,
            Rounding::Floor => RoundingStrategy::ToNegativeInfinity,
            Rounding::Ceiling => RoundingStrategy::ToPositiveInfinity,
        };
        Self(self.0.round_dp_with_strategy(places, strategy))
    }

    /// A whole number.
    pub fn from_i64(value: i64) -> Self {
        Self(value.into())
    }

    /// As .NET converts a double: 15 significant digits. `None` if it does not fit, or is not a number.
    pub fn from_f64(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let parsed = Self::parse_exponent(&format!("{value:.14e}"))?;
        Some(parsed.without_zeros())
    }

    /// Digits after the point that are zero are dropped.
    #[must_use]
    pub fn without_zeros(self) -> Self {
        Self(self.0.normalize())
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The part before the point, if it fits.
    pub fn to_i64(self) -> Option<i64> {
        self.0.to_i64()
    }

    /// Reads digits with a point, and an exponent after `e`.
    pub fn parse_exponent(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let value = Self::parse(mantissa)?;
        let (mut digits, mut scale) = value.parts();
        if exponent < 0 {
            scale = scale.checked_add(exponent.unsigned_abs())?;
            if scale > 200 {
                return Some(Self::ZERO);
            }
        } else if digits == 0 {
            return Some(Self::ZERO);
        }
        for _ in 0..exponent {
            if scale > 0 {
                scale -= 1;
            } else {
                digits = digits.checked_mul(10).filter(|digits| *digits <= MOST)?;
            }
        }
        Self::fit(digits, scale, false, value.is_negative())
    }

    /// Reads `-12.50`; the places are kept.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, places) = rest.split_once('.').unwrap_or((rest, ""));
        let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + places.len() == 0 || !is_plain(whole) || !is_plain(places) {
            return None;
        }
        let with = |digits: u128, byte: u8| {
            let next = digits * 10 + u128::from(byte - b'0');
            (next <= MOST).then_some(next)
        };
        let (mut digits, mut scale) = (0, 0);
        for byte in whole.bytes() {
            digits = with(digits, byte)?;
        }
        let mut rest = places.bytes();
        // One digit more than is kept decides the rounding, and whether others are behind it.
        let mut cut = None;
        for byte in rest.by_ref() {
            match with(digits, byte).filter(|_| scale < MOST_SCALE) {
                Some(next) => (digits, scale) = (next, scale + 1),
                None => {
                    cut = Some(u128::from(byte - b'0'));
                    break;
                }
            }
        }
        let sticky = rest.any(|byte| byte != b'0');
        let up = cut.is_some_and(|cut| cut > 5 || (cut == 5 && (sticky || digits % 2 == 1)));
        Self::fit(digits + u128::from(up), scale, false, is_negative)
    }

    /// Its digits without the point, and how many of them are behind it.
    pub fn parts(self) -> (u128, u32) {
        (self.0.mantissa().unsigned_abs(), self.0.scale())
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self(value.into())
    }
}

impl From<u64> for Decimal {
    fn from(value: u64) -> Self {
        Self(value.into())
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
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
        self.0.cmp(&other.0)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            // Zero has no sign.
            return self.0.abs().fmt(f);
        }
        self.0.fmt(f)
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
        assert_eq!(d("1.0").remainder(d("1.0")).unwrap().to_string(), "0.0");
        assert_eq!(d("0.00").remainder(d("3")).unwrap().to_string(), "0.00");
        assert_eq!(d("1.5").remainder(d("2.000")).unwrap().to_string(), "1.5");
        assert_eq!(
            d("90009009").divide(d("-993")).unwrap().to_string(),
            "-90643.5135951661631419939577"
        );
        assert_eq!(d("0.00").divide(d("7")).unwrap().to_string(), "0.00");
        assert_eq!(d("0").multiply(d("1.00")).unwrap().to_string(), "0.00");
        assert_eq!(d("5").add(d("0.00")).unwrap().to_string(), "5.00");
        assert_eq!(d("0").subtract(d("0.0")).unwrap().to_string(), "0.0");
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
