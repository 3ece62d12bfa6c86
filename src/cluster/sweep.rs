//! The safety net: claims of incarnations that nobody knows, and departures that nobody finished.
//!
//! Needed after a crash of the server, which empties `node` and `fence`, and after a crash in the middle of a
//! departure. Every node looks every ten seconds; that they do it at once harms nothing.

use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::Result;
use crate::db::{Connector, Session};
use crate::id::NodeId;
use crate::store::depart::{self, Cause};

/// From DESIGN: an orphaned claim waits this long at most, and a little jitter.
const INTERVAL: Duration = Duration::from_secs(10);

/// Owns the task.
pub(super) struct Sweeper(#[allow(dead_code, reason = "held for its drop")] AbortOnDropHandle<()>);

impl Sweeper {
    pub(super) fn start(connector: Connector, node: NodeId) -> Self {
        Self(AbortOnDropHandle::new(tokio::spawn(async move {
            let mut line = None;
            loop {
                tokio::time::sleep(INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await;
                if let Err(error) = sweep(&connector, &mut line, &node).await {
                    line = None;
                    tracing::warn!(%error, "the sweep for orphaned claims failed");
                }
            }
        })))
    }
}

async fn sweep(connector: &Connector, line: &mut Option<Session>, node: &NodeId) -> Result<()> {
    let session = match line {
        Some(session) => session,
        None => line.insert(connector.open().await?),
    };
    for orphan in depart::orphans(&session.client).await? {
        let released = depart::depart(&session.client, orphan, node, Cause::Replaced).await?;
        tracing::info!(incarnation = %orphan, released, "released the claims of an incarnation that is no more");
    }
    Ok(())
}
