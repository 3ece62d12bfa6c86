//! Joining the cluster under a new incarnation, and leaving it.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::check_in::{self, CheckInReport, CheckInThread};
use super::expiry::Expiry;
use super::jobs::Jobs;
use super::liveness_watch::LivenessWatch;
use super::take_over::{BLIND, TakeOver};
use crate::db::{ANSWER_TIMEOUT, Connector, Pool, Session, within};
use crate::id::{Incarnation, NodeId};
use crate::lock::{LockKey, SessionLocks, SessionTask};
use crate::store::lock::{self as store_lock, ForeignLock};
use crate::store::node;
use crate::store::node::removal::{self, RemovalCause};
use crate::{Error, Result};

const LOCK_TRY: &str = include_str!("../../sql/queries/lock/try.sql");
const LOCK_RELEASE: &str = include_str!("../../sql/queries/lock/release.sql");

/// How a node takes part.
#[derive(Clone, Debug)]
pub(crate) struct MembershipOptions {
    pub(crate) node_id: NodeId,
    /// Between two check-ins.
    pub(crate) check_in: Duration,
    /// Without a check-in for this long, others may declare the node dead.
    pub(crate) tolerance: Duration,
    /// How long the dead letter of a stimulus is kept that nothing has waited for.
    pub(crate) dead_letter_lifetime: Duration,
}

/// One registration of this process. Dropping it closes its connections; [`Membership::leave`] does so in good order.
pub(crate) struct Membership {
    pub(crate) incarnation: Incarnation,
    pub(crate) connector: Connector,
    pub(crate) locks: SessionLocks,
    _session: SessionTask,
    check_in: CheckInThread,
    take_over: TakeOver,
    _watch: LivenessWatch,
    _expiry: Expiry,
    _jobs: Jobs,
    /// One of the three above has ended, which none does by itself.
    failed: CancellationToken,
}

impl Membership {
    /// Registers this process. `base` belongs to no incarnation; `previous` is the registration that this process has
    /// lost, if any, which is departed first, as are older ones under the same node id.
    pub(crate) async fn join(
        base: &Connector,
        options: &MembershipOptions,
        previous: Option<Incarnation>,
    ) -> Result<Self> {
        let bootstrap = base.open().await?;
        let client = &bootstrap.client;
        // Two processes of one name do not look past each other; the lock ends with this session.
        let name = LockKey::node_id(base.schema().as_str(), &options.node_id);
        take(base, &bootstrap, name, options).await?;
        if let Some(previous) = previous {
            wait_until_gone(base, &bootstrap, previous, options, RemovalCause::Replaced).await?;
        }
        for older in node::by_node_id(client, &options.node_id).await? {
            wait_until_gone(base, &bootstrap, older, options, RemovalCause::Died).await?;
        }
        let incarnation = node::next_incarnation(client).await?;
        let connector = base.of(incarnation, &options.node_id);
        let liveness = LockKey::liveness(base.schema().as_str(), incarnation);
        let (locks, session) = match SessionLocks::start(&connector, liveness).await {
            Err(error) if error.code() == "liveness-lock-taken" => {
                let foreign = store_lock::foreign_holder(client, base.schema(), liveness.0).await?;
                return Err(foreign.as_ref().map_or(error, foreign_holder));
            }
            started => started?,
        };
        node::register(client, incarnation, &options.node_id, options.tolerance).await?;
        let check_in = check_in::start(connector.clone(), incarnation, options.clone())?;
        // The session of the locks idles, or nearly: who may see it sees so, and who may not says that it is unknown.
        if removal::node_state(client, incarnation).await?.is_alive.is_none() {
            tracing::warn!("{BLIND}");
        }
        let take_over = TakeOver::new(connector.clone(), options.node_id.clone());
        let failed = CancellationToken::new();
        let ends = || failed.clone().drop_guard();
        let watch = LivenessWatch::start(incarnation, take_over.clone(), check_in.reports(), ends());
        let expiry = Expiry::start(take_over.clone(), check_in.reports(), ends());
        let letters = options.dead_letter_lifetime;
        let jobs = Jobs::start(incarnation, take_over.clone(), check_in.reports(), letters, ends());
        tracing::info!(%incarnation, node = %options.node_id, "registered");
        Ok(Self {
            incarnation,
            connector,
            locks,
            _session: session,
            check_in,
            take_over,
            _watch: watch,
            _expiry: expiry,
            _jobs: jobs,
            failed,
        })
    }

    /// What the last check-in learned.
    pub(crate) fn reports(&self) -> watch::Receiver<CheckInReport> {
        self.check_in.reports()
    }

    /// Changes whenever this node has taken over from another one: there may be work.
    pub(crate) fn taken_over(&self) -> watch::Receiver<u64> {
        self.take_over.done()
    }

    /// Returns when this registration is over: its session was lost, or it was declared dead. Cancellation safe.
    pub(crate) async fn ended(&self) -> &'static str {
        let mut lost = self.locks.lost();
        let mut reports = self.reports();
        // A sender that is gone means that its task has ended, which is as bad.
        tokio::select! {
            _ = lost.wait_for(|lost| *lost) => "its lock session was lost",
            _ = reports.wait_for(|report| report.declared_dead) => "it was declared dead",
            () = self.failed.cancelled() => "its watch over the others ended",
        }
    }

    /// Leaves in good order: nothing may be claimed any more. Over a connection that there is: the server may have no other
    /// for a node that stops.
    pub(crate) async fn leave(self, pool: &Pool) -> Result<()> {
        node::leave(pool, self.incarnation).await
    }
}

/// Departs an incarnation of this node id whose process is gone. While its liveness lock is held it may only be slow to
/// die; held past the tolerance, somebody else runs under this node id.
async fn wait_until_gone(
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
    within(ANSWER_TIMEOUT, client.query(LOCK_RELEASE, &[&vec![key.0]])).await?;
    tracing::info!(incarnation = %older, released, "departed an older incarnation of this node");
    Ok(())
}

fn foreign_holder(foreign: &ForeignLock) -> Error {
    Error::conflict(
        "lock-held-by-foreign-session",
        format!(
            "a lock that only a node of this id needs is held by a session that is no node's: process {} of the server, user \
             {:?}, application {:?}; end that session (pg_terminate_backend), and revoke CONNECT on the database from those \
             who need none",
            foreign.process_id, foreign.user, foreign.application
        ),
    )
}

/// Takes a lock that only a process of the same node id can hold, or refuses to share that id.
async fn take(base: &Connector, session: &Session, key: LockKey, options: &MembershipOptions) -> Result<()> {
    let began = Instant::now();
    loop {
        let rows = within(ANSWER_TIMEOUT, session.client.query(LOCK_TRY, &[&vec![key.0]])).await?;
        if rows.first().is_some_and(|row| row.get(1)) {
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
