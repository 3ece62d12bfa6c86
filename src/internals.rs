//! What the benchmarks, experiments and tests of this repository use beside the public interface. It is not part of that
//! interface.
//!
//! It has the interpreter and its scripts; with the feature `bench`, also the tools of `mainspring bench`, for the package
//! `benches/experiments`.

#[cfg(feature = "bench")]
pub use crate::bench::finished_counter::finished_instances;
#[cfg(feature = "bench")]
pub use crate::bench::measured_workflow::{FirstActivity, WorkflowOptions, measured_workflow, name_of};
#[cfg(feature = "bench")]
pub use crate::bench::nodes::{count_violations, node_options, with_nodes, with_schema};
#[cfg(feature = "bench")]
pub use crate::bench::report::{Latencies, Measured, add_fields, describe_environment, nearest_rank};
pub use crate::execution::{
    Burst, BurstResult, Composition, InstanceState, Instruction, Interpreter, Program, References, RunRequest,
    SubStatus, UsedVersion, WorkflowReference, event_hash, stimulus_hash,
};
pub use crate::expression::{ScriptEngine, ScriptScope};
pub use crate::harness::client::{Client, PersistentConnection, text_field};
pub use crate::harness::failure::Failure;
pub use crate::harness::nodes::{ANY_PORT, LineHandler, Node, NodeOptions, Output, log_only};
pub use crate::harness::print_line;
pub use crate::harness::scratch::ScratchDatabase;
pub use crate::harness::settings::{Target, count, few, many};
pub use crate::harness::stop::{Shutdown, on_signals, unless_stopped};

/// The statement that finds due work.
#[cfg(feature = "bench")]
pub fn poll_statement() -> &'static str {
    crate::store::claim::POLL
}

/// The statement that claims the work of instances.
#[cfg(feature = "bench")]
pub fn claim_statement() -> &'static str {
    &crate::store::claim::TOGETHER
}
