//! Expressions: the languages of an activity's inputs.
//!
//! # Layout
//! - `javascript`: [`ScriptEngine`], a [`ScriptSession`] per burst, its input ([`ScriptScope`]) and its result
//!   (`ScriptResult`).
//! - `type_name`, `coerce`, `time_span`: Elsa's type names, and the conversion of values to them.

mod coerce;
mod javascript;
mod time_span;
mod type_name;

pub(crate) use coerce::{coerce, to_text};
pub use javascript::{ScriptEngine, ScriptOptions, ScriptScope};
pub(crate) use javascript::{ScriptErrorKind, ScriptSession, WorkflowFacts};
pub(crate) use time_span::TimeSpan;
pub(crate) use type_name::TypeName;
