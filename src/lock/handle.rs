//! A held lock, and a request for one that is pending.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use super::frontend::{FencingToken, Frontend};
use super::request::{KeyRequest, LockRequest};
use super::table::Ticket;
use crate::{Error, Result};

/// The locks of one request, held. They are released when it is dropped, or when the process ends, however it ends.
///
/// Locks are not re-entrant: a task that asks again for a lock that it holds waits for itself.
#[must_use = "a lock is released when its handle is dropped"]
pub struct LockHandle {
    ticket: Ticket,
    frontend: Arc<Frontend>,
    token: tokio::sync::OnceCell<FencingToken>,
}

impl LockHandle {
    /// Whether the provider has lost its connection, so that another process may hold the lock by now. False is no
    /// promise: a loss is noticed late, up to the ten seconds after which an unresponsive connection counts as lost.
    pub fn is_lost(&self) -> bool {
        self.frontend.is_lost()
    }

    /// Returns when the lock is lost, at once if it is lost already; not when it is released. Cancellation safe. The
    /// future does not borrow the handle.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut lost = self.frontend.lost();
        async move {
            // A sender that is gone means that its task has ended: the lock is lost, too.
            let _ = lost.wait_for(|lost| *lost).await;
        }
    }

    /// The token of this grant, greater than that of every earlier holder of the same name that asked for one: a logged
    /// transaction id with Postgres (a failover to a replica that was behind may return one again), else a counter. It is drawn
    /// when it is first asked for, over the connection that holds the lock. Cancellation safe.
    ///
    /// # Errors
    /// After a loss of the lock [`Error::is_lost_lock`], never a token that is too new.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        let token = self.token.get_or_try_init(|| self.frontend.draw_token()).await;
        token.copied()
    }
}

impl Drop for LockHandle {
    fn drop(&mut self) {
        self.frontend.step(|table, step| table.release(self.ticket, step));
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockHandle({})", self.ticket)
    }
}

/// A pending request. Dropped before it is ready, it leaves nothing locked and no place in a queue.
pub(super) struct PendingLock {
    /// The request in the table, which becomes the handle; none if it was refused at once.
    entry: Option<(Arc<Frontend>, Ticket)>,
    answer: oneshot::Receiver<bool>,
}

impl PendingLock {
    /// Submits the request now, not when the future is first polled.
    pub(super) fn submit(frontend: &Arc<Frontend>, request: KeyRequest, waits: bool) -> Self {
        let (ticket, answer) = frontend.submit(request, waits);
        Self {
            entry: ticket.map(|ticket| (Arc::clone(frontend), ticket)),
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
            Ok(entry.filter(|_| granted).map(|(frontend, ticket)| LockHandle {
                ticket,
                frontend,
                token: tokio::sync::OnceCell::new(),
            }))
        })
    }
}

impl Drop for PendingLock {
    fn drop(&mut self) {
        if let Some((frontend, ticket)) = self.entry.take() {
            frontend.step(|table, step| table.abandon(ticket, step));
        }
    }
}

/// Waits until the request is granted, up to the timeout. Cancellation safe.
pub(super) async fn acquire(frontend: &Arc<Frontend>, request: LockRequest, timeout: Duration) -> Result<LockHandle> {
    let request = frontend.resolve(request)?;
    let name = request.name.clone();
    let timed_out = || {
        let name = name.text();
        Error::unavailable(
            "lock-timeout",
            format!("the lock {name:?} was not granted within {timeout:?}; another request holds it"),
        )
    };
    match tokio::time::timeout(timeout, PendingLock::submit(frontend, request, true)).await {
        Ok(answer) => answer?.ok_or_else(timed_out),
        Err(_) => Err(timed_out()),
    }
}

/// Takes the locks if they can be had at once. Cancellation safe.
pub(super) async fn try_acquire(frontend: &Arc<Frontend>, request: LockRequest) -> Result<Option<LockHandle>> {
    let request = frontend.resolve(request)?;
    PendingLock::submit(frontend, request, false).await
}
