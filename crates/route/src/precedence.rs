//! Which of two templates that match a path is the one that is meant.

use std::fmt;

use crate::segment::Segment;

/// Bits of a digit.
const WIDTH: u32 = 4;

/// The place of the first digit.
const FIRST: u32 = u128::BITS - WIDTH;

/// The inbound precedence of ASP.NET Core: a digit for each segment, and of two templates the smaller one goes before.
///
/// | digit | segment |
/// |---|---|
/// | 1 | literal |
/// | 2 | parameter with a constraint; segment of several parts |
/// | 3 | parameter |
/// | 4 | catch-all with a constraint |
/// | 5 | catch-all |
///
/// A template is smaller than one that goes on: `a` before `a/{b?}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Precedence(u128);

impl Precedence {
    pub(crate) fn of(segments: &[Segment]) -> Self {
        let places = (0..=FIRST).rev().step_by(WIDTH as usize);
        let digits = segments.iter().zip(places);
        Self(digits.fold(0, |all, (segment, place)| all | (u128::from(segment.digit()) << place)))
    }

    /// The digits, from the left.
    fn digits(self) -> impl Iterator<Item = u8> {
        let places = (0..=FIRST).rev().step_by(WIDTH as usize);
        let digits = places.map(move |place| u8::try_from((self.0 >> place) & 0xf).unwrap_or_default());
        digits.take_while(|digit| *digit != 0)
    }
}

impl fmt::Display for Precedence {
    /// As ASP.NET Core writes it: `1.13`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = self.digits();
        write!(f, "{}", digits.next().unwrap_or_default())?;
        for (at, digit) in digits.enumerate() {
            let point = if at == 0 { "." } else { "" };
            write!(f, "{point}{digit}")?;
        }
        Ok(())
    }
}
