//! The scheduler against a real database, without an engine.

mod firing;
mod policies;
mod timers;
