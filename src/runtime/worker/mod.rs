//! Polls for work, claims it, runs it and commits it.
//!
//! # Layout
//!
//! - `poll`: the loop that finds due work; `poll_state`: how far it has come; `supported_work`: the polls of a node that
//!   does not support every version.
//! - `claim`, `prepare`, `run`, `commit`: the steps of a burst, one consuming type each.
//! - `run_trace`: the trace that a burst belongs to.
//! - `execute`: drives the steps; `complete`: what follows a commit; `release`: releases claims;
//!   `backoff`: how long a burst that failed waits.
//! - `instruction`, `effects`: rows as the interpreter's instructions, and its result as rows. `requests`: the ends of
//!   requests of HTTP clients; `volatile`: rows that the node of their client runs first, or alone.
//! - `webhook_events`: what bursts cause for the sinks of webhooks.
//! - `wake_notifications`: notifications of other nodes; `unsupported`: versions that are left to them.
//! - `maintenance`: releases orphaned claims, and vacuums; `activity_faults`: reports failed activities.
//! - `inbox_budget`: weighs the kept events. `sampler`: samples the cluster.
//! - `follow`: follows pauses of the cluster, observed instances and freed locks.
//! - `paging_job`: what continues page by page on any node: `fan_out`, `inbox_match`, `bulk_action`; `instance_filter`:
//!   which instances are meant.
//! - `family`: runs and commits the children of a burst, and knows which definitions it may start children of.

mod activity_faults;
mod backoff;
pub(crate) mod bulk_action;
pub(crate) mod claim;
mod commit;
mod complete;
pub(crate) mod effects;
pub(crate) mod execute;
mod family;
pub(crate) mod fan_out;
mod follow;
mod inbox_budget;
pub(crate) mod inbox_match;
pub(crate) mod instance_filter;
pub(crate) mod instruction;
pub(crate) mod maintenance;
mod paging_job;
pub(crate) mod poll;
mod poll_state;
mod prepare;
mod release;
mod requests;
mod run;
mod run_trace;
mod sampler;
mod supported_work;
#[cfg(test)]
mod tests;
pub(crate) mod unsupported;
mod volatile;
pub(crate) mod wake_notifications;
#[cfg(feature = "http")]
mod webhook_events;
