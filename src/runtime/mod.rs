//! STUB of the runtime: the contract's signatures, so that the doors compile. Thrown away at the merge.

mod engine;
mod request;

pub use crate::definition::ValidationError;
pub use engine::{Engine, EngineBuilder, check, migrate};
pub use request::*;
