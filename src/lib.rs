//! A clustered workflow engine whose only infrastructure is one PostgreSQL database.
#![forbid(unsafe_code)]

pub mod activity;
#[cfg(feature = "http")]
pub mod api;
#[cfg(feature = "http")]
mod auth;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod cluster;
mod compute;
mod db;
pub mod definition;
pub mod error;
#[cfg_attr(not(feature = "cli"), allow(unreachable_pub, dead_code))]
mod execution;
#[cfg_attr(not(feature = "cli"), allow(unreachable_pub, dead_code))]
mod expression;
mod failpoint;
#[cfg(feature = "cli")]
mod harness;
#[cfg(feature = "http")]
mod http;
pub mod id;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod internals;
pub mod lock;
mod private_file;
pub mod runtime;
pub mod schedule;
pub mod signal;
mod store;
#[cfg(test)]
mod testing;
pub mod wake;
mod weight;

pub use error::{Error, Result};
pub use runtime::{Engine, EngineBuilder, check, migrate};
pub use store::Violation;
