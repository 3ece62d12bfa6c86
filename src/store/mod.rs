//! Rows and SQL: what the engine keeps in the database, and (with `db`) the only place that speaks SQL.
//!
//! # Layout
//!
//! - `commit`: how the outcome of a burst is written; see there for the contract. `record`: what it did, as one row.
//! - `accept`: starts become durable; `work`: so do resumes and cancels; `event`: so do events.
//! - `schedule`: what starts when it is time.
//! - `claim`: what is to be done, taken by one node at a time.
//! - `cancelled`: what is left to do for an instance that was cancelled.
//! - `dead_letter`: what was given up, `stimulus_letter`: events among it; `delete`: what a user wants gone. `overview`: what an operator sees of the cluster.
//! - `node`, `watch`, `depart`: who is there, who notices that somebody is not, and what becomes of its claims.
//! - `capability`: what a node cannot run. `definition`, `instance`, `journal`: what the API reads and saves; `token`: what signs resume URLs.
//! - `job`: what the cluster does once; `housekeeping`: partitions and expiry. `check`: the invariants; `observe`: what
//!   the programs that put a cluster to the test see of it. `parts`: statements without what a batch has no rows for.
//!
//! Nothing here knows an activity: rows go in and out as text, JSON and bytes.

pub(crate) mod activation;
pub(crate) mod activity_type;
pub(crate) mod check;
pub(crate) mod claim;
pub(crate) mod clock;
pub(crate) mod code;
pub(crate) mod commit;
pub(crate) mod dead_letter;
pub(crate) mod definition;
pub(crate) mod event;
pub(crate) mod instance;
pub(crate) mod lock;
pub(crate) mod maintenance;
pub(crate) mod node;
#[cfg(feature = "cli")]
#[cfg_attr(not(feature = "bench"), allow(dead_code, reason = "the demo uses one query of it"))]
pub(crate) mod observe;
pub(crate) mod parts;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod schedule;
pub(crate) mod start;
#[cfg(test)]
mod tests;
pub(crate) mod token;
pub(crate) mod work;

pub use check::Violation;
