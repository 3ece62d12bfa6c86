//! Expressions: the languages of an activity's inputs.
//!
//! # Layout
//! - `language`: the trait that each language implements; `languages`: those of this build, and the types of expressions.
//! - `javascript`, `liquid`, `csharp`: one folder for each. Liquid and C# themselves are the crates `mainspring-liquid`
//!   and `mainspring-csharp`; both depend on `mainspring-language`.
//! - `script`: the input, the result and the errors of a script; `script_options`: its limits; `script_view`: what it
//!   sees of its run.
//! - `session`: [`ScriptEngine`], and a [`ScriptSession`] per burst.
//! - `processor`: long scripts of all languages, and their turns.
//! - `named_values`: settings and secrets of the operator; `resume_links`: the links that resume an instance.
//! - `type_name`, `coerce`: Elsa's type names, and the conversion of values to them; `declared_kinds`: the texts that are dates,
//!   lengths of time or bytes to a script.

mod coerce;
#[cfg(feature = "csharp")]
mod csharp;
mod declared_kinds;
mod javascript;
mod language;
#[cfg(test)]
mod language_tables;
mod languages;
#[cfg(feature = "liquid")]
mod liquid;
mod named_values;
mod processor;
mod resume_links;
mod script;
mod script_options;
mod script_view;
mod session;
mod type_name;

pub(crate) use coerce::{coerce, to_text};
pub(crate) use declared_kinds::DeclaredKind;
pub use declared_kinds::DeclaredKinds;
#[cfg(test)]
pub(crate) use javascript::search_script;
pub(crate) use language::{Compiler, DeclaredNames, KnownNames, Language, ScriptNames, ScriptRun, UnknownName};
pub(crate) use languages::{
    LANGUAGES, expression_types, is_runnable, language, language_of_activity, language_requirement,
    language_requirements, missing_language, runnable_types, script_activities, script_languages,
};
pub(crate) use mainspring_language::TimeSpan;
pub use named_values::NamedValues;
pub(crate) use named_values::{NO_SECRETS, secret_name_problem};
pub(crate) use resume_links::{
    CallLinks, DEFAULT_LIFETIME, LONGEST_LIFETIME, LeadsTo, LinkExpiry, LinkMaker, LinkOwner, LinkRequest, MOST_LINKS,
    MOST_USES, WantedLink,
};
pub use resume_links::{LinkSource, ResumeLinks};
pub(crate) use script::{CompiledScript, Evaluated, ScriptChanges, ScriptError, ScriptErrorKind, ScriptText};
pub use script::{ScriptScope, WorkflowFacts};
pub use script_options::ScriptOptions;
pub(crate) use script_view::{ScriptView, input_named};
pub use session::ScriptEngine;
pub(crate) use session::ScriptSession;
pub(crate) use type_name::{TypeName, allows_null, is_assignable};
