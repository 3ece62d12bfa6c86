//! The Elsa 3 JSON model of a workflow definition.
//!
//! It guarantees three invariants, on which other modules rely:
//!
//! - **Nothing is lost.** Properties that this crate does not know are kept and written back, because Elsa Studio
//!   and its extensions add their own data to definitions. What Studio cannot hold comes back inside what it can:
//!   `placeholder`, `kept` and `client_losses` make that form, and `restore` reverses it.
//! - **Nothing is too deep.** A definition nests at most [`MAX_DEPTH`] levels of JSON, so every walk over it may recurse
//!   without exhausting the stack.
//! - **Everything can be stored.** U+0000 is valid in JSON, but the database cannot store it, so it is rejected here.
//!
//! The module knows no activity types: the catalogue decides which properties are inputs, ports or children.

mod activity_title;
#[cfg(feature = "http")]
mod client_losses;
mod client_model;
mod connection;
pub(crate) mod elsa2;
mod input;
mod json_limits;
mod kept;
mod model;
mod output;
mod placeholder;
mod publication;
mod raw_activity;
mod restore;
mod variable;

pub(crate) use activity_title::ActivityTitle;
#[cfg(feature = "http")]
pub(crate) use client_losses::keep;
pub use connection::{Connection, ConnectionEnd};
pub use input::{Expression, InputBinding};
pub use json_limits::MAX_DEPTH;
pub(crate) use json_limits::{JsonLimitError, check_json};
pub(crate) use kept::{CONNECTIONS, KEPT, Kept};
pub use model::WorkflowDefinition;
pub use output::{ConverterReference, OutputBinding};
pub(crate) use placeholder::{PLACEHOLDER, placeholder, readable_custom_properties, readable_metadata};
#[cfg(feature = "http")]
pub(crate) use publication::with_id;
pub(crate) use publication::{Problems, unknown_strategy};
pub use publication::{Trigger, ValidationError};
pub use raw_activity::RawActivity;
pub use variable::{Argument, Variable};
