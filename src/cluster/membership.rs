//! Joining the cluster under a new incarnation, and leaving it.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::check_in::{self, CheckInReport, CheckInThread, Timing};
use super::take_over::{SESSIONS_HIDDEN, TakeOver, remove_expired};
use super::{jobs, liveness_watch};
use crate::db::{Connector, Pool, Session};
use crate::id::{Incarnation, NodeId};
use crate::lock::{LockKey, SessionLocks, SessionTask};
use crate::store::lock::{self as store_lock, ForeignLock};
use crate::store::maintenance::Retention;
use crate::store::node;
use crate::store::node::removal::{self, RemovalCause};
use crate::watchdog::{Part, Watchdog};
use crate::{Error, Result};

/// How a node is registered.
#[derive(Clone, Debug)]
pub(crate) struct MembershipOptions {
    pub(crate) node_id: NodeId,
    /// Between two check-ins.
    pub(crate) check_in: Duration,
    /// After this time without a check-in the node has expired: other nodes may remove it.
    pub(crate) tolerance: Duration,
    /// How long what is only read is kept.
    pub(crate) retention: Retention,
    /// A node that it finds hung checks in no more.
    pub(crate) watchdog: Watchdog,
}

/// One registration of this process. Dropping it closes its connections; [`Membership::leave`] ends it in order.
pub(crate) struct Membership {
    pub(crate) incarnation: Incarnation,
    pub(crate) connector: Connector,
    pub(crate) locks: SessionLocks,
    _session: SessionTask,
    check_ins: CheckInThread,
    take_over: TakeOver,
    watchdog: Watchdog,
    /// How often the node was found hung before.
    hangs: u64,
    /// The liveness watch, the removal of expired nodes, and the jobs of the cluster.
    _tasks: [AbortOnDropHandle<()>; 3],
    /// Cancelled when one of these tasks ends, which none does by itself.
    failed: CancellationToken,
}

impl Membership {
    /// Registers this process. `base` belongs to no incarnation. Older incarnations of the node id are removed first, and
    /// before them `previous`, the lost registration of this process, if any.
    pub(crate) async fn join(
        base: &Connector,
        options: &MembershipOptions,
        previous: Option<Incarnation>,
    ) -> Result<Self> {
        let bootstrap = base.open().await?;
        let client = &bootstrap.client;
        // Of two processes with one node id only one registers; the lock ends with this session.
        let name = LockKey::node_id(base.schema().as_str(), &options.node_id);
        take(base, &bootstrap, name, options).await?;
        if let Some(previous) = previous {
            remove_previous(base, &bootstrap, previous, options, RemovalCause::Replaced).await?;
        }
        for older in node::by_node_id(client, &options.node_id).await? {
            remove_previous(base, &bootstrap, older, options, RemovalCause::Crashed).await?;
        }
        let incarnation = node::next_incarnation(client).await?;
        let connector = base.of(incarnation, &options.node_id);
        let liveness = LockKey::liveness(base.schema().as_str(), incarnation);
        let watchdog = options.watchdog.clone();
        let watch = || watchdog.watch(Part::LockSession, Some(incarnation));
        let (locks, session) = match SessionLocks::start(&connector, liveness, watch).await {
            Err(error) if error.code() == "liveness-lock-taken" => {
                let foreign = store_lock::foreign_holder(client, base.schema(), liveness.0).await?;
                return Err(foreign.as_ref().map_or(error, foreign_holder));
            }
            started => started?,
        };
        node::register(client, incarnation, &options.node_id, options.tolerance).await?;
        let timing = Timing {
            interval: options.check_in,
            tolerance: options.tolerance,
        };
        let hangs = watchdog.hangs();
        let check_ins = check_in::start(connector.clone(), incarnation, timing, watchdog.clone())?;
        // The lock session is open: a node that may not see that cannot detect crashes of others, either.
        if removal::node_state(client, incarnation).await?.is_alive.is_none() {
            tracing::warn!("{SESSIONS_HIDDEN}");
        }
        let take_over = TakeOver::new(connector.clone(), options.node_id.clone());
        let failed = CancellationToken::new();
        let watching = liveness_watch::watch(incarnation, take_over.clone(), check_ins.reports());
        let removing = remove_expired(take_over.clone(), check_ins.reports());
        let running = jobs::run_due(incarnation, take_over.clone(), check_ins.reports(), options.retention);
        let tasks = [
            spawn(&failed, watching),
            spawn(&failed, removing),
            spawn(&failed, running),
        ];
        tracing::info!(%incarnation, node = %options.node_id, "the node is registered");
        Ok(Self {
            incarnation,
            connector,
            locks,
            _session: session,
            check_ins,
            take_over,
            watchdog,
            hangs,
            _tasks: tasks,
            failed,
        })
    }

