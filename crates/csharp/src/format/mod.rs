//! Values as text, by .NET's format strings and the invariant culture.

mod custom_number;
mod date;
mod digits;
mod number;
mod span;

pub(super) use date::{date, offset, parse_exact};
pub(super) use number::number;
pub(super) use span::span;

/// A format string that .NET refuses, too.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FormatError(pub(super) String);

impl FormatError {
    fn invalid(format: &str) -> Self {
        let shown: String = format.chars().take(40).collect();
        Self(format!("the format {shown:?} is invalid"))
    }
}

/// The longest format, and the most digits that a format asks for.
const LONGEST: usize = 200;
const MOST_DIGITS: usize = 99;
