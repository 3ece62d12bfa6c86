//! A lock that is taken and released.

use std::sync::Arc;

use super::postgres::connect;
use crate::lock::{LocalLocks, LockProvider};
use crate::testing::TestDatabase;
use crate::testing::conformance::lock::lock;
use crate::testing::instructions::{count, runtime};

/// A lock of a name that no other request waits for. With a name of its own, no request waits for the release of the one before.
fn count_locks(provider: &Arc<dyn LockProvider>, runtime: &tokio::runtime::Runtime) {
    let mut names = (100..).map(|number: u32| format!("n{number}"));
    count(|| runtime.block_on(async { drop(lock(provider, &names.next().unwrap()).await) }));
}

#[test]
#[ignore = "run by testing::instructions, under callgrind"]
fn local_lock() {
    let runtime = runtime();
    let provider: Arc<dyn LockProvider> = runtime.block_on(async { Arc::new(LocalLocks::new()) as Arc<_> });
    count_locks(&provider, &runtime);
}

#[test]
#[ignore = "run by testing::instructions, under callgrind"]
fn postgres_lock() {
    let runtime = runtime();
    let (provider, _database) = runtime.block_on(async {
        let database = TestDatabase::create().await;
        (connect(&database.url()).await, database)
    });
    count_locks(&provider, &runtime);
}
