//! Advisory locks of Postgres: all locks of a node on one session.
//!
//! `session`: the actor that holds the connection. `message`: what nodes send each other. `full_table`: detects a server
//! whose lock table is full.

mod full_table;
mod message;
mod session;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::future::try_join_all;
use tokio::sync::watch;

use crate::db::{Connector, DatabaseUrl, SchemaName};
use crate::id::{InstanceId, TenantId};
use crate::lock::LockProvider;
use crate::lock::handle::{self, LockHandle, PendingLock};
use crate::lock::key::{KeyFunction, LockKey};
use crate::lock::request::{KeyRequest, Keys, LockMode, LockName, LockRequest};
use crate::lock::shared_table::SharedTable;
use crate::lock::stats::LockStats;
use crate::lock::table::{HeldLock, KeyView};
use crate::watchdog::WatchedPart;
use crate::{Error, Result};

use full_table::FullTable;
pub(crate) use session::SessionTask;

/// How many locks a node may hold at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Budget {
    /// This node's part of half of the server's lock table, which this number of nodes shares.
    Nodes(usize),
    /// This number.
    Locks(usize),
}

impl Budget {
    /// With the default settings of Postgres (64 locks for each of 100 connections) and three nodes this is 1,066. The
    /// other half is for other sessions and for locks on tables and rows.
    fn of(self, capacity: i64) -> usize {
        match self {
            Self::Nodes(nodes) => (usize::try_from(capacity).unwrap_or(0) / 2 / nodes.max(1)).max(1),
            Self::Locks(locks) => locks.max(1),
        }
    }
}

/// The name of the lock that the leader among the schedulers holds.
const LEADER: &str = "mainspring:scheduler";

/// The size of cluster for which the default budget is enough: the one in `docker-compose.yml`.
const NODES: usize = 3;

/// The locks of a node. Cheap to clone; the session ends when [`SessionTask`] is dropped.
#[derive(Clone)]
pub(crate) struct SessionLocks {
    table: Arc<SharedTable>,
    full: Arc<FullTable>,
}

impl SessionLocks {
    /// Opens the session and takes the liveness lock, which no other session may hold.
    pub(crate) async fn start(
        connector: &Connector,
        liveness: LockKey,
        watch: impl FnOnce() -> WatchedPart,
    ) -> Result<(Self, SessionTask)> {
        let budget = Budget::Nodes(NODES);
        let (table, task, full) = session::start(connector, Some(liveness), budget, LockKey::of, watch).await?;
        Ok((Self { table, full }, task))
    }

    /// Tries to take the lock of each instance at once; `None` for one that is held or waited for. If the future is dropped
    /// halfway, it releases the taken locks.
    pub(crate) async fn try_instances(&self, instances: &[(TenantId, InstanceId)]) -> Result<Vec<Option<LockHandle>>> {
        let named = |(tenant, instance): &(TenantId, InstanceId)| {
            let key = LockKey::instance(self.table.namespace(), tenant, instance);
            (key, LockName::Instance(instance.clone()))
        };
        self.try_lock(instances.iter().map(named)).await
    }

    /// Waits for the lock of the leader among the schedulers. Cancellation safe.
    pub(crate) async fn acquire_leadership(&self, timeout: Duration) -> Result<LockHandle> {
        handle::acquire(&self.table, LockRequest::exclusive(LEADER), timeout).await
    }

    pub(in crate::lock) async fn try_lock(
        &self,
        keys: impl Iterator<Item = (LockKey, LockName)>,
    ) -> Result<Vec<Option<LockHandle>>> {
        let submit = |(key, name)| {
            let request = KeyRequest {
                keys: Keys::One([(key, LockMode::Exclusive)]),
                any: false,
                name,
                names: Vec::new(),
            };
            PendingLock::submit(&self.table, request, false)
        };
        // All are submitted before the first answer is awaited, so they share a round trip.
        let pending: Vec<_> = keys.map(submit).collect();
        try_join_all(pending).await
    }

    /// Every key that this node holds or waits for.
    pub(crate) fn view(&self) -> Vec<KeyView> {
        self.table.view()
    }

    /// Why the server's lock table has no room, while it has none.
    pub(crate) fn full_table(&self) -> Option<String> {
        self.full.cause()
    }

    /// Turns true when the session has ended. Cancellation safe.
    pub(crate) fn lost(&self) -> watch::Receiver<bool> {
        self.table.lost()
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
    /// The same name in two schemas is two different locks; the default is `mainspring`. The schema need not exist.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// The maximum number of providers that share the server's lock table; the default is 3. Each holds no more than its
    /// part of half the table, which is `max_locks_per_transaction * (max_connections + max_prepared_transactions)`;
    /// additional requests wait.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.budget = Budget::Nodes(nodes);
        self
    }

