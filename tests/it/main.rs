//! One binary of integration tests: a module per behaviour.
// A test that cannot go on panics, also in what it shares with others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod api;
mod cluster;
mod docs;
mod engine;
mod hostile;
mod house;
mod program;
mod programs;
mod support;
