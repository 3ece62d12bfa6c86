//! Word that something cached may be stale.
//!
//! # Invariants
//!
//! - A signal is a hint. What makes a cache right is the revision, which counts in the transaction that changes
//!   something, and which every check-in brings: a lost signal costs at most one check-in of staleness.
//! - Whoever may have missed a signal (a new connection, a reader too slow for its queue) hears [`Heard::Unsure`], and
//!   keeps nothing.
//! - A member hears its own signals, too.
//!
//! One file per provider: `postgres`, `local`. A provider passes `conformance`, unchanged.

#[cfg(test)]
mod conformance;
mod heard;
mod local;
mod postgres;
#[cfg(test)]
mod tests;

pub use heard::{Change, Heard, Signals};
pub use local::LocalSignal;
pub use postgres::PostgresSignal;

/// Carries word of changes between the nodes of a cluster.
pub trait CacheSignal: Send + Sync {
    /// Tells all members, soon. Call it once the change is committed. Never waits, and may be called anywhere.
    fn announce(&self, change: Change);

    /// Whether the engine's own commits tell all members, so that it need not announce them.
    fn rides_in_commit(&self) -> bool {
        false
    }

    /// Hears what is announced from now on. Begin with an empty cache after this was called.
    fn listen(&self) -> Signals;
}
