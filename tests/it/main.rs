//! One binary of integration tests: a folder per promise of docs/architecture.md, and those beside them.
// A test that cannot continue panics, also in what it shares with others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod adapters;
mod api;
mod bench;
mod capacity;
mod catalogue;
mod clock;
mod composition;
mod deployment;
mod differences;
mod docs;
mod doctor;
mod durability;
mod failover;
mod fencing;
mod guide;
mod http;
mod input;
mod library;
mod mail;
mod metrics;
mod notifications;
mod program;
mod structure;
mod studio;
mod support;
mod timers;
mod validate;
mod webhooks;
