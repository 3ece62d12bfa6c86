//! The database as such: settings, connections, the pool, notifications, migrations, and classes of errors.
//!
//! # Invariants
//!
//! - Every connection names its incarnation in `application_name`, so that a take-over finds all of them and no others; see
//!   [`connect`].
//! - Every connection is to the primary, and the session settings that a promise needs are pinned, whatever the server, the
//!   database or the role sets; see [`pinned`].
//! - Every statement has two timeouts: `statement_timeout` at the server, and a longer one here for a server that does not
//!   answer. After the second one the connection is closed, never returned to the pool.
//! - No file of this module names a table.

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
mod read_pool;
mod row;
mod schema;
mod sender_numbers;
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
pub(crate) use password::{readers, with_file};
pub(crate) use pool::{Companion, Exclusive, Pool};
pub(crate) use read_pool::{ReadPool, bounded_list};
pub(crate) use row::{ResultRows, column, column_near, columns, find_column};
pub(crate) use schema::SchemaName;
pub(crate) use sender_numbers::SenderNumbers;
pub(crate) use settings::DatabaseUrl;
pub(crate) use sqlstate::{ErrorClass, LINK_REFUSED_CODE, is_in_doubt, violates, within};

use std::time::Duration;

/// `statement_timeout` of an ordinary statement.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the answer to a statement is awaited: longer than the server's timeout, so that it fires only when the server or
/// the network does not answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(13);

/// How long a new connection is awaited.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
