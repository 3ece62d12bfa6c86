//! Advisory locks of Postgres: all locks of a node on one session.
//!
//! - `session`: the actor that holds the connection.
//! - `hint`: what nodes tell each other.
//! - `plain`: the same without all this, for comparison.

mod hint;
#[cfg(feature = "bench")]
mod plain;
mod session;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::future::try_join_all;
use tokio::sync::watch;

use super::LockProvider;
use super::front::Front;
use super::handle::LockHandle;
use super::key::{Keying, LockKey};
use super::request::{Keys, LockMode, LockRequest, Name, Wish};
use super::stats::LockStats;
use super::table::{HeldLock, KeyView};
use crate::db::{Connector, DatabaseUrl, SchemaName};
use crate::id::{InstanceId, TenantId};
use crate::{Error, Result};

#[cfg(feature = "bench")]
pub(crate) use plain::{PlainForm, PlainLocks};
pub(crate) use session::SessionTask;

/// How many locks a node may hold at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Budget {
    /// This node's part of half of what the server's lock table is made for, when so many nodes share it.
    Nodes(usize),
    /// So many.
    Locks(usize),
}

impl Budget {
    /// With the default settings of Postgres (64 locks for each of 100 connections) and three nodes this is 1,066. The
    /// other half stays free for everybody else's locks on tables and rows.
    fn of(self, capacity: i64) -> usize {
        match self {
            Self::Nodes(nodes) => (usize::try_from(capacity).unwrap_or(0) / 2 / nodes.max(1)).max(1),
            Self::Locks(locks) => locks.max(1),
        }
    }
}

/// What the lock of the one active scheduler is called.
const SCHEDULER: &str = "mainspring:scheduler";

/// The size of cluster for which the default budget is enough: the one in `docker-compose.yml`.
const NODES: usize = 3;

/// The locks of a node. Cheap to clone; the session ends when [`SessionTask`] is dropped.
#[derive(Clone)]
pub(crate) struct SessionLocks {
    front: Arc<Front>,
}

impl SessionLocks {
    /// Opens the session and takes `first`, which nobody else may hold.
    pub(crate) async fn start(connector: &Connector, first: LockKey) -> Result<(Self, SessionTask)> {
        let (front, task) = session::start(connector, Some(first), Budget::Nodes(NODES), LockKey::of).await?;
        Ok((Self { front }, task))
    }

    /// Tries to take the lock of each instance, at once; one that somebody has, or stands in line for, is answered with
    /// none. Dropped half-way, what was taken is given back.
    pub(crate) async fn try_instances(&self, instances: &[(TenantId, InstanceId)]) -> Result<Vec<Option<LockHandle>>> {
        let named = |(tenant, instance): &(TenantId, InstanceId)| {
            let key = LockKey::instance(self.front.space(), tenant, instance);
            (key, Name::Instance(instance.clone()))
        };
        self.try_lock(instances.iter().map(named)).await
    }

    /// Waits for the lock of the one active scheduler. Cancellation safe.
    pub(crate) async fn scheduler(&self, patience: Duration) -> Result<LockHandle> {
        self.front.acquire(LockRequest::exclusive(SCHEDULER), patience).await
    }

    pub(super) async fn try_lock(
        &self,
        keys: impl Iterator<Item = (LockKey, Name)>,
    ) -> Result<Vec<Option<LockHandle>>> {
        let ask = |(key, name)| {
            let wish = Wish {
                keys: Keys::One([(key, LockMode::Exclusive)]),
                any: false,
                name,
            };
            self.front.ask(wish, false)
        };
        // All are asked before the first answer is awaited, so they share a round trip.
        let asked: Vec<_> = keys.map(ask).collect();
        try_join_all(asked).await
    }

    /// What this node holds now: the locks of instances are called `instance:` and the instance's id.
    #[allow(dead_code, reason = "for whoever shows the locks of a node")]
    pub(crate) fn held(&self) -> Vec<HeldLock> {
        self.front.held()
    }

    /// Every key that this node has or waits for.
    pub(crate) fn view(&self) -> Vec<KeyView> {
        self.front.view()
    }

    /// What was counted since the session was opened.
    #[allow(dead_code, reason = "for whoever shows the locks of a node")]
    pub(crate) fn stats(&self) -> LockStats {
        self.front.stats()
    }

