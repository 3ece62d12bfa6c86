//! What keeps the locks.

/// Implements `LockProvider` for a provider that has one frontend as long as it lives.
macro_rules! provide_from_frontend {
    ($provider:ty) => {
        impl LockProvider for $provider {
            fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
                Box::pin(handle::acquire(&self.frontend, request, timeout))
            }

            fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
                Box::pin(handle::try_acquire(&self.frontend, request))
            }

            fn try_acquire_many(&self, requests: Vec<LockRequest>) -> BoxFuture<'_, Result<Vec<Option<LockHandle>>>> {
                Box::pin(handle::try_acquire_many(&self.frontend, requests))
            }

            fn domain(&self) -> Option<String> {
                Some(self.domain.to_string())
            }

            fn stats(&self) -> LockStats {
                self.frontend.stats()
            }

            fn held(&self) -> Vec<HeldLock> {
                self.frontend.held()
            }
        }
    };
}

mod faults;
pub(super) mod file;
pub(super) mod local;
pub(super) mod postgres;
#[cfg(feature = "redis")]
pub(super) mod redis;
