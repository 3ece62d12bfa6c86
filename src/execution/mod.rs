//! The interpreter: runs an instance until it waits or ends.
//!
//! It is a function from state and instructions to state and effects. It knows no database, no network and no clock (it
//! only measures how long a burst takes, and bounds each call of an activity), and between the results of activities it
//! is deterministic: the same burst on the same state gives the same executions under the same ids. That is what allows
//! the engine to discard a burst and run it again.
//!
//! # Layout
//! - `interpreter`: the public interface; `burst_contract`: input and result of a burst; `bounds`: its limits.
//! - `composition`: the workflows that a definition uses as activities; `program`: a compiled definition with them;
//!   `bindings`: inputs and outputs of its activities; `start_input`: the values of a start; `node_id`: the ids of its
//!   activities, also in JSON; `id_bounds`: how long they may be; `drawable`: what a designer can draw;
//!   `designer_form`: the JSON that it draws; `drawn_connections`: the connections in that JSON; `outcomes`: where
//!   connections can begin; `workflow_options`: its options for commits and journal; `incident_strategy`: what ends
//!   after a fault; `validate`: the errors that keep a definition from being published; `endpoint_routes`: the routes of
//!   its endpoints.
//! - `state`: what is kept of an instance between bursts; `status`, `bookmark`, `incident`: parts of it; `request`: the
//!   clients that wait for it; `workflow_state`: how Elsa's
//!   API shows it; `scope`: its variables; `variables`: those of the workflow, between bursts; `transfer`: states from files.
//! - `cause`: what sets executions off, from which idempotency keys and the ids of executed children are derived;
//!   `child`: instances that a burst starts, and what the parent of an instance receives.
//! - `activity_test`: runs one activity alone; `evaluation`: evaluates one expression alone.
//! - `script_names`: the names that the scripts of a definition can use, for an editor.
//! - `run`: a burst in progress; `evaluate`: the inputs and children of its activities; `execution_view`: what their
//!   scripts see; `scripts`: those that are compiled with a program; `journal`: its journal and executions;
//!   `log_persistence`: which of their values are recorded; `concealed`: the credentials among them.

mod activity_test;
mod bindings;
mod bookmark;
mod bounds;
mod burst_contract;
mod cause;
mod child;
mod composition;
mod concealed;
mod designer_form;
mod drawable;
mod drawn_connections;
mod endpoint_routes;
mod evaluate;
mod evaluation;
mod execution_view;
mod id_bounds;
mod incident;
mod incident_strategy;
mod interpreter;
mod journal;
mod log_persistence;
mod node_id;
mod outcomes;
mod program;
mod request;
mod run;
mod scope;
mod script_names;
mod scripts;
mod start_input;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod transfer;
mod validate;
mod variables;
mod workflow_options;
mod workflow_state;

pub use activity_test::ActivityHandle;
pub(crate) use activity_test::test_values;
pub(crate) use bookmark::Bookmark;
pub use bookmark::{event_hash, stimulus_hash};
pub use bounds::InterpreterOptions;
pub(crate) use bounds::check_value;
pub(crate) use burst_contract::MadeLink;
pub use burst_contract::{Burst, BurstResult, Instruction};
pub(crate) use cause::InstructionOrigin;
pub(crate) use child::{AwaitedChild, ChildRun, ChildStart, Children, CommittedChild, ParentLink};
pub use composition::{Composition, References, UsedVersion, WorkflowReference};
pub(crate) use composition::{Targets, UsingActivity};
pub(crate) use drawable::WorkflowType;
pub use evaluation::{EvaluatedExpression, ExpressionChanges, ExpressionError, ExpressionRequest};
pub(crate) use incident::Incident;
pub(crate) use incident_strategy::INCIDENT_STRATEGIES;
pub use interpreter::Interpreter;
pub(crate) use interpreter::ScheduledTrigger;
pub use program::Program;
pub use request::RunRequest;
pub(crate) use request::{EndedRequest, RequestEnd};
pub use run::ActivityRetry;
pub(crate) use start_input::StartValues;
pub use state::InstanceState;
pub(crate) use status::Status;
pub use status::SubStatus;
pub(crate) use variables::{VariableProblem, WorkflowVariable};
pub(crate) use workflow_options::{ACTIVITY_COMMIT_STRATEGIES, NamedStrategy, WORKFLOW_COMMIT_STRATEGIES};
pub(crate) use workflow_state::InstanceTimestamps;
