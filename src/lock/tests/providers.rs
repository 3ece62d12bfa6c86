//! Each provider against the conformance suite.

use std::sync::Arc;

use super::conformance::{self, Factory, LONG, conformance};
use crate::lock::key::LockKey;
use crate::lock::provider::postgres::Budget;
use crate::lock::{FileLocks, LocalLocks, LockProvider, PostgresLocks};
use crate::testing::store::Fixture;

/// There is only one process.
struct Local(LocalLocks);

impl Factory for Local {
    async fn provider(&self) -> Arc<dyn LockProvider> {
        Arc::new(self.0.clone())
    }

    async fn colliding(&self) -> Arc<dyn LockProvider> {
        Arc::new(LocalLocks::with_key_function(|_| LockKey(7)))
    }
}

conformance!(local, async { Local(LocalLocks::new()) });

struct Postgres(Fixture);

impl Factory for Postgres {
    async fn provider(&self) -> Arc<dyn LockProvider> {
        let locks = PostgresLocks::with(self.0.base.clone(), Budget::Nodes(3), LockKey::of).await;
        Arc::new(locks.unwrap())
    }

    async fn colliding(&self) -> Arc<dyn LockProvider> {
        let locks = PostgresLocks::with(self.0.base.clone(), Budget::Nodes(3), |_| LockKey(7)).await;
        Arc::new(locks.unwrap())
    }
}

conformance!(postgres, async { Postgres(Fixture::new().await) });

/// A directory of its own. Each provider opens the files for itself, as a process would.
struct Files(std::path::PathBuf);

impl Files {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("mainspring-locks-{}", uuid::Uuid::new_v4().simple())))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Factory for Files {
    async fn provider(&self) -> Arc<dyn LockProvider> {
        Arc::new(FileLocks::open(&self.0).unwrap())
    }

    async fn colliding(&self) -> Arc<dyn LockProvider> {
        Arc::new(FileLocks::with_key_function(self.0.clone(), |_| LockKey(7)).unwrap())
    }
}

conformance!(file, async { Files::new() });

#[tokio::test]
async fn a_lock_file_is_private_and_no_link_is_followed() {
    use std::os::unix::fs::PermissionsExt;

    use crate::lock::LockRequest;

    let files = Files::new();
    let locks = FileLocks::with_key_function(files.0.clone(), |_| LockKey(7)).unwrap();
    let path = files.0.join(format!("{}.lock", LockKey(7)));
    let handle = locks.try_acquire(LockRequest::exclusive("a")).await.unwrap().unwrap();
    handle.fencing_token().await.unwrap();
    for file in [&path, &files.0.join("tokens")] {
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    drop(handle);
    drop(locks);

    let target = files.0.join("target");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    let locks = FileLocks::with_key_function(files.0.clone(), |_| LockKey(7)).unwrap();
    let refused = locks.try_acquire(LockRequest::exclusive("a")).await;
    assert!(refused.is_err(), "a link in place of a lock file is followed");
    assert!(!target.exists());
}
