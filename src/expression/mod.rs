//! Expressions: the languages of an activity's inputs.
//!
//! # Layout
//! - [`javascript`]: [`ScriptEngine`], a [`ScriptSession`] per burst, its input ([`ScriptScope`]) and its result
//!   ([`ScriptResult`]).
//! - `type_name`, `coerce`, `time_span`: Elsa's type names, and the conversion of values to them.

mod coerce;
pub mod javascript;
mod time_span;
mod type_name;

pub use coerce::{TypeMismatch, coerce, to_text};
pub use javascript::{
    ScriptEngine, ScriptError, ScriptErrorKind, ScriptOptions, ScriptResult, ScriptScope, ScriptSession, WorkflowFacts,
};
pub use time_span::TimeSpan;
pub use type_name::TypeName;
