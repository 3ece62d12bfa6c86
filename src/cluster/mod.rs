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
//! - A process that dies is noticed by the neighbour who watches its liveness lock; one that hangs or is cut off, by
//!   everybody whose own check-ins come through, by the database's clock. Whoever notices takes over, and whoever finds
//!   a take-over half done finishes it: there is no leader.
//!
//! # Layout
//!
//! - `membership`: joins and leaves; `pulse`: the check-ins, and `verdict`: what they say about the others.
//! - `watch`, `expiry`: who notices that a node is gone; `take_over`: what is done then.
//! - `jobs`: what the cluster does once. `scheduler`: who fires schedules.

mod check_in;
pub(crate) mod election;
mod expiry;
mod failure_detector;
mod jobs;
mod liveness_watch;
mod membership;
mod take_over;
#[cfg(test)]
mod tests;

pub(crate) use check_in::CheckInReport;
pub(crate) use membership::{Membership, MembershipOptions};
