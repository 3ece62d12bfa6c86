//! The lock of an instance, held by a burst, told of in words that users search their logs for.

use crate::id::InstanceId;
use crate::lock::LockHandle;

/// Dropping it releases the lock.
pub(crate) struct InstanceLock {
    instance: InstanceId,
    guard: Option<LockHandle>,
}

impl InstanceLock {
    pub(crate) fn new(instance: &InstanceId, guard: LockHandle) -> Self {
        tracing::debug!("Acquired distributed lock for workflow instance {instance}");
        Self {
            instance: instance.clone(),
            guard: Some(guard),
        }
    }

    /// Of an instance that does not exist before the first commit of the burst that has its start claimed: until then
    /// nobody has anything to load, and the claim alone says whose it is. Two round trips less for each start.
    pub(crate) fn unborn(instance: &InstanceId) -> Self {
        Self {
            instance: instance.clone(),
            guard: None,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.guard.is_some()
    }

    /// Whether the session that held it is gone.
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
