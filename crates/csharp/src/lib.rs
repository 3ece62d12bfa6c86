#![doc = include_str!("../README.md")]
//!
//! # Layout
//! - `problem`: problems and stops, with their places; `types`, `value`: the types that are known before, and the values.
//! - `syntax/`: tokens, lexer and tree; `parse/`: the parser, and what is refused with a remedy; `check/`: the checker.
//! - `run/`: the evaluator; `library/`: the members of .NET's types; `convert`: values and JSON, casts.
//! - `object`, `pattern`, `search`, `set`: the values of classes, regular expressions and their search, and sets.
//! - `date_time`, `text`, `format/`: .NET's dates, strings and format strings.
//! - `script`: [`Script`].

mod check;
mod convert;
mod date_time;
mod format;
mod library;
mod object;
mod parse;
mod pattern;
mod problem;
mod run;
mod script;
mod search;
mod set;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod types;
mod value;

pub use check::Names;
pub use mainspring_language::{Steps, Stopped};
pub use problem::{Position, Problem, Stop, StopKind};
pub use run::{Bounds, Outcome, World};
pub use script::Script;
pub use types::DeclaredType;

use text::check_format as format_check;
