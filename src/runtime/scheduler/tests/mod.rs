//! What runs against a real database, below the engine.

mod firing;
mod policies;
mod timers;
