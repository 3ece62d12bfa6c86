//! What the channels of NOTIFY are called.
//!
//! Every role that may connect may notify on each channel whose name it knows, and a forged hint can stop bursts. So a name
//! holds a hash that is keyed with a secret of the schema. Locks, hints and signals that are used alone need no schema:
//! where there is none of ours the names are plain.

use std::sync::Arc;

use tokio_postgres::Client;

use super::{ANSWER_TIMEOUT, SchemaName, within};
use crate::Result;

const KEYED: &str = include_str!("../../sql/queries/channel/keyed.sql");
const NAME: &str = include_str!("../../sql/queries/channel/name.sql");

/// What is sent over a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Which locks are waited for, and were released.
    Locks,
    /// That work waits.
    WakeUps,
    /// That something cached may be stale.
    Signals,
    /// That an operator wants to know which locks there are.
    LockReports,
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
    /// The statements that publish a definition know that of the signals.
    fn word(self) -> &'static str {
        match self {
            Self::Locks => "lock",
            Self::WakeUps => "w",
            Self::Signals => "s",
            Self::LockReports => "a",
        }
    }

    /// Where no schema of ours is.
    pub(crate) fn plain(self, schema: &SchemaName) -> String {
        format!("mainspring_{}_{}", self.word(), schema.key())
    }

    /// What it is called: the same for all that use a schema, for good. A plain identifier of at most 48 bytes.
    pub(crate) async fn name(self, client: &Client, schema: &SchemaName) -> Result<String> {
        let keyed: bool = within(ANSWER_TIMEOUT, client.query_one(KEYED, &[]))
            .await?
            .get("is_keyed");
        if !keyed {
            return Ok(self.plain(schema));
        }
        Ok(within(ANSWER_TIMEOUT, client.query_one(NAME, &[&self.word()]))
            .await?
            .get("name"))
    }
}
