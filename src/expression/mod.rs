//! Expressions: what an activity's input may be written in.
//!
//! # Layout
//! - [`script`]: JavaScript as the rest of the crate sees it: [`ScriptEngine`], a [`ScriptSession`] per burst, what
//!   goes in ([`ScriptScope`]) and what comes out ([`ScriptResult`]).
//! - `pool`: the bounded threads on which scripts run; `worker`: one of them; `fair_queue`: what waits for them;
//!   `slow`: where scripts go that take long; `pacer`: what a running script asks whether it may go on; `breaker`: what
//!   holds back versions whose scripts keep timing out; `ticket`: what all of these share of one evaluation.
//! - `realm`: one JavaScript heap with Elsa's functions, its limits, and how it is entered and left.
//! - `accessor`: which of Elsa's generated functions a script wants.
//! - `convert`: values between JSON and JavaScript.
//! - `type_name`, `coerce`, `time_span`: Elsa's type names, and conversion of values to them.

mod accessor;
mod breaker;
mod coerce;
mod convert;
mod fair_queue;
mod pacer;
mod pool;
mod realm;
pub mod script;
mod slow;
mod ticket;
mod time_span;
mod type_name;
mod worker;

pub use coerce::{TypeMismatch, coerce, to_text};
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod pressure;
#[cfg(test)]
mod tests;

pub use script::{
    ScriptEngine, ScriptError, ScriptErrorKind, ScriptOptions, ScriptResult, ScriptScope, ScriptSession, WorkflowFacts,
};
pub use time_span::TimeSpan;
pub use type_name::TypeName;
