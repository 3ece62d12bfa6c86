//! A clustered workflow engine whose only infrastructure is one PostgreSQL database.
#![forbid(unsafe_code)]

mod cluster;
mod db;
pub mod error;
mod failpoint;
pub mod id;

mod lock;
mod store;

pub use error::{Error, Result};
pub use store::Violation;
