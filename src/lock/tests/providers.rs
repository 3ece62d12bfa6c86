//! Each provider against the conformance suite.

use std::sync::Arc;

use crate::lock::key::LockKey;
use crate::lock::provider::postgres::Budget;
use crate::lock::{FileLocks, LocalLocks, LockProvider, LockRequest, PostgresLocks};
use crate::testing::conformance::lock::{
    self as conformance, LONG, LockMembers, Provider, acquire, attempt, each_case, is_queued, lock,
};
use crate::testing::store::Fixture;

/// The suite, as a module of tests for a factory, and a case with a provider that has one key for all names.
macro_rules! conformance {
    ($module:ident, $factory:expr, $colliding:expr) => {
        mod $module {
            use super::*;
            each_case!(conformance @ $factory;);

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn names_with_one_key_exclude_each_other() {
                let factory = $factory.await;
                super::names_with_one_key_exclude_each_other($colliding(&factory).await).await;
            }
        }
    };
    (@ $factory:expr; $($test:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let factory = $factory.await;
            tokio::time::timeout(LONG * 2, conformance::$test(&factory)).await.expect("the test hangs");
        }
    )*};
}

async fn names_with_one_key_exclude_each_other(provider: Provider) {
    let handle = lock(&provider, "one").await;
    assert!(attempt(&provider, LockRequest::exclusive("two")).await.is_none());
    let mut waiting = provider.acquire(LockRequest::shared("two"), LONG);
    is_queued(&mut waiting, &provider).await;
    let names: Vec<String> = provider.held().iter().map(|held| held.name.to_string()).collect();
    assert_eq!(names, ["one"], "the name of the holder, not of the waiting request");
    drop(handle);
    drop(waiting.await.unwrap());
    // In one request they are one lock, not a deadlock.
    drop(acquire(&provider, LockRequest::exclusive("one").and_exclusive("two")).await);
    drop(acquire(&provider, LockRequest::semaphore("three", 1)).await);
}

/// There is only one process.
struct Local(LocalLocks);

impl LockMembers for Local {
    async fn provider(&self) -> Arc<dyn LockProvider> {
        Arc::new(self.0.clone())
    }
}

impl Local {
    async fn colliding(&self) -> Arc<dyn LockProvider> {
        Arc::new(LocalLocks::with_key_function(|_| LockKey(7)))
    }
}

conformance!(local, async { Local(LocalLocks::new()) }, Local::colliding);

struct Postgres(Fixture);

impl LockMembers for Postgres {
    async fn provider(&self) -> Arc<dyn LockProvider> {
        let locks = PostgresLocks::with(self.0.base.clone(), Budget::Nodes(3), LockKey::of).await;
        Arc::new(locks.unwrap())
    }
}

impl Postgres {
    async fn colliding(&self) -> Arc<dyn LockProvider> {
        let locks = PostgresLocks::with(self.0.base.clone(), Budget::Nodes(3), |_| LockKey(7)).await;
        Arc::new(locks.unwrap())
    }
}

conformance!(postgres, async { Postgres(Fixture::new().await) }, Postgres::colliding);

/// A directory of its own. Each provider opens the files for itself, as a process would.
pub(super) struct Files(pub(super) std::path::PathBuf);

impl Files {
    pub(super) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("mainspring-locks-{}", uuid::Uuid::new_v4().simple())))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl LockMembers for Files {
    async fn provider(&self) -> Arc<dyn LockProvider> {
        Arc::new(FileLocks::open(&self.0).unwrap())
    }
}

impl Files {
    async fn colliding(&self) -> Arc<dyn LockProvider> {
        Arc::new(FileLocks::with_key_function(self.0.clone(), |_| LockKey(7)).unwrap())
    }
}

conformance!(file, async { Files::new() }, Files::colliding);
