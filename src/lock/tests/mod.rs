//! One suite for every provider, and what only one of them can show.

mod conformance;
mod crowd;
#[cfg(feature = "cli")]
mod full;
mod providers;
mod session;
mod turns;
mod waiting;
mod world;
