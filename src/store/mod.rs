//! Rows and SQL: what the engine keeps in the database. Only this module, `db`, the lock provider `postgres` and `bench` run SQL.
//!
//! # Layout
//!
//! - `start`, `work`, `event`: accept starts, resumes, cancels and events. `request`: their idempotency keys. `http_answer`:
//!   how requests of HTTP clients have ended. `fan_out`: events
//!   that many instances wait for. `bulk_action`: cancels and deletes of many instances.
//!   `stimulus_key`: the locks that order events, bookmarks and triggers.
//! - `claim`: polls for work, claims, loads and releases it. `commit`: writes what a burst did; the contract is there.
//!   `record`: the journal entries and activity executions of a burst, as one row.
//! - `inbox`: the bytes of the kept events. `inbox_match`: the starts for what the inbox keeps when a trigger is published.
//! - `schedule`: what starts at computed times. `activation`: the steps after a publish changed an activation strategy.
//! - `route`: which definitions and instances HTTP requests are for.
//! - `definition`, `instance`: what the API reads, saves and deletes. `dead_letter`: rows that are not retried.
//! - `node`: registration, check-in and removal. `lock`: the locks of the server. `pause`: the pause of the cluster.
//!   `activity_type`: what a node cannot run. `task`: what `Elsa.RunTask` waits for.
//! - `maintenance`: jobs of the cluster, purges, partitions, vacuum. `check`: the invariants. `doctor`: what is wrong with the
//!   cluster, its tables and its server. `elsa_views`: views by the names of Elsa's tables. `cluster_sample`: numbers of the
//!   whole database.
//! - `link`: resume links. `audit`: the attempts at them. `token`: the keys of signed texts. `webhook`: the sinks
//!   of webhooks and the deliveries to them. `identity`: users, roles, applications and sessions. `clock`: the clock of the database.
//! - `code`: the numbers of kinds and states. `parts`: statements without the parts that a batch has no rows for.
//!
//! SQL is in `sql/queries`, in folders named like these modules; the data model is `sql/migrations/V1__schema.sql`.
//! No file of this module depends on an activity: rows go in and out as text, JSON and bytes.

pub(crate) mod activation;
pub(crate) mod activity_type;
pub(crate) mod audit;
pub(crate) mod bulk_action;
pub(crate) mod check;
pub(crate) mod claim;
pub(crate) mod clock;
pub(crate) mod cluster_sample;
pub(crate) mod code;
pub(crate) mod commit;
pub(crate) mod dead_letter;
pub(crate) mod definition;
#[cfg(feature = "cli")]
pub(crate) mod doctor;
#[cfg(feature = "cli")]
pub(crate) mod elsa_views;
pub(crate) mod event;
pub(crate) mod fan_out;
pub(crate) mod http_answer;
#[cfg(feature = "http")]
pub(crate) mod identity;
pub(crate) mod inbox;
pub(crate) mod inbox_match;
pub(crate) mod instance;
pub(crate) mod link;
pub(crate) mod lock;
pub(crate) mod maintenance;
pub(crate) mod node;
pub(crate) mod parts;
pub(crate) mod pause;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod schedule;
pub(crate) mod start;
pub(crate) mod stimulus_key;
pub(crate) mod task;
#[cfg(test)]
mod tests;
pub(crate) mod token;
#[cfg(feature = "http")]
pub(crate) mod webhook;
pub(crate) mod work;

/// The number of rows that match a list, which each row of its page carries.
fn total(rows: &[tokio_postgres::Row]) -> u64 {
    let total = rows.first().map_or(0, |row| row.get::<_, i64>("total"));
    u64::try_from(total).unwrap_or(0)
}

pub use check::Violation;
