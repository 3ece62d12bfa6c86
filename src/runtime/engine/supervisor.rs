//! Keeps one incarnation running: registers the node, and registers it again when the registration is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::incarnation::{self, Loops, RunningNode, Shared};
use crate::Result;
use crate::db::Connector;
use crate::id::Incarnation;
use crate::runtime::context::node_context::{Database, NodeContext};
use crate::store::claim::{self, Release};
use crate::store::node as store_node;
use crate::watchdog::WatchedPart;

/// How long an ended incarnation waits for commits in doubt.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(70);

/// How long the connections of an ended incarnation stay open after that: a node that checks whether the process runs,
/// as its lock session has ended, sees them. Longer than any such check takes.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// The longest pause between two attempts to register.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The supervisor of a node.
pub(super) struct Supervisor {
    pub(super) base: Connector,
    pub(super) shared: Shared,
    pub(super) watched: WatchedPart,
    pub(super) current: watch::Sender<Option<Arc<NodeContext>>>,
    /// The engine is about to shut down: an incarnation that begins now claims nothing.
    pub(super) leaving: CancellationToken,
    /// The engine is shutting down.
    pub(super) closing: CancellationToken,
    /// Whether the last attempt to register failed for the credentials.
    pub(super) refused: Arc<AtomicBool>,
    /// How long bursts may continue during the shutdown.
    pub(super) drain_timeout: Arc<OnceLock<Duration>>,
}

/// What a supervisor does next.
enum Next {
    /// The engine closes.
    Close,
    /// The engine is about to.
    Report,
    /// The registration is over, and why.
    RegisterAgain(&'static str),
}

impl Supervisor {
    /// Registers the node and starts an incarnation.
    pub(super) async fn register(&self, previous: Option<Incarnation>) -> Result<RunningNode> {
        let publish = |node| {
            self.current.send_replace(Some(node));
        };
        let drains = self.leaving.is_cancelled();
        // Boxed, as it is large: without it each future that awaits a start of an engine has its size, on the stack of the program.
        Box::pin(incarnation::start(&self.base, &self.shared, previous, drains, publish)).await
    }

    /// Runs until the engine closes.
    pub(super) async fn run(self, mut running: RunningNode) {
        let watched = self.watched.clone();
        let mut reported = false;
        loop {
            let incarnation = running.context.database.incarnation;
            let next = async {
                tokio::select! {
                    // First: a drain ends the poller, which is no failure then.
                    biased;
                    () = self.closing.cancelled() => Next::Close,
                    () = self.leaving.cancelled(), if !reported => Next::Report,
                    reason = running.ended() => Next::RegisterAgain(reason),
                }
            };
            match watched.idle(next).await {
                Next::Close => return watched.idle(self.close(running)).await,
                Next::Report => {
                    reported = true;
                    watched.idle(report_drain(&running.context.database)).await;
                }
                Next::RegisterAgain(reason) => {
                    tracing::warn!(%incarnation, reason, "this registration is over; all its work stops");
                    self.current.send_replace(None);
                    self.shared.watchdog.retire(incarnation);
                    retire(running);
                    let Some(next) = watched.idle(self.register_again(incarnation)).await else {
                        return;
                    };
                    running = next;
                }
            }
        }
    }

    /// Retries until it is registered, or the engine closes.
    async fn register_again(&self, previous: Incarnation) -> Option<RunningNode> {
        let mut pause = Duration::from_millis(50);
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return None,
                registered = self.register(Some(previous)) => match registered {
                    Ok(running) => {
                        self.refused.store(false, Ordering::Relaxed);
                        return Some(running);
                    }
                    Err(error) => {
                        self.refused.store(error.code() == "database-refused", Ordering::Relaxed);
                        tracing::warn!(%error, "this node cannot register yet");
                    }
                },
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.75..1.25))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Finishes the bursts that run, within the drain timeout; releases the claims of the others; leaves.
    async fn close(&self, running: RunningNode) {
        let RunningNode {
            membership,
            context: node,
            connections,
            loops,
        } = running;
        let Loops {
            mut poller,
            mut scheduler,
            others,
        } = loops;
        let (database, lifecycle) = (&node.database, &node.lifecycle);
        lifecycle.close();
        report_drain(database).await;
        let finished = async {
            // It ends after its poll: what that has claimed is run.
            let _ = (&mut poller).await;
            let _ = (&mut scheduler).await;
            lifecycle.tasks.close();
            lifecycle.tasks.wait().await;
        };
        let timeout = self.drain_timeout.get().copied();
        let timeout = timeout.unwrap_or(self.shared.settings.drain_timeout);
        if tokio::time::timeout(timeout, finished).await.is_err() {
            tracing::warn!("some bursts did not end within the drain timeout; their claims are released");
        }
        lifecycle.stop.cancel();
        drop((poller, scheduler));
        lifecycle.tasks.close();
        // Bursts that have reached the writer still receive their outcome.
        let _ = tokio::time::timeout(Duration::from_secs(5), lifecycle.tasks.wait()).await;
        let left = async {
            for (key, claim) in claim::claimed_by(&database.pool, database.incarnation).await? {
                claim::release(&database.pool, database.incarnation, &key, &[claim], Release::IMMEDIATE).await?;
                metrics::counter!("mainspring_work_drained_total").increment(1);
                node.notifications.wake.work_ready(&key.1);
            }
            membership.leave(&database.pool).await
        };
        match left.await {
            Ok(()) => tracing::info!("left in good order"),
            Err(error) => tracing::warn!(%error, "this node could not leave in good order; the next start cleans up"),
        }
        self.current.send_replace(None);
        drop((connections, others));
        database.reads.close();
        database.pool.close();
    }
}

/// Marks the node as draining, for operators. Nothing depends on it, so it may fail or time out.
async fn report_drain(database: &Database) {
    let reporting = store_node::drain(&database.pool, database.incarnation);
    if !matches!(
        tokio::time::timeout(Duration::from_secs(1), reporting).await,
        Ok(Ok(()))
    ) {
        tracing::debug!("the node row could not be marked as draining");
    }
}

/// Ends an incarnation: its bursts stop, commits in doubt are awaited in the background, then its connections close.
fn retire(running: RunningNode) {
    let RunningNode {
        membership,
        context: node,
        connections,
        loops,
    } = running;
    node.lifecycle.stop.cancel();
    node.lifecycle.tasks.close();
    // Its session and its check-ins end now: other nodes may take over.
    drop(membership);
    tokio::spawn(async move {
        let _ = tokio::time::timeout(COMMIT_TIMEOUT, node.lifecycle.tasks.wait()).await;
        drop(loops);
        tokio::time::sleep(SIGN_OF_LIFE).await;
        drop(connections);
        node.database.reads.close();
        node.database.pool.close();
    });
}
