//! The locks of instances. Whatever a lock provider says, the fences of a commit decide who writes.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::Result;
use crate::id::InstanceId;
use crate::lock::{HeldLock, LockHandle, LockProvider, LockRequest, SessionLocks};
use crate::store::claim::InstanceKey;
use crate::store::commit::CommitGuard;

/// The locks of a node.
pub(crate) struct NodeLocks {
    pub(crate) instances: InstanceLocks,
    /// The session of this registration, whichever provider keeps the locks of instances.
    pub(crate) session: SessionLocks,
}

/// What keeps the locks of instances.
#[derive(Clone)]
pub(crate) enum InstanceLocks {
    Session(SessionLocks),
    Provider(Arc<dyn LockProvider>),
}

impl InstanceLocks {
    /// Tries to take the lock of each instance, without waiting; none for one that is held. Dropped half-way, the locks taken
    /// so far are released.
    pub(crate) async fn try_instances(&self, instances: &[InstanceKey]) -> Result<Vec<Option<LockHandle>>> {
        match self {
            Self::Session(locks) => locks.try_instances(instances).await,
            Self::Provider(locks) => {
                let name = |(tenant, instance): &InstanceKey| format!("instance:{tenant}:{instance}");
                let each = instances
                    .iter()
                    .map(|key| locks.try_acquire(LockRequest::exclusive(name(key))));
                futures_util::future::try_join_all(each).await
            }
        }
    }

    /// The locks that the program's own provider holds in this process; none where the session keeps them.
    pub(crate) fn held_by_provider(&self) -> Vec<HeldLock> {
        match self {
            Self::Session(_) => Vec::new(),
            Self::Provider(locks) => locks.held(),
        }
    }
}

/// The lock of an instance, held by a burst. Dropping it releases the lock. The log messages are those that users of Elsa
/// search for.
pub(crate) struct InstanceLock {
    instance: InstanceId,
    guard: Option<LockHandle>,
    /// The worker of the burst; none: it was released, as the commit waits for a lock of another transaction.
    worker: Option<OwnedSemaphorePermit>,
}

impl CommitGuard for InstanceLock {
    fn contended(&mut self) {
        self.worker = None;
    }
}

impl InstanceLock {
    pub(crate) fn new(instance: &InstanceId, guard: LockHandle) -> Self {
        let mut lock = Self::not_needed(instance);
        lock.hold(guard);
        lock
    }

    /// For an instance that does not exist before the first commit of the burst whose start is claimed: until then no other
    /// node can load it, and the claim alone decides. Saves two round trips for each start.
    pub(crate) fn not_needed(instance: &InstanceId) -> Self {
        Self {
            instance: instance.clone(),
            guard: None,
            worker: None,
        }
    }

    /// Keeps the permit of the worker that runs the burst.
    pub(crate) fn keep_worker(&mut self, permit: OwnedSemaphorePermit) {
        self.worker = Some(permit);
    }

    /// Whether the burst still has its worker.
    pub(crate) fn has_worker(&self) -> bool {
        self.worker.is_some()
    }

    /// Holds the lock of an instance that now exists.
    pub(crate) fn hold(&mut self, guard: LockHandle) {
        tracing::debug!("Acquired distributed lock for workflow instance {}", self.instance);
        self.guard = Some(guard);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.guard.is_some()
    }

    /// Whether the session that held it has ended.
    pub(crate) fn is_lost(&self) -> bool {
        self.guard.as_ref().is_some_and(LockHandle::is_lost)
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            drop(guard);
            tracing::debug!("Released distributed lock for workflow instance {}", self.instance);
        }
    }
}
