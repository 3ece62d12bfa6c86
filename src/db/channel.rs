//! The channels of NOTIFY and their names.
//!
//! Every role that may connect can notify on a channel whose name it knows, and a forged notification can stop bursts. So a
//! name contains a hash keyed with a secret of the schema. Locks, wake notifications and cache notifications used alone need
//! no schema; without one the names are plain.

use std::sync::Arc;

use tokio_postgres::Client;

use super::{ANSWER_TIMEOUT, SchemaName, within};
use crate::Result;

const KEYED: &str = include_str!("../../sql/queries/channel/keyed.sql");
const NAME: &str = include_str!("../../sql/queries/channel/name.sql");

/// A channel, by what is sent over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Locks with waiters, and released locks.
    Locks,
    /// New work.
    WakeNotifications,
    /// Stale cache entries.
    Signals,
    /// Requests for lock reports.
    LockReports,
    /// Levels of the log.
    LogLevels,
}

/// What a listening connection reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    /// A payload that a session sent, perhaps one of this process.
    Received { channel: Arc<str>, payload: Arc<str> },
    /// The connection is new: any notification may have been missed.
    Reconnected,
}

impl Channel {
    /// The short name; the statements that publish a definition contain that of the signals.
    fn key(self) -> &'static str {
        match self {
            Self::Locks => "lock",
            Self::WakeNotifications => "w",
            Self::Signals => "s",
            Self::LockReports => "a",
            Self::LogLevels => "g",
        }
    }

    /// The name without a schema of the engine.
    pub(crate) fn plain(self, schema: &SchemaName) -> String {
        format!("mainspring_{}_{}", self.key(), schema.key())
    }

    /// The name: constant for a schema, an identifier of at most 48 bytes that needs no quotes.
    pub(crate) async fn name(self, client: &Client, schema: &SchemaName) -> Result<String> {
        let keyed: bool = within(ANSWER_TIMEOUT, client.query_one(KEYED, &[]))
            .await?
            .get("is_keyed");
        if !keyed {
            return Ok(self.plain(schema));
        }
        Ok(within(ANSWER_TIMEOUT, client.query_one(NAME, &[&self.key()]))
            .await?
            .get("name"))
    }
}
