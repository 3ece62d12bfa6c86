//! Polls for work, claims it, runs it and commits it.
//!
//! # Layout
//!
//! - `poll`: finds work that is due, with `backlog` for where the next poll goes on.
//! - `steps`: one consuming type for each step of a burst, from the lock to the commit.
//! - `execute`: drives the steps of one burst and completes it.
//! - `instruction`, `effects`: rows as the interpreter's instructions, and its outcome as rows.
//! - `unsupported`: the versions that this node leaves to other nodes.
//! - `activity_faults`: logs and counts activities that failed.
//! - `vacuum`: vacuums the tables that all work passes through.

pub(crate) mod activity_faults;
pub(crate) mod backlog;
pub(crate) mod effects;
pub(crate) mod execute;
pub(crate) mod instruction;
pub(crate) mod poll;
pub(crate) mod steps;
pub(crate) mod unsupported;
pub(crate) mod vacuum;
