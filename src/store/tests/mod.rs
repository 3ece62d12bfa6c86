//! The store against a real server; each race with two open sessions.

mod blame;
mod claims;
mod definitions;
mod jobs;
mod keys;
mod partitions;
mod plans;
