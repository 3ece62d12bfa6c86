//! The Elsa 3 JSON model of a workflow: what users send, keep in version control and get back.
//!
//! Three promises hold here and nowhere else needs to repeat them:
//!
//! - **Nothing is lost.** Properties that this crate does not know are kept and written back, because Elsa Studio
//!   and its extensions hang their own data on definitions.
//! - **Nothing is too deep.** A definition nests at most [`MAX_DEPTH`] levels of JSON, so that every walk over it may
//!   recurse without a thought for the stack.
//! - **Nothing is unstorable.** U+0000 is legal in JSON and refused by the database; it is refused at the door.
//!
//! The module knows no activity types: which properties are inputs, ports or children is the catalogue's knowledge.

mod activity;
mod connection;
mod input;
mod model;
mod publication;
mod text;
mod variable;

pub use activity::RawActivity;
pub use connection::{Connection, Endpoint};
pub use input::{Expression, InputBinding};
pub use model::WorkflowDefinition;
pub(crate) use publication::unknown_strategy;
pub use publication::{Trigger, ValidationError};
pub use text::MAX_DEPTH;
pub(crate) use text::{TextProblem, inspect};
pub use variable::{Argument, Variable};
