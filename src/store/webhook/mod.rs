//! Webhooks: the sinks, and the deliveries to them.
//!
//! # Invariants
//!
//! - A delivery is written by the statement that commits the burst that causes it, which reads the sinks itself: what a node has
//!   cached decides only whether there is anything to write.
//! - One node at a time sends to a sink. It claims the sink (`claimed_by`, `claim_no`); the removal of a node releases its sinks.
//!   A delivery is marked only under that claim, so one that was sent and not marked is sent again, under its id. A claim for each
//!   delivery would be a third version of its row, with its entries in all indexes, and a row to be released after a crash.
//! - A claim whose answer was lost is made again by its node, under the next number: it names the claims that it holds.
//! - Each statement that changes a sink, or disables it, locks `revision` first.
//! - A sink that fails has a time before which none of its deliveries is looked at, so that many of them delay no others.
//! - The id of an event is that of all its deliveries and attempts.
//!
//! # Layout
//!
//! `sink`: what the API and the settings change, and what a node caches · `delivery`: claims, what is due, what became of it, the
//! lists and replays, and the purge.

pub(crate) mod delivery;
pub(crate) mod sink;
