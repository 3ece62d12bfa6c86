//! C#: the part of the language that people write in a line, with .NET's meaning.
//!
//! A script is parsed and checked once, when its definition is published or loaded, and then walked. These hold for each:
//!
//! - **It is checked.** Unknown names, members, types and overloads, wrong numbers of arguments, constants that overflow and all
//!   that is outside of the subset are problems with line and column, and with what to write instead.
//! - **It ends.** Steps, bytes and time are counted; recursion is as deep as the tree, whose depth the parser bounds.
//! - **It is isolated.** It reaches its [`World`] and the members in `library/table.rs`, nothing else: no reflection, no files,
//!   no network, no other types.
//! - **It has no effects of its own.** Writes are collected and returned; a script that fails has none.
//!
//! Where it differs from .NET: `object`, `dynamic` and JSON objects are one type, whose members are found when the script runs; a
//! sequence of LINQ is made at once; the culture is the invariant one, the time zone UTC; `string.Compare` and the order of strings
//! put letters without regard to case and then lower case first, `==` compares exactly.
//!
//! # Layout
//! - `problem`: problems and stops, with their places; `types`, `value`: the types that are known before, and the values.
//! - `syntax/`: tokens, lexer and tree; `parse/`: the parser, and what is refused with a remedy; `check/`: the checker.
//! - `run/`: the evaluator; `library/`: the members of .NET's types; `convert`: values and JSON, casts.
//! - `date_time`, `text`, `format/`: .NET's dates, strings and format strings.
//! - `script`: [`CSharpScript`].

mod check;
mod convert;
mod date_time;
mod format;
mod library;
mod parse;
mod problem;
mod run;
mod script;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod types;
mod value;

pub(crate) use check::{CSharpNames, declared_type};
pub(crate) use problem::{Problem, Stop, StopKind};
pub(crate) use run::{Bounds, CSharpResult, World};
pub(crate) use script::CSharpScript;
pub(crate) use types::Ty;

use text::check_format as format_check;
