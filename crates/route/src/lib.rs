#![doc = include_str!("../README.md")]
//!
//! # Layout
//! - `template`: [`Template`] and its values; `error`: why a text is none; `precedence`: which template goes before another.
//! - `parse`, `parameter`: from text to segments; `segment`: what a segment matches.
//! - `constraint`: the constraints; `number`, `guid`, `pattern`: texts as .NET reads them; `case`: comparison without case.
//! - `overlap`: whether two templates match a path in common.
//! - `path`: [`RequestPath`]; `table`: [`RouteTable`]; `node`: its tree, and the search.

mod case;
mod constraint;
mod error;
mod guid;
mod node;
mod number;
mod overlap;
mod parameter;
mod parse;
mod path;
mod pattern;
mod precedence;
mod segment;
mod table;
mod template;
#[cfg(test)]
mod tests;

pub use error::TemplateError;
pub use path::{LONGEST_PATH, PathError, RequestPath};
pub use precedence::Precedence;
pub use table::{Lookup, MethodError, Methods, Route, RouteId, RouteTable};
pub use template::{RouteValues, Template};
