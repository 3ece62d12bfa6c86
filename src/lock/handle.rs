//! A held lock, and a request for one that is pending.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either};
use tokio::sync::oneshot;

use super::request::{KeyRequest, LockRequest};
use super::shared_table::{FencingToken, SharedTable};
use super::table::Ticket;
use crate::{Error, Result};

/// The held locks of one request. They are released when it is dropped, or when the process ends, however it ends.
///
/// Locks are not re-entrant: a task that requests a lock that it already holds waits for itself.
#[must_use = "a lock is released when its handle is dropped"]
pub struct LockHandle {
    owner: Owner,
    token: tokio::sync::OnceCell<FencingToken>,
}

/// What a provider in another crate grants. Dropping it releases the locks.
pub trait LockGrant: Send + Sync + 'static {
    /// Whether another process may hold the locks by now, as far as is known. It must be cheap, because it is called before
    /// each activity.
    fn is_lost(&self) -> bool;

    /// Returns when the locks are lost, at once if they already are; not when they are released.
    fn lost(&self) -> BoxFuture<'static, ()>;

    /// Draws a token, greater than those of all earlier holders of the same names. It is called once for each grant.
    ///
    /// # Errors
    /// After a loss of the locks [`Error::lost_lock`], never a token that is too new.
    fn fencing_token(&self) -> BoxFuture<'_, Result<FencingToken>>;
}

enum Owner {
    Table { ticket: Ticket, table: Arc<SharedTable> },
    Grant(Arc<dyn LockGrant>),
}

impl LockHandle {
    /// A handle for what a provider in another crate has granted.
    pub fn new(grant: impl LockGrant) -> Self {
        Self::of(Owner::Grant(Arc::new(grant)))
    }

    fn of(owner: Owner) -> Self {
        let token = tokio::sync::OnceCell::new();
        Self { owner, token }
    }

    /// Whether the provider has lost its connection, or the lease has ended, so that another process may hold the lock by now.
    /// False is not a promise: a loss may be noticed up to ten seconds late, when an unresponsive connection counts as lost.
    pub fn is_lost(&self) -> bool {
        match &self.owner {
            Owner::Table { ticket, table } => table.is_lease_lost(*ticket),
            Owner::Grant(grant) => grant.is_lost(),
        }
    }

    /// Returns when the lock is lost, at once if it already is; not when it is released. Cancellation safe. The future does
    /// not borrow the handle.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        match &self.owner {
            Owner::Table { ticket, table } => Either::Left(table.lease_lost(*ticket)),
            Owner::Grant(grant) => Either::Right(grant.lost()),
        }
    }

    /// What shows a loss without holding the lock.
    pub(crate) fn loss(&self) -> LockLoss {
        LockLoss(match &self.owner {
            Owner::Table { ticket, table } => Lost::Table(*ticket, Arc::clone(table)),
            Owner::Grant(grant) => Lost::Grant(Arc::downgrade(grant)),
        })
    }

    /// The token of this grant, greater than that of every earlier holder of the same name that asked for one: a logged
    /// transaction id with Postgres (a failover to a replica that was behind may return one again), otherwise a counter. It
    /// is drawn when it is first requested, over the connection that holds the lock. Cancellation safe.
    ///
    /// # Errors
    /// After a loss of the lock [`Error::is_lost_lock`], never a token that is too new.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        let draw = || match &self.owner {
            Owner::Table { ticket, table } => Either::Left(table.draw_token(*ticket)),
            Owner::Grant(grant) => Either::Right(grant.fencing_token()),
        };
        self.token.get_or_try_init(draw).await.copied()
    }
}

impl Drop for LockHandle {
    fn drop(&mut self) {
        if let Owner::Table { ticket, table } = &self.owner {
            table.release(*ticket);
        }
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Owner::Table { ticket, .. } => write!(f, "LockHandle({ticket})"),
            Owner::Grant(_) => f.write_str("LockHandle"),
        }
    }
}

/// Shows whether a handle was lost, without holding its lock.
#[derive(Clone)]
pub(crate) struct LockLoss(Lost);

#[derive(Clone)]
enum Lost {
    Table(Ticket, Arc<SharedTable>),
    Grant(Weak<dyn LockGrant>),
}

impl LockLoss {
    /// False after the release.
    pub(crate) fn is_lost(&self) -> bool {
        match &self.0 {
            Lost::Table(ticket, table) => table.is_lease_lost(*ticket),
            Lost::Grant(grant) => grant.upgrade().is_some_and(|grant| grant.is_lost()),
        }
    }
}

/// A pending request. Dropped before it is ready, it leaves nothing locked and no place in a queue.
pub(super) struct PendingLock {
    /// The request in the table, which becomes the handle; `None` if it was refused at once.
    entry: Option<(Arc<SharedTable>, Ticket)>,
    answer: oneshot::Receiver<bool>,
}

impl PendingLock {
    /// Submits the request now, not when the future is first polled.
    pub(super) fn submit(table: &Arc<SharedTable>, request: KeyRequest, waits: bool) -> Self {
        let (ticket, answer) = table.submit(request, waits);
        Self {
            entry: ticket.map(|ticket| (Arc::clone(table), ticket)),
            answer,
        }
    }
}

impl Future for PendingLock {
    type Output = Result<Option<LockHandle>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|answer| {
            let entry = self.entry.take();
            let granted =
                answer.map_err(|_| Error::lost_lock("the connection that holds the locks ended; try again"))?;
            let owner = |(table, ticket)| Owner::Table { ticket, table };
            Ok(entry.filter(|_| granted).map(|entry| LockHandle::of(owner(entry))))
        })
    }
}

impl Drop for PendingLock {
    fn drop(&mut self) {
        if let Some((table, ticket)) = self.entry.take() {
            table.step(|table, results| table.abandon(ticket, results));
        }
    }
}

/// Waits until the request is granted, up to the timeout. Cancellation safe.
pub(super) async fn acquire(table: &Arc<SharedTable>, request: LockRequest, timeout: Duration) -> Result<LockHandle> {
    let request = table.resolve(request)?;
    let name = request.name.clone();
    let timed_out = || {
        let name = name.text();
        Error::unavailable(
            "lock-timeout",
            format!("the lock {name:?} was not granted within {timeout:?}; another request holds it"),
        )
    };
    match tokio::time::timeout(timeout, PendingLock::submit(table, request, true)).await {
        Ok(answer) => answer?.ok_or_else(timed_out),
        Err(_) => Err(timed_out()),
    }
}

/// Takes the locks if they can be had at once. Cancellation safe.
pub(super) async fn try_acquire(table: &Arc<SharedTable>, request: LockRequest) -> Result<Option<LockHandle>> {
    let request = table.resolve(request)?;
    PendingLock::submit(table, request, false).await
}

/// The same for each of several requests, in one round trip.
pub(super) async fn try_acquire_many(
    table: &Arc<SharedTable>,
    requests: Vec<LockRequest>,
) -> Result<Vec<Option<LockHandle>>> {
    let resolved = requests.into_iter().map(|request| table.resolve(request));
    let resolved = resolved.collect::<Result<Vec<_>>>()?;
    // All are submitted before the first one is awaited.
    let pending = resolved
        .into_iter()
        .map(|request| PendingLock::submit(table, request, false));
    futures_util::future::try_join_all(pending).await
}
