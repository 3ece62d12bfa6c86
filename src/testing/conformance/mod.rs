//! What each pluggable service must do, whatever its provider: the suites that the providers of this crate pass.
//!
//! A provider in another crate calls the `conforms` of its kind in a test, with a function that creates members of a new
//! cluster. A suite panics with what is wrong. `examples/providers.rs` is such a crate.
//!
//! # Layout
//!
//! `lock`, `signal` and `wake`: one suite each.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a suite of tests fails by a panic"
)]

pub mod lock;
pub mod signal;
pub mod wake;
