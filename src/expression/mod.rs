//! Expressions: the languages of an activity's inputs.
//!
//! # Layout
//! - `javascript`: [`ScriptEngine`], a [`ScriptSession`] per burst, its input ([`ScriptScope`]) and its result
//!   (`ScriptResult`).
//! - `liquid`: templates, rendered by a `TemplateEngine`.
//! - `csharp`: [`CSharpScript`], what it sees ([`World`]) and its result.
//! - `decimal`: .NET's decimal numbers, of both.
//! - `expression_type`: the types that can be evaluated.
//! - `processor`: the turns of long scripts, which all languages share.
//! - `type_name`, `coerce`, `time_span`: Elsa's type names, and the conversion of values to them.

mod coerce;
mod csharp;
mod decimal;
mod expression_type;
mod javascript;
mod liquid;
mod processor;
mod time_span;
mod type_name;

pub(crate) use coerce::{coerce, to_text};
pub(crate) use csharp::{
    Bounds, CSharpNames, CSharpResult, CSharpScript, Problem, Stop, StopKind, Ty, World, declared_type,
};
pub(crate) use expression_type::{EXPRESSION_TYPES, is_runnable, runnable_types};
pub(crate) use javascript::EventUrl;
pub(crate) use javascript::NO_SECRETS;
#[cfg(test)]
pub(crate) use javascript::search_script;
pub use javascript::{EventUrls, NamedValues, ScriptEngine, ScriptOptions, ScriptScope, WorkflowFacts};
pub(crate) use javascript::{LongScript, ScriptErrorKind, ScriptNames, ScriptSession, too_long_script};
pub(crate) use liquid::{Fact, TEMPLATES, TemplateData, TemplateEngine, TemplateErrorKind};
pub(crate) use processor::{Pace, TurnLanguage};
pub(crate) use time_span::TimeSpan;
pub(crate) use type_name::{TypeName, allows_null, is_assignable, short_type_name};
