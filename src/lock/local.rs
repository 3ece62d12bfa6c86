//! Locks within one process: for a single node, and for tests.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use super::LockProvider;
use super::front::{Front, TokenRequest};
use super::handle::{FencingToken, LockHandle};
use super::key::{Keying, LockKey};
use super::request::LockRequest;
use super::stats::LockStats;
use super::table::{Back, HeldLock};
use crate::Result;

/// Locks among the tasks of this process. Cheap to clone; clones share their locks, two providers share nothing.
#[derive(Clone)]
pub struct LocalLocks {
    front: Arc<Front>,
    _tokens: Arc<AbortOnDropHandle<()>>,
}

impl LocalLocks {
    /// A provider of its own. Must be called within a tokio runtime.
    pub fn new() -> Self {
        Self::with_keying(LockKey::of)
    }

    pub(super) fn with_keying(keying: Keying) -> Self {
        let behind = Front::open(Back::None, "local", keying);
        let counting = tokio::spawn(count_tokens(behind.tokens, behind.ended));
        Self {
            front: behind.front,
            _tokens: Arc::new(AbortOnDropHandle::new(counting)),
        }
    }
}

impl Default for LocalLocks {
    fn default() -> Self {
        Self::new()
    }
}

/// Nothing here is ever lost: the sender is kept for as long as the provider lives.
async fn count_tokens(mut tokens: mpsc::Receiver<TokenRequest>, _ended: watch::Sender<bool>) {
    let mut last = 0;
    while let Some(reply) = tokens.recv().await {
        last += 1;
        // Who asked may have gone away; a number is skipped then.
        let _ = reply.send(Ok(FencingToken(last)));
    }
}

impl LockProvider for LocalLocks {
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
        Box::pin(self.front.acquire(request, timeout))
    }

    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
        Box::pin(self.front.try_acquire(request))
    }

    fn stats(&self) -> LockStats {
        self.front.stats()
    }

    fn held(&self) -> Vec<HeldLock> {
        self.front.held()
    }
}
