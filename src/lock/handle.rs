//! A held lock, and whoever waits for one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::front::Front;
use super::table::Ticket;
use crate::{Error, Result};

/// A number that grows with each holder of a lock, to be checked by whatever the lock protects.
///
/// A lock alone cannot stop a holder that was paused for so long that it was taken for dead: it may still write after
/// somebody else has the lock. Whoever remembers the highest token that it has seen, and refuses a smaller one, can.
/// Tokens of different names, and of different providers, are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub(super) u64);

impl FencingToken {
    /// The number, for a column or a header.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was asked for, held. Dropping it gives everything back; so does the end of the process, however it ends.
///
/// Locks are not re-entrant: who asks again for what it holds waits for itself.
#[must_use = "a lock is given back when its handle is dropped"]
pub struct LockHandle {
    ticket: Ticket,
    front: Arc<Front>,
    token: tokio::sync::OnceCell<FencingToken>,
}

impl LockHandle {
    pub(super) fn new(front: &Arc<Front>, ticket: Ticket) -> Self {
        Self {
            ticket,
            front: Arc::clone(front),
            token: tokio::sync::OnceCell::new(),
        }
    }

    /// Whether the provider has lost its connection, so that somebody else may have the lock by now. False is no
    /// promise: the news takes its time, up to the ten seconds after which a silent connection counts as dead.
    pub fn is_lost(&self) -> bool {
        self.front.is_lost()
    }

    /// Returns when the lock is lost, at once if it is lost already; giving it back does not make it return. Cancellation
    /// safe. The future does not borrow the handle.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut lost = self.front.lost();
        async move {
            // A sender that is gone means that its task has ended, which is as bad.
            let _ = lost.wait_for(|lost| *lost).await;
        }
    }

    /// The token of this grant, greater than that of every earlier holder of the same name that asked for one. It is
    /// drawn when it is first asked for, over the very connection that holds the lock: who has lost the lock gets an
    /// error ([`Error::is_lost_lock`]), never a token that is too new. Cancellation safe.
    ///
    /// Of Postgres it is a transaction id, which is logged before it is given out: it grows across restarts and crashes
    /// of the server, but a failover to a replica that was behind may give one again. Of files it is a counter beside
    /// them. In process it is a counter.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        let token = self.token.get_or_try_init(|| self.front.draw_token()).await;
        token.copied()
    }
}

impl Drop for LockHandle {
    fn drop(&mut self) {
        self.front.release(self.ticket);
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockHandle({})", self.ticket)
    }
}

/// Somebody who asked. Dropped before the answer, nothing stays locked and its place in line is free.
pub(super) struct Waiting {
    front: Arc<Front>,
    ticket: Option<Ticket>,
    answer: oneshot::Receiver<Option<LockHandle>>,
}

impl Waiting {
    pub(super) fn new(
        front: &Arc<Front>,
        ticket: Option<Ticket>,
        answer: oneshot::Receiver<Option<LockHandle>>,
    ) -> Self {
        Self {
            front: Arc::clone(front),
            ticket,
            answer,
        }
    }
}

impl Future for Waiting {
    type Output = Result<Option<LockHandle>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|answer| {
            self.ticket = None;
            answer.map_err(|_| Error::lost_lock("the connection that holds the locks ended; try again"))
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.front.abandon(ticket);
        }
    }
}
