//! Waiting for the end of a neighbour: its liveness lock is free once its session has ended.

use std::time::Duration;

use tokio_postgres::Client;

use crate::Result;
use crate::db::{ANSWER_TIMEOUT, within};

const WAIT: &str = include_str!("../../sql/queries/node/watch.sql");

/// Waits until a lock of the 64-bit space is free, at most `patience` (counted in milliseconds by the server); whether
/// it was. It is held no longer than the statement runs. Dropped half-way, the server goes on waiting to the end of the
/// patience.
pub(crate) async fn wait(client: &Client, key: i64, patience: Duration) -> Result<bool> {
    let patience_ms = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    let deadline = patience + ANSWER_TIMEOUT;
    Ok(within(deadline, client.query_one(WAIT, &[&key, &patience_ms]))
        .await?
        .get(0))
}
