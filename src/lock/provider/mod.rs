//! The providers that keep the locks.

/// Implements `LockProvider` for a provider that has one table as long as it lives.
macro_rules! provide_from_table {
    ($provider:ty) => {
        impl LockProvider for $provider {
            fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
                Box::pin(handle::acquire(&self.table, request, timeout))
            }

            fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
                Box::pin(handle::try_acquire(&self.table, request))
            }

            fn try_acquire_many(&self, requests: Vec<LockRequest>) -> BoxFuture<'_, Result<Vec<Option<LockHandle>>>> {
                Box::pin(handle::try_acquire_many(&self.table, requests))
            }

            fn domain(&self) -> Option<String> {
                Some(self.domain.to_string())
            }

            fn stats(&self) -> LockStats {
                self.table.stats()
            }

            fn held(&self) -> Vec<HeldLock> {
                self.table.held()
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
