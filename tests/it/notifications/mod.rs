//! Promise 6. Signals are hints.

mod due;
mod wake;
