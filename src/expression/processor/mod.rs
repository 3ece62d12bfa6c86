//! Which long script runs, of whatever language, and for how long.
//!
//! # Layout
//! - `long_scripts`: the long scripts of an engine, and the threads of those that count steps; `script_breaker`: versions whose
//!   scripts keep timing out; `script_owner`: whose script it is.
//! - `turns`: the turns of the threads with long scripts; `fair_queue`: their order.
//! - `pace`: the turns of one script, and its time limit.
//! - `thread_priority`: the priority of a thread that cannot be interrupted.
//! - `yield_interval`: how often a thread gives its processor to another one within its turn.

mod fair_queue;
mod long_scripts;
mod pace;
mod script_breaker;
mod script_owner;
mod thread_priority;
mod turns;
mod yield_interval;

pub(super) use fair_queue::{FairQueue, QueuePermits};
#[cfg(feature = "csharp")]
pub(super) use long_scripts::on_stack_of;
pub(super) use long_scripts::{LongScripts, RunningScript, SLOT_TIMEOUT};
pub(super) use script_owner::ScriptOwner;
pub(super) use thread_priority::ThreadPriority;
pub(super) use turns::{SLICE, Turn, Turns};
pub(super) use yield_interval::YieldInterval;