    /// Turns true when the session has ended. Cancellation safe.
    pub(crate) fn lost(&self) -> watch::Receiver<bool> {
        self.front.lost()
    }
}

/// How a provider on Postgres is set up.
#[derive(Clone, Debug)]
pub struct PostgresLockOptions {
    schema: String,
    budget: Budget,
}

impl Default for PostgresLockOptions {
    fn default() -> Self {
        Self {
            schema: "mainspring".to_owned(),
            budget: Budget::Nodes(NODES),
        }
    }
}

impl PostgresLockOptions {
    /// Names of one schema are other locks than those of another; the default is `mainspring`. The schema need not
    /// exist.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// How many providers share the server's table of locks, at most; the default is 3. Each holds no more than its part
    /// of half the table, which is `max_locks_per_transaction * (max_connections + max_prepared_transactions)`; whoever
    /// asks for more waits in line.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.budget = Budget::Nodes(nodes);
        self
    }

    /// How many locks this provider holds at most, whatever the server says.
    #[must_use]
    pub fn most_locks(mut self, locks: usize) -> Self {
        self.budget = Budget::Locks(locks);
        self
    }
}

/// Locks in PostgreSQL, over one connection however many are held or waited for. Cheap to clone; when the last clone is
/// dropped the connection closes, and every lock is free.
///
/// They are advisory locks of the session, so the server frees them when the process ends, however it ends. A transaction
/// pooler (pgbouncer in transaction mode) cannot stand between: it would hand the session to somebody else. When the
/// connection is lost so are all handles; the next call opens another.
#[derive(Clone)]
pub struct PostgresLocks {
    shared: Arc<Shared>,
}

struct Shared {
    connector: Connector,
    budget: Budget,
    keying: Keying,
    /// Locked while it is opened anew: everybody else waits for that one.
    open: tokio::sync::Mutex<()>,
    session: std::sync::Mutex<(Arc<Front>, SessionTask)>,
}

impl PostgresLocks {
    /// Connects to `postgres://user:password@host:port/database`. Must be called within a tokio runtime.
    pub async fn connect(database_url: &str, options: PostgresLockOptions) -> Result<Self> {
        let url = DatabaseUrl::parse(database_url)?;
        let connector = Connector::new(&url, &SchemaName::parse(&options.schema)?)?;
        Self::with(connector, options.budget, LockKey::of).await
    }

    pub(super) async fn with(connector: Connector, budget: Budget, keying: Keying) -> Result<Self> {
        let session = session::start(&connector, None, budget, keying).await?;
        Ok(Self {
            shared: Arc::new(Shared {
                connector,
                budget,
                keying,
                open: tokio::sync::Mutex::new(()),
                session: std::sync::Mutex::new(session),
            }),
        })
    }

    pub(super) fn front(&self) -> Arc<Front> {
        let session = self.shared.session.lock();
        Arc::clone(&session.unwrap_or_else(std::sync::PoisonError::into_inner).0)
    }

    /// The session, opened anew if it was lost.
    async fn alive(&self) -> Result<Arc<Front>> {
        let front = self.front();
        if !front.is_lost() {
            return Ok(front);
        }
        let shared = &self.shared;
        let _one_at_a_time = shared.open.lock().await;
        let front = self.front();
        if !front.is_lost() {
            return Ok(front);
        }
        let session = session::start(&shared.connector, None, shared.budget, shared.keying).await?;
        let front = Arc::clone(&session.0);
        let before = std::mem::replace(
            &mut *shared.session.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
            session,
        );
        drop(before);
        Ok(front)
    }
}

impl LockProvider for PostgresLocks {
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
        Box::pin(async move {
            let began = tokio::time::Instant::now();
            let front = match tokio::time::timeout(timeout, self.alive()).await {
                Ok(front) => front?,
                Err(_) => {
                    return Err(Error::unavailable(
                        "lock-timeout",
                        "the database could not be reached in time",
                    ));
                }
            };
            front.acquire(request, timeout.saturating_sub(began.elapsed())).await
        })
    }

    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
        Box::pin(async move { self.alive().await?.try_acquire(request).await })
    }

    fn stats(&self) -> LockStats {
        self.front().stats()
    }

    fn held(&self) -> Vec<HeldLock> {
        self.front().held()
    }
}
