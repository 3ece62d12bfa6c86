//! Rows and SQL: what the engine keeps in the database, and (with `db`) the only place that speaks SQL.
//!
//! # Layout
//!
//! - `commit`: how the outcome of a burst is written; see there for the contract.
//! - `accept`: starts become durable; `work`: so do resumes and cancels; `event`: so do events.
//! - `claim`: what is to be done, taken by one node at a time.
//! - `dead_letter`: what was given up.
//! - `node`, `watch`, `depart`: who is there, who notices that somebody is not, and what becomes of its claims.
//! - `definition`, `instance`, `journal`: what the API reads and saves.
//! - `job`: what the cluster does once; `housekeeping`: partitions and expiry. `check`: the invariants.
//!
//! Nothing here knows an activity: rows go in and out as text, JSON and bytes.

pub(crate) mod accept;
pub(crate) mod check;
pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod dead_letter;
pub(crate) mod definition;
pub(crate) mod depart;
pub(crate) mod event;
pub(crate) mod housekeeping;
pub(crate) mod instance;
pub(crate) mod job;
pub(crate) mod journal;
pub(crate) mod node;
#[cfg(test)]
mod tests;
pub(crate) mod watch;
pub(crate) mod work;

pub use check::Violation;