    /// The maximum number of locks that this provider holds, whatever the size of the server's lock table.
    #[must_use]
    pub fn most_locks(mut self, locks: usize) -> Self {
        self.budget = Budget::Locks(locks);
        self
    }
}

/// Locks in PostgreSQL: advisory locks of the session of one connection, which are free when it ends, as it does with the
/// process or the last clone. A lost connection loses all handles; the next call opens another connection. No transaction
/// pooler (pgbouncer in transaction mode) may be in between, because it shares the session among clients.
#[derive(Clone)]
pub struct PostgresLocks {
    shared: Arc<Shared>,
}

struct Shared {
    connector: Connector,
    budget: Budget,
    key_function: KeyFunction,
    /// Locked while a session is opened, so that concurrent callers share the new one.
    opening: tokio::sync::Mutex<()>,
    session: std::sync::Mutex<(Arc<SharedTable>, SessionTask, Arc<FullTable>)>,
}

impl PostgresLocks {
    /// Connects to `postgres://user:password@host:port/database`. Must be called within a tokio runtime.
    pub async fn connect(database_url: &str, options: PostgresLockOptions) -> Result<Self> {
        let url = DatabaseUrl::parse(database_url)?;
        let connector = Connector::new(&url, &SchemaName::parse(&options.schema)?)?;
        Self::with(connector, options.budget, LockKey::of).await
    }

    pub(in crate::lock) async fn with(connector: Connector, budget: Budget, key_function: KeyFunction) -> Result<Self> {
        let session = session::start(&connector, None, budget, key_function, WatchedPart::unwatched).await?;
        Ok(Self {
            shared: Arc::new(Shared {
                connector,
                budget,
                key_function,
                opening: tokio::sync::Mutex::new(()),
                session: std::sync::Mutex::new(session),
            }),
        })
    }

    fn table(&self) -> Arc<SharedTable> {
        let session = self.shared.session.lock();
        Arc::clone(&session.unwrap_or_else(std::sync::PoisonError::into_inner).0)
    }

    /// The table of the session, unless that was lost.
    fn live_table(&self) -> Option<Arc<SharedTable>> {
        Some(self.table()).filter(|table| !table.is_lost())
    }

    async fn open_table(&self) -> Result<Arc<SharedTable>> {
        match self.live_table() {
            Some(table) => Ok(table),
            // Boxed: each request would otherwise move several kilobytes, the future of a new connection.
            None => Box::pin(self.reopen()).await,
        }
    }

    /// Opens another session in place of the lost one, unless another caller just has.
    async fn reopen(&self) -> Result<Arc<SharedTable>> {
        let shared = &self.shared;
        let _opening = shared.opening.lock().await;
        if let Some(table) = self.live_table() {
            return Ok(table);
        }
        let (budget, key_function) = (shared.budget, shared.key_function);
        let session = session::start(&shared.connector, None, budget, key_function, WatchedPart::unwatched).await?;
        let table = Arc::clone(&session.0);
        let previous = std::mem::replace(
            &mut *shared.session.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
            session,
        );
        drop(previous);
        Ok(table)
    }
}

impl LockProvider for PostgresLocks {
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
        Box::pin(async move {
            if let Some(table) = self.live_table() {
                return handle::acquire(&table, request, timeout).await;
            }
            let began = tokio::time::Instant::now();
            let table = match tokio::time::timeout(timeout, Box::pin(self.reopen())).await {
                Ok(table) => table?,
                Err(_) => {
                    return Err(Error::unavailable(
                        "lock-timeout",
                        format!("the database could not be reached within {timeout:?}"),
                    ));
                }
            };
            handle::acquire(&table, request, timeout.saturating_sub(began.elapsed())).await
        })
    }

    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
        Box::pin(async move { handle::try_acquire(&self.open_table().await?, request).await })
    }

    fn try_acquire_many(&self, requests: Vec<LockRequest>) -> BoxFuture<'_, Result<Vec<Option<LockHandle>>>> {
        Box::pin(async move { handle::try_acquire_many(&self.open_table().await?, requests).await })
    }

    fn is_away(&self) -> bool {
        self.away_cause().is_some()
    }

    fn away_cause(&self) -> Option<String> {
        let session = self.shared.session.lock();
        session.unwrap_or_else(std::sync::PoisonError::into_inner).2.cause()
    }

    fn stats(&self) -> LockStats {
        self.table().stats()
    }

    fn held(&self) -> Vec<HeldLock> {
        self.table().held()
    }
}
