//! Locks in files where the files fail.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::providers::Files;
use crate::lock::key::LockKey;
use crate::lock::provider::file::is_named;
use crate::lock::{FileLocks, LockProvider, LockRequest};
use crate::testing::conformance::lock::LONG;

/// Waits until the provider is away, or is not.
async fn until_away(locks: &FileLocks, is_away: bool) {
    let waited = async {
        while locks.is_away() != is_away {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waited).await.expect("it is not noticed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_directory_is_named_and_taken_again_when_it_is_back() {
    let files = Files::new();
    let locks = FileLocks::open(&files.0).unwrap();
    let held = locks
        .try_acquire(LockRequest::exclusive("held"))
        .await
        .unwrap()
        .unwrap();
    let aside = files.0.with_extension("aside");
    std::fs::rename(&files.0, &aside).unwrap();

    let error = locks.try_acquire(LockRequest::exclusive("a")).await.unwrap_err();
    assert!(error.code() == "lock-directory" && error.is_transient(), "{error}");
    assert!(error.to_string().contains("No such file"), "{error}");
    assert!(locks.is_away() && !held.is_lost());
    let cause = locks.away_cause().unwrap();
    assert!(
        cause.contains(&*files.0.to_string_lossy()) && cause.contains("No such file"),
        "{cause}"
    );
    let waiting = locks.acquire(LockRequest::exclusive("a"), Duration::from_millis(100));
    assert_eq!(waiting.await.unwrap_err().code(), "lock-directory");
    let refused = locks.try_acquire_many(vec![LockRequest::exclusive("a")]).await;
    assert_eq!(refused.unwrap_err().code(), "lock-directory");
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire(LockRequest::exclusive("a"), LONG).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;

    std::fs::rename(&aside, &files.0).unwrap();
    until_away(&locks, false).await;
    drop(waiting.await.unwrap().unwrap());
    assert!(!held.is_lost() && locks.away_cause().is_none());
    assert!(
        locks
            .try_acquire(LockRequest::exclusive("held"))
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_in_a_directory_that_was_replaced_is_lost() {
    let files = Files::new();
    let locks = FileLocks::open(&files.0).unwrap();
    let held = locks
        .try_acquire(LockRequest::exclusive("held"))
        .await
        .unwrap()
        .unwrap();
    std::fs::remove_dir_all(&files.0).unwrap();
    assert!(locks.try_acquire(LockRequest::exclusive("a")).await.is_err());
    std::fs::create_dir(&files.0).unwrap();
    tokio::time::timeout(LONG, held.lost())
        .await
        .expect("another process can hold it");
    until_away(&locks, false).await;
    assert!(
        locks
            .try_acquire(LockRequest::exclusive("held"))
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_file_costs_its_own_lock_only() {
    let files = Files::new();
    let locks =
        FileLocks::with_key_function(files.0.clone(), |parts| LockKey(i64::from(parts.contains(&"bad")))).unwrap();
    let bad = files.0.join(format!("{}.lock", LockKey(1)));
    std::fs::create_dir(&bad).unwrap();
    let requests = || ["bad", "good"].map(LockRequest::exclusive).to_vec();
    let granted = locks.try_acquire_many(requests()).await.unwrap();
    assert!(granted[0].is_none() && granted[1].is_some());
    let error = locks.try_acquire(LockRequest::exclusive("bad")).await.unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    assert!(locks.is_away() && locks.away_cause().unwrap().contains("not a regular file"));
    // A good one that is held is held, and nothing else.
    assert!(
        locks
            .try_acquire(LockRequest::exclusive("good"))
            .await
            .unwrap()
            .is_none()
    );
    let held = locks
        .acquire(LockRequest::exclusive("good"), Duration::from_millis(50))
        .await;
    assert_eq!(held.unwrap_err().code(), "lock-timeout");
    drop(granted);
    drop(locks.acquire(LockRequest::exclusive("good"), LONG).await.unwrap());

    std::fs::remove_dir(&bad).unwrap();
    until_away(&locks, false).await;
    assert!(
        locks
            .try_acquire(LockRequest::exclusive("bad"))
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_lock_file_is_private_and_no_link_is_followed() {
    use std::os::unix::fs::PermissionsExt;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_deleted_before_it_is_locked_is_no_lock() {
    let files = Files::new();
    let locks = FileLocks::with_key_function(files.0.clone(), |_| LockKey(7)).unwrap();
    let path = files.0.join(format!("{}.lock", LockKey(7)));
    let ended = Arc::new(AtomicBool::new(false));
    // A cleaner that is careful: it deletes only files that are not locked.
    let cleaner = std::thread::spawn({
        let (ended, path) = (Arc::clone(&ended), path.clone());
        move || {
            while !ended.load(Ordering::Relaxed) {
                if let Ok(file) = File::open(&path)
                    && file.try_lock().is_ok()
                    && is_named(&path, &file)
                {
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
    });
    for _ in 0..500 {
        let handle = locks.acquire(LockRequest::exclusive("a"), LONG).await.unwrap();
        let named = File::open(&path).expect("the file of a held lock is gone");
        // The cleaner may have it for a moment, of a file that is not ours.
        assert!(named.try_lock().is_err(), "another process can lock it, too");
        drop(handle);
    }
    ended.store(true, Ordering::Relaxed);
    cleaner.join().unwrap();
}
