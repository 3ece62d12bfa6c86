//! One suite for every provider, and what only one of them can show.

mod conformance;
mod providers;
mod session;
mod waiting;
