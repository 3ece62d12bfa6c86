//! A clustered workflow engine whose only infrastructure is one PostgreSQL database.
#![forbid(unsafe_code)]

pub mod activity;
pub mod definition;
pub mod error;
pub mod execution;
pub mod expression;
mod failpoint;
pub mod id;

pub use error::{Error, Result};
