//! The store against a real server; each race with two open sessions.

mod claims;
mod definitions;
mod keys;
mod partitions;
mod plans;
