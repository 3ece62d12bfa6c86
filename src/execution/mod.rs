//! The interpreter: runs an instance until nothing is left to do but wait.
//!
//! It is a function from state and instructions to state and effects. It knows no database, no network and no clock
//! (of time it only measures how long a burst takes, and bounds each call of an activity), and between the results of activities it is deterministic: the
//! same burst on the same state gives the same executions under the same ids. That is what lets the rest of the house
//! throw a burst away and run it again.
//!
//! # Layout
//! - `interpreter`: the public face; `burst`: what goes in and comes out; `options`: bounds.
//! - `program`: a definition made ready; `validate`: what keeps one from being published.
//! - `state`, `workflow_state`: what is kept of an instance, and how Elsa's API shows it; `scope`: its variables.
//! - `instruct`, `run`, `commands`, `transitions`: a burst in progress; `evaluate`: its expressions; `record`: its journal.
//! - `stimulus`: hashes; `value`: what may enter state; `time_limit`: how long a call may take.

mod burst;
mod commands;
mod commit_strategy;
mod evaluate;
mod instruct;
mod interpreter;
mod journal_level;
mod misspelt;
mod options;
mod program;
mod record;
mod run;
mod scope;
mod shape;
mod state;
mod status;
mod stimulus;
#[cfg(test)]
mod tests;
mod time_limit;
mod transitions;
mod validate;
mod value;
mod workflow_state;

pub use burst::{ActivityExecution, Bookmark, Burst, BurstResult, Instruction, JournalEntry};
pub use interpreter::{Interpreter, ScheduledTrigger, WorkflowTriggers};
pub use options::InterpreterOptions;
pub use program::Program;
pub use state::{Incident, InstanceState};
pub use status::{Status, SubStatus};
pub use stimulus::{event_hash, stimulus_hash};
pub use value::check_value;
pub use workflow_state::InstanceTimestamps;
