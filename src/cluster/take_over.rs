//! Take-over: an ended or expired node is removed, and its claims are released.
//!
//! Any number of nodes may take over from the same one at once. Each completes what the removed node, or a node that
//! ended during a take-over, has left unfinished.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;

use super::check_in::CheckInReport;
use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Connector, within};
use crate::id::{Incarnation, NodeId};
use crate::lock::LockKey;
use crate::store::lock as store_lock;
use crate::store::node::removal::{self, RemovalCause};

/// How long the server may take to notice that the connections of an ended process are closed. Only a process that goes
/// on without its lock session costs this long.
const CLOSING_TIMEOUT: Duration = Duration::from_millis(250);

/// Without this right, a row that terminates its process is never isolated.
pub(super) const SESSIONS_HIDDEN: &str = "cannot see whether the sessions of a node are open: the owner of the \
                                          schema may not read \
     pg_stat_activity of the role that the node logs in as; grant it that role, or pg_read_all_stats";

/// Its crash was counted when it recorded that it hangs.
const HUNG: &str = "a hung node is removed; a crash counts only against the rows whose bursts kept its threads";

/// Removes incarnations on behalf of this node. Cheap to clone.
#[derive(Clone)]
pub(super) struct TakeOver {
    connector: Connector,
    node: NodeId,
    /// Counts completed take-overs.
    completed: watch::Sender<u64>,
}

impl TakeOver {
    pub(super) fn new(connector: Connector, node: NodeId) -> Self {
        Self {
            connector,
            node,
            completed: watch::Sender::new(0),
        }
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) fn completed(&self) -> watch::Receiver<u64> {
        self.completed.subscribe()
    }

    pub(super) fn liveness(&self, incarnation: Incarnation) -> LockKey {
        LockKey::liveness(self.connector.schema().as_str(), incarnation)
    }

    /// Takes over from a node whose liveness lock was found free. Its process has ended, unless it has lost only that
    /// session: then it stops working as well, and none of its claims counts as a crash.
    pub(super) async fn take_over_ended(&self, client: &tokio_postgres::Client, ended: Incarnation) -> Result<()> {
        let began = tokio::time::Instant::now();
        let (cause, is_hung) = loop {
            let state = removal::node_state(client, ended).await?;
            if !state.exists {
                // It left in order, or another node has taken over.
                return Ok(());
            }
            if state.is_alive == Some(false) {
                break (RemovalCause::Crashed, state.is_hung);
            }
            if began.elapsed() > CLOSING_TIMEOUT {
                if state.is_alive.is_none() {
                    tracing::warn!(incarnation = %ended, "{SESSIONS_HIDDEN}; no claim counts as its crash");
                }
                break (RemovalCause::Replaced, state.is_hung);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        if is_hung {
            tracing::warn!(incarnation = %ended, "{HUNG}");
        }
        self.remove(client, ended, cause).await
    }

    /// Takes over from an expired node, unless it has checked in by now. If its process hangs or is cut off, none of its
    /// claims counts as a crash; if it has ended, they do.
    pub(super) async fn take_over_expired(&self, expired: Incarnation) -> Result<()> {
        let session = self.connector.open().await?;
        let client = &session.client;
        let state = removal::node_state(client, expired).await?;
        if !state.is_late {
            return Ok(());
        }
        if store_lock::wait_until_free(client, self.liveness(expired).0, Duration::from_millis(1)).await? {
            return self.take_over_ended(client, expired).await;
        }
        if state.is_hung {
            tracing::warn!(incarnation = %expired, "{HUNG}");
        } else {
            tracing::warn!(incarnation = %expired, "an expired node, which missed its check-ins, is removed");
        }
        // It may be stopped in the middle of a commit: the take-over would wait for its fence row.
        removal::terminate(client, expired).await?;
        self.remove(client, expired, RemovalCause::Replaced).await
    }

    async fn remove(&self, client: &tokio_postgres::Client, node: Incarnation, cause: RemovalCause) -> Result<()> {
        let mut released = removal::remove(client, node, &self.node, cause).await?;
        for other in removal::unfinished(client).await? {
            released += removal::remove(client, other, &self.node, RemovalCause::Replaced).await?;
        }
        self.completed.send_modify(|completed| *completed += 1);
        metrics::counter!("mainspring_work_recovered_total").increment(released);
        tracing::info!(incarnation = %node, released, "take-over completed: the node is removed and its claims are released");
        Ok(())
    }

    /// Releases orphaned claims, of incarnations without a row, and completes unfinished removals. Needed after a crash
    /// of the server, which empties `node` and `fence`, and after claims by a process that had been removed.
    pub(super) async fn release_orphaned(&self) -> Result<()> {
        let session = self.connector.open().await?;
        for orphaned in removal::orphaned(&session.client).await? {
            let released = removal::remove(&session.client, orphaned, &self.node, RemovalCause::Replaced).await?;
            self.completed.send_modify(|completed| *completed += 1);
            metrics::counter!("mainspring_work_recovered_total").increment(released);
            tracing::info!(incarnation = %orphaned, released, "orphaned claims of a removed incarnation are released");
        }
        Ok(())
    }

    /// Cancels a wait on a connection. Its statement fails, or has just ended.
    pub(super) async fn stop_waiting(&self, client: &tokio_postgres::Client) -> Result<()> {
        let tls = self.connector.tls();
        within(ANSWER_TIMEOUT, client.cancel_token().cancel_query(tls)).await
    }
}

/// Takes over from the expired nodes of each check-in, while the check-ins continue.
pub(super) async fn remove_expired(take_over: TakeOver, mut reports: watch::Receiver<CheckInReport>) {
    let mut removed = BTreeSet::new();
    while reports.changed().await.is_ok() {
        let expired = reports.borrow_and_update().expired.clone();
        removed.retain(|node| expired.contains(node));
        for node in expired {
            if removed.contains(&node) {
                continue;
            }
            match take_over.take_over_expired(node).await {
                Ok(()) => {
                    removed.insert(node);
                }
                // The next check-in shows it again.
                Err(error) => {
                    tracing::warn!(incarnation = %node, %error, "the take-over from an expired node failed")
                }
            }
        }
    }
}
