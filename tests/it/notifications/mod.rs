//! Promise 6. Signals are hints.

mod due;
mod full_queue;
#[cfg(feature = "redis")]
mod redis_signal;
mod wake;
