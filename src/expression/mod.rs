//! Expressions: the languages of an activity's inputs.
//!
//! # Layout
//! - `script`: what goes into a script, and comes out, with its limits and errors; `named_values`: settings and secrets of the
//!   operator; `event_urls`: the URLs that trigger an event of an instance.
//! - `javascript`: [`ScriptEngine`], and a [`ScriptSession`] per burst.
//! - `liquid`: templates, rendered by a `TemplateEngine`. The language itself is the crate `mainspring-liquid`, as C# is
//!   `mainspring-csharp`; both stand on `mainspring-language`.
//! - `expression_type`: the types that can be evaluated.
//! - `processor`: the turns of long scripts, which all languages share.
//! - `type_name`, `coerce`: Elsa's type names, and the conversion of values to them.

mod coerce;
mod event_urls;
mod expression_type;
mod javascript;
#[cfg(feature = "liquid")]
mod liquid;
mod named_values;
mod processor;
mod script;
mod session;
mod type_name;

pub(crate) use coerce::{coerce, to_text};
pub(crate) use event_urls::EventUrl;
pub use event_urls::EventUrls;
pub(crate) use expression_type::{expression_types, is_runnable, missing_language, runnable_types};
pub(crate) use javascript::ScriptNames;
#[cfg(test)]
pub(crate) use javascript::search_script;
#[cfg(feature = "liquid")]
pub(crate) use liquid::{RenderError, TEMPLATES, TemplateEngine};
pub(crate) use mainspring_language::TimeSpan;
pub(crate) use named_values::NO_SECRETS;
pub use named_values::NamedValues;
pub(crate) use processor::{Pace, RunningScript};
pub(crate) use script::{ScriptErrorKind, too_long_script};
pub use script::{ScriptOptions, ScriptScope, WorkflowFacts};
pub use session::ScriptEngine;
pub(crate) use session::ScriptSession;
pub(crate) use type_name::{TypeName, allows_null, is_assignable};
