//! Who belongs to the cluster, and how the others know.
//!
//! # Invariants
//!
//! - A process has a node id, and per registration an incarnation that is never used twice. Whatever ends a
//!   registration (its session lost, its row deleted, the server crashed) ends all work of that incarnation; the process
//!   registers anew under the next.
//! - The liveness lock is taken before the node row is inserted: whoever sees the row and gets the lock knows that the
//!   process is gone.
//! - Check-ins run on a thread, a runtime and a connection of their own, so that busy workers are not declared dead.
//! - At start nobody resets anybody else's claims: a process departs the older incarnations of its own node id, if
//!   their liveness lock is free.

mod membership;
mod pulse;
mod sweep;
#[cfg(test)]
mod tests;

pub(crate) use membership::{Membership, MembershipOptions};
pub(crate) use pulse::Report;
