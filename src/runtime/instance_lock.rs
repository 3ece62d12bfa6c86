//! The lock of an instance, held by a burst, told of in words that users search their logs for.

use crate::id::InstanceId;
use crate::lock::LockGuard;

/// Dropping it releases the lock.
pub(super) struct InstanceLock {
    instance: InstanceId,
    guard: Option<LockGuard>,
}

impl InstanceLock {
    pub(super) fn new(instance: &InstanceId, guard: LockGuard) -> Self {
        tracing::debug!("Acquired distributed lock for workflow instance {instance}");
        Self {
            instance: instance.clone(),
            guard: Some(guard),
        }
    }

    /// Whether the session that held it is gone.
    pub(super) fn is_lost(&self) -> bool {
        self.guard.as_ref().is_none_or(LockGuard::is_lost)
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        drop(self.guard.take());
        tracing::debug!("Released distributed lock for workflow instance {}", self.instance);
    }
}
