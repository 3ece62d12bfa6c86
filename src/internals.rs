//! The interpreter and its scripts, for the benchmarks and tests of this crate. Not a part of the public interface.

pub use crate::execution::{
    Burst, BurstResult, Composition, InstanceState, Instruction, Interpreter, Program, References, SubStatus,
    UsedVersion, WorkflowReference, event_hash, stimulus_hash,
};
pub use crate::expression::{ScriptEngine, ScriptScope};
