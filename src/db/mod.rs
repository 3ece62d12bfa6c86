//! The database as such: settings, connections, the pool, migrations, and what its errors mean.
//!
//! # Invariants
//!
//! - Every connection names its incarnation in `application_name`, so that a take-over finds all of them and nobody
//!   else's; see [`connect`].
//! - Every connection is one to the primary, and what a promise stands on of a session's settings is pinned, whatever the
//!   server, the database or the role has for others; see [`pinned`].
//! - Every statement has a deadline twice: `statement_timeout` at the server, and a longer one here for a server that
//!   does not answer at all. A connection on which the second one fired is thrown away, never pooled again.
//! - Nothing in here knows a table.

mod channel;
mod channel_listener;
mod connect;
pub(crate) mod direct;
mod dotnet;
mod hosts;
mod last_answer;
pub(crate) mod migrate;
mod notifier;
mod password;
mod pinned;
mod pool;
mod row;
mod schema;
mod server;
mod settings;
mod sqlstate;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use channel::{Channel, Notification};
pub(crate) use channel_listener::{ChannelListener, Malformed, SUBSCRIBER_QUEUE, listen_to, receive_or};
pub(crate) use connect::{Connector, Session};
pub(crate) use last_answer::LastAnswer;
pub(crate) use notifier::{Notifier, NotifierTask};
#[cfg(feature = "cli")]
pub(crate) use password::with_file;
pub(crate) use pool::{Exclusive, Pool};
pub(crate) use row::{ResultRows, column, columns, find_column};
pub(crate) use schema::SchemaName;
pub(crate) use settings::DatabaseUrl;
pub(crate) use sqlstate::{Failure, is_in_doubt, within};

use std::time::Duration;

/// The longest that the server works on an ordinary statement of ours.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest that we wait for the answer to one: longer than the server's own bound, so that it fires only when the
/// server or the network does not answer at all.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(13);

/// The longest that we wait for a new connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
