#![doc = include_str!("../README.md")]

mod collation;
mod date_text;
mod date_words;
mod decimal;
mod double_text;
mod merge_sort;
mod pattern;
mod pattern_size;
mod shortened;
mod steps;
mod time_span;
mod type_name;

pub use collation::{Collation, CollationOptions, Sensitivity};
pub use date_text::{ReadDate, parse_date_text};
pub use decimal::{Decimal, Rounding};
pub use double_text::double_text;
pub use merge_sort::merge_sort;
pub use pattern::{PatternProblem, TranslatedPattern};
pub use pattern_size::PatternSize;
pub use shortened::shortened;
pub use steps::{Steps, Stopped};
pub use time_span::TimeSpan;
pub use type_name::short_type_name;
