//! Membership of the cluster, failure detection and take-over.
//!
//! # Invariants
//!
//! - A process has a node id, and for each registration an incarnation that is never used twice. The end of a
//!   registration (its session lost, its row deleted, the server crashed) ends all work of that incarnation; the process
//!   registers again under the next one.
//! - The liveness lock is taken before the node row is inserted. So a session that sees the row and gets the lock knows
//!   that the process has ended.
//! - Check-ins have their own thread, runtime and connection, so that a busy node does not expire. They stop once the
//!   watchdog finds the node hung.
//! - A starting process releases no claims of other nodes: it removes the older incarnations of its own node id, once
//!   their liveness lock is free.
//! - The end of a process is noticed by the neighbour that watches its liveness lock. A node that hangs or is cut off
//!   expires by the database's clock, for every node whose own check-ins are answered. Any node can take over, and can
//!   complete a take-over that another node left unfinished: failover needs no leader.
//!
//! # Layout
//!
//! - `membership`: joins and leaves; `check_in`: the check-ins; `queue_start`: from where they read the queues;
//!   `failure_detector`: which nodes have expired.
//! - `liveness_watch`: waits for the end of a neighbour; `take_over`: removes nodes and releases their claims.
//! - `jobs`: what the cluster runs once per interval; `election`: the leader among the schedulers.

mod check_in;
pub(crate) mod election;
mod failure_detector;
mod jobs;
mod liveness_watch;
mod membership;
mod queue_start;
mod take_over;
#[cfg(test)]
mod tests;

pub(crate) use check_in::CheckInReport;
pub(crate) use jobs::SAMPLE_INTERVAL;
pub(crate) use membership::{Membership, MembershipOptions};
