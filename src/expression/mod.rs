//! Expressions: the languages of an activity's inputs.
//!
//! # Layout
//! - `javascript`: [`ScriptEngine`], a [`ScriptSession`] per burst, its input ([`ScriptScope`]) and its result
//!   (`ScriptResult`).
//! - `liquid`: templates, rendered by a `TemplateEngine`. The language itself is the crate `mainspring-liquid`, as C# is
//!   `mainspring-csharp`; both stand on `mainspring-language`.
//! - `expression_type`: the types that can be evaluated.
//! - `processor`: the turns of long scripts, which all languages share.
//! - `type_name`, `coerce`: Elsa's type names, and the conversion of values to them.

mod coerce;
mod expression_type;
mod javascript;
#[cfg(feature = "liquid")]
mod liquid;
mod processor;
mod type_name;

pub(crate) use coerce::{coerce, to_text};
pub(crate) use expression_type::{expression_types, is_runnable, missing_language, runnable_types};
pub(crate) use javascript::EventUrl;
pub(crate) use javascript::NO_SECRETS;
#[cfg(test)]
pub(crate) use javascript::search_script;
pub use javascript::{EventUrls, NamedValues, ScriptEngine, ScriptOptions, ScriptScope, WorkflowFacts};
pub(crate) use javascript::{LongScript, ScriptErrorKind, ScriptNames, ScriptSession, too_long_script};
#[cfg(feature = "liquid")]
pub(crate) use liquid::{RenderError, TEMPLATES, TemplateEngine};
pub(crate) use mainspring_language::TimeSpan;
pub(crate) use processor::{Pace, TurnLanguage};
pub(crate) use type_name::{TypeName, allows_null, is_assignable};
