//! A clustered workflow engine whose only infrastructure is one PostgreSQL database.
#![forbid(unsafe_code)]

#[cfg(feature = "http")]
pub mod api;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod definition;
pub mod error;
pub mod expression;
mod failpoint;
pub mod id;
pub mod runtime;

pub use error::{Error, Result};
