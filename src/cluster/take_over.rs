//! Taking over from a node that is gone: its incarnation departs, and its claims are free.
//!
//! Any number of nodes may take over from the same one at once. Whoever does so finishes what the dead one, or anybody
//! else, has left half done: a node may die of taking over.

use std::time::Duration;

use tokio::sync::watch;

use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Connector, within};
use crate::id::{Incarnation, NodeId};
use crate::lock::LockKey;
use crate::store::lock as store_lock;
use crate::store::node::removal::{self, RemovalCause};

/// How long the server may take to notice that the connections of a dead process are closed. Only a process that lives
/// on without its lock session costs this long.
const LAST_SIGNS: Duration = Duration::from_millis(250);

/// Without this right a row that kills its process is never blamed for it.
pub(super) const BLIND: &str = "whether a node lives cannot be seen: the owner of the schema may not read what the sessions of \
     the role do that the node logs in as; grant it that role, or pg_read_all_stats";

/// Sees incarnations off on behalf of this node. Cheap to clone.
#[derive(Clone)]
pub(super) struct TakeOver {
    connector: Connector,
    node: NodeId,
    /// Counts take-overs that freed something.
    done: watch::Sender<u64>,
}

impl TakeOver {
    pub(super) fn new(connector: Connector, node: NodeId) -> Self {
        Self {
            connector,
            node,
            done: watch::Sender::new(0),
        }
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) fn done(&self) -> watch::Receiver<u64> {
        self.done.subscribe()
    }

    pub(super) fn liveness(&self, incarnation: Incarnation) -> LockKey {
        LockKey::liveness(self.connector.schema().as_str(), incarnation)
    }

    /// Takes over from a node whose liveness lock was found free. Its process is gone, unless it lost nothing but that
    /// session: then it stops working as well, but what it had claimed is not to blame.
    pub(super) async fn of_the_dead(&self, client: &tokio_postgres::Client, dead: Incarnation) -> Result<()> {
        let began = tokio::time::Instant::now();
        let cause = loop {
            let signs = removal::node_state(client, dead).await?;
            if !signs.exists {
                // It left in good order, or somebody was faster.
                return Ok(());
            }
            if signs.is_alive == Some(false) {
                break RemovalCause::Died;
            }
            if began.elapsed() > LAST_SIGNS {
                if signs.is_alive.is_none() {
                    tracing::warn!(incarnation = %dead, "{BLIND}; nothing is blamed for the end of this one");
                }
                break RemovalCause::Replaced;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        self.see_off(client, dead, cause).await
    }

    /// Takes over from a node that missed its check-in, unless it has caught up by now. Hung or cut off, nothing that
    /// it had claimed is to blame; dead, it is.
    pub(super) async fn of_the_silent(&self, silent: Incarnation) -> Result<()> {
        let session = self.connector.open().await?;
        let client = &session.client;
        let signs = removal::node_state(client, silent).await?;
        if !signs.is_late {
            return Ok(());
        }
        if store_lock::wait_until_free(client, self.liveness(silent).0, Duration::from_millis(1)).await? {
            return self.of_the_dead(client, silent).await;
        }
        tracing::warn!(incarnation = %silent, "a node missed its check-in and is declared dead");
        // It may be stopped in the middle of a commit: its fence would be waited for.
        removal::terminate(client, silent).await?;
        self.see_off(client, silent, RemovalCause::Replaced).await
    }

    async fn see_off(&self, client: &tokio_postgres::Client, gone: Incarnation, cause: RemovalCause) -> Result<()> {
        let mut released = removal::remove(client, gone, &self.node, cause).await?;
        for other in removal::unfinished(client).await? {
            released += removal::remove(client, other, &self.node, RemovalCause::Replaced).await?;
        }
        self.done.send_modify(|done| *done += 1);
        tracing::info!(incarnation = %gone, released, "taken over from a node that is gone");
        Ok(())
    }

    /// The safety net: claims of incarnations that nobody knows, and departures that nobody finished. Needed after a
    /// crash of the server, which empties `node` and `fence`, and after claims by a process that was already dead.
    pub(super) async fn of_the_unknown(&self) -> Result<()> {
        let session = self.connector.open().await?;
        for orphan in removal::orphaned(&session.client).await? {
            let released = removal::remove(&session.client, orphan, &self.node, RemovalCause::Replaced).await?;
            self.done.send_modify(|done| *done += 1);
            tracing::info!(incarnation = %orphan, released, "released the claims of an incarnation that is no more");
        }
        Ok(())
    }

    /// Stops a wait that is under way on a connection; the statement fails then, or has just ended.
    pub(super) async fn stop_waiting(&self, client: &tokio_postgres::Client) -> Result<()> {
        let tls = self.connector.tls();
        within(ANSWER_TIMEOUT, client.cancel_token().cancel_query(tls)).await
    }
}
