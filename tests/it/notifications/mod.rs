//! Promise 6. Signals are hints.

mod due;
#[cfg(feature = "redis")]
mod redis_signal;
mod wake;