    /// The answer to the last check-in.
    pub(crate) fn reports(&self) -> watch::Receiver<CheckInReport> {
        self.check_ins.reports()
    }

    /// Changes whenever this node has completed a take-over: there may be work.
    pub(crate) fn taken_over(&self) -> watch::Receiver<u64> {
        self.take_over.completed()
    }

    /// Returns why this registration has ended, once it has. Cancellation safe.
    pub(crate) async fn ended(&self) -> &'static str {
        let mut lost = self.locks.lost();
        let mut reports = self.reports();
        // A sender that is gone means that its task has ended: the registration has, too. The end of a registration also ends
        // the failure detection, so its own cause comes first.
        let reason = tokio::select! {
            biased;
            () = self.watchdog.reported(self.hangs) => "this node was hung",
            _ = reports.wait_for(|report| report.is_removed) => "it was removed",
            _ = lost.wait_for(|lost| *lost) => "its lock session was lost",
            () = self.failed.cancelled() => {
                if self.reports().borrow().is_removed { "it was removed" } else { "its failure detection ended" }
            }
        };
        if self.watchdog.hangs() == self.hangs {
            return reason;
        }
        // The end of the check-ins of a hung node ends the rest. Another registration waits until the hang was reported.
        self.watchdog.reported(self.hangs).await;
        "this node was hung"
    }

    /// Leaves in order, with nothing claimed any more. It uses an open connection: the server may have none left for a
    /// node that stops.
    pub(crate) async fn leave(self, pool: &Pool) -> Result<()> {
        node::leave(pool, self.incarnation).await
    }
}

/// Spawns a task; `failed` is cancelled when it ends, however that is.
fn spawn(failed: &CancellationToken, task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    let ends = failed.clone().drop_guard();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let _ends = ends;
        task.await;
    }))
}

/// Removes an older incarnation of this node id, once its liveness lock is free: its process may be slow to end. When the
/// lock is held past the tolerance, another process runs under this node id.
async fn remove_previous(
    base: &Connector,
    bootstrap: &Session,
    older: Incarnation,
    options: &MembershipOptions,
    cause: RemovalCause,
) -> Result<()> {
    let client = &bootstrap.client;
    let key = LockKey::liveness(base.schema().as_str(), older);
    take(base, bootstrap, key, options).await?;
    let released = removal::remove(client, older, &options.node_id, cause).await?;
    store_lock::release_key(client, key.0).await?;
    tracing::info!(incarnation = %older, released, "an older incarnation of this node is removed and its claims are released");
    Ok(())
}

fn foreign_holder(foreign: &ForeignLock) -> Error {
    Error::conflict(
        "lock-held-by-foreign-session",
        format!(
            "a lock that only a node of this id needs is held by a foreign session: process {} of the server, user {:?}, \
             application {:?}; terminate that session (pg_terminate_backend), and revoke CONNECT on the database from \
             roles that do not need it",
            foreign.process_id, foreign.user, foreign.application
        ),
    )
}

/// Takes a lock that only a process of the same node id can hold. Errors: `node-id-in-use`,
/// `lock-held-by-foreign-session`.
async fn take(base: &Connector, session: &Session, key: LockKey, options: &MembershipOptions) -> Result<()> {
    let began = Instant::now();
    loop {
        if store_lock::try_key(&session.client, key.0).await? {
            return Ok(());
        }
        if began.elapsed() > options.tolerance {
            if let Some(foreign) = store_lock::foreign_holder(&session.client, base.schema(), key.0).await? {
                return Err(foreign_holder(&foreign));
            }
            return Err(Error::conflict(
                "node-id-in-use",
                format!(
                    "the node id {:?} is in use by another process; stop it, or choose another --node-id",
                    options.node_id.as_str()
                ),
            ));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
