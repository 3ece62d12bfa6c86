//! Hints between nodes that work waits, so that nobody has to ask the database again and again.
//!
//! # Invariants
//!
//! - A hint is only a hint. One that is lost, doubled, late or made up costs a look at the database, or at most one
//!   check-in of waiting, never correctness: who hears one looks, and the database says what is so.
//! - Sending never waits and never fails. What cannot be sent is forgotten; what is too much to name becomes
//!   [`Hint::Look`].
//! - Nobody hears its own hints.
//! - Whoever may have missed something (a gap in a sender's numbers, a new connection, a reader too slow for its
//!   queue) hears `Look` instead.
//!
//! # Layout
//!
//! `hint`: what is said, `outbox`: what waits to be sent, `message`: how it is written down; one file per provider:
//! `postgres`, `local`. A provider passes `conformance`, unchanged.

#[cfg(test)]
mod conformance;
mod hint;
mod local;
mod message;
mod outbox;
mod postgres;
#[cfg(test)]
mod tests;

pub use hint::{Hint, Hints};
pub use local::LocalHub;
pub use postgres::PostgresWake;

/// Carries hints between the nodes of a cluster.
pub trait WakeTransport: Send + Sync {
    /// Tells the other nodes, soon. Never waits, and may be called anywhere.
    fn send(&self, hints: Vec<Hint>);

    /// Hears what others send from now on. Look once after this was called: what came before is not told.
    fn listen(&self) -> Hints;
}
