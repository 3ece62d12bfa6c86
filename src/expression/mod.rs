//! Expressions: what an activity's input may be written in.
//!
//! # Layout
//! - [`script`]: JavaScript as the rest of the crate sees it: [`ScriptEngine`], a [`ScriptSession`] per burst, what
//!   goes in ([`ScriptScope`]) and what comes out ([`ScriptResult`]).
//! - `pool`: the bounded threads on which scripts run.
//! - `realm`: one JavaScript heap with Elsa's functions, its limits, and how it is entered and left.
//! - `accessor`: which of Elsa's generated functions a script wants.
//! - `convert`: values between JSON and JavaScript.

mod accessor;
mod convert;
mod pool;
mod realm;
pub mod script;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

pub use script::{
    ScriptEngine, ScriptError, ScriptErrorKind, ScriptOptions, ScriptResult, ScriptScope, ScriptSession, WorkflowFacts,
};
