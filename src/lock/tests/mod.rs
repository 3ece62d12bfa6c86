//! One suite for every provider, and what is specific to one of them.

mod contention;
mod file;
mod handoff;
mod instructions;
mod loss;
mod postgres;
mod providers;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_cluster;
#[cfg(feature = "cli")]
mod server_limits;
mod session;
mod simulation;
