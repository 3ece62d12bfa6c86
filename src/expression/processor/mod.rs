//! Which long script runs, of whatever language, and for how long.
//!
//! # Layout
//! - `turns`: the turns of the threads with long scripts; `fair_queue`: their order.
//! - `pace`: the turns of one script, and its time limit.
//! - `thread_priority`: the priority of a thread that cannot be interrupted.
//! - `yield_interval`: how often a thread gives its processor to another one within its turn.

mod fair_queue;
mod pace;
mod thread_priority;
mod turns;
mod yield_interval;

pub(super) use fair_queue::{FairQueue, QueuePermits};
pub(crate) use pace::Pace;
pub(super) use thread_priority::ThreadPriority;
pub(super) use turns::{SLICE, Turn};
pub(crate) use turns::{TurnLanguage, Turns};
pub(super) use yield_interval::YieldInterval;
