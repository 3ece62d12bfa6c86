//! One session holds the locks of a node: it excludes two bursts of one process, and two processes.

use std::time::Duration;

use super::super::{LockHandle, LockKey, SessionLocks, SessionTask};
use crate::id::{InstanceId, TenantId};
use crate::lock::request::LockName;
use crate::testing::store::Fixture;
use crate::watchdog::WatchedPart;

const KEY: LockKey = LockKey(0x1234_5678_9abc_def0);
const OTHER: LockKey = LockKey(77);

async fn locks(fixture: &Fixture, liveness: i64) -> (SessionLocks, SessionTask) {
    SessionLocks::start(&fixture.base, LockKey(liveness), WatchedPart::unwatched)
        .await
        .unwrap()
}

/// Takes locks by key, so that they can be found in `pg_locks`.
async fn try_lock<const N: usize>(locks: &SessionLocks, keys: [LockKey; N]) -> crate::Result<Vec<Option<LockHandle>>> {
    let named = |key| (key, LockName::Given("a lock".into()));
    locks.try_lock(keys.into_iter().map(named)).await
}

async fn one(locks: &SessionLocks, key: LockKey) -> Option<LockHandle> {
    try_lock(locks, [key]).await.unwrap().pop().unwrap()
}

#[tokio::test]
async fn two_bursts_of_one_process_never_hold_one_lock() {
    let fixture = Fixture::new().await;
    let (here, _here) = locks(&fixture, 1).await;
    let (there, _there) = locks(&fixture, 2).await;
    let handle = one(&here, KEY).await.unwrap();
    assert!(one(&here, KEY).await.is_none(), "a session took its own lock again");
    assert!(one(&there, KEY).await.is_none());
    // In one batch the first request gets it.
    let mut both = try_lock(&here, [OTHER, OTHER, KEY]).await.unwrap();
    assert_eq!(
        both.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false]
    );
    drop(both.drain(..));
    drop(handle);
    // Released once, it is free: the session holds it no more.
    fixture.until_free(KEY).await;
    fixture.until_free(OTHER).await;
    let handle = one(&there, KEY).await.unwrap();
    assert!(one(&here, KEY).await.is_none());
    drop(handle);
    fixture.until_free(KEY).await;
    assert!(one(&here, KEY).await.is_some());
}

#[tokio::test]
async fn a_lock_taken_again_and_again_is_held_once() {
    let fixture = Fixture::new().await;
    let (here, _here) = locks(&fixture, 1).await;
    let (there, _there) = locks(&fixture, 2).await;
    for _ in 0..5 {
        // The same round trip releases it and takes it again.
        drop(one(&here, KEY).await.expect("it was released before"));
    }
    fixture.until_free(KEY).await;
    assert!(one(&there, KEY).await.is_some());
    assert!(!*here.lost().borrow(), "a lock was released that was not held");
}

#[tokio::test]
async fn a_dropped_request_leaves_nothing_locked() {
    let fixture = Fixture::new().await;
    let (here, _here) = locks(&fixture, 1).await;
    let (there, _there) = locks(&fixture, 2).await;
    // The request is sent, and dropped before its answer.
    tokio::select! {
        biased;
        _ = try_lock(&here, [KEY]) => panic!("answered before it was sent"),
        () = std::future::ready(()) => {}
    }
    // The next answer comes after that of the dropped request.
    assert!(one(&here, OTHER).await.is_some());
    fixture.until_free(KEY).await;
    assert!(one(&there, KEY).await.is_some());
    assert!(!*here.lost().borrow());
}

#[tokio::test]
async fn a_lost_session_loses_every_handle() {
    let fixture = Fixture::new().await;
    let (here, _here) = locks(&fixture, 1).await;
    let (there, _there) = locks(&fixture, 2).await;
    let handle = one(&here, KEY).await.unwrap();
    assert!(!handle.is_lost());
    fixture.terminate_holder(KEY).await;
    let mut lost = here.lost();
    tokio::time::timeout(Duration::from_secs(60), lost.wait_for(|lost| *lost))
        .await
        .expect("the loss was not noticed")
        .unwrap();
    assert!(handle.is_lost());
    let error = try_lock(&here, [OTHER]).await.unwrap_err();
    assert!(error.is_lost_lock(), "{error}");
    // Another session holds it now; the late handle releases nothing.
    fixture.until_free(KEY).await;
    let taken = one(&there, KEY).await.unwrap();
    drop(handle);
    assert!(!taken.is_lost());
    assert_eq!(fixture.holders(KEY).await, 1);
}

#[tokio::test]
async fn the_first_lock_of_a_session_must_be_free() {
    let fixture = Fixture::new().await;
    let (_here, _task) = locks(&fixture, 1).await;
    let refused = SessionLocks::start(&fixture.base, LockKey(1), WatchedPart::unwatched).await;
    assert_eq!(refused.err().unwrap().code(), "liveness-lock-taken");
}

#[tokio::test]
async fn dropping_the_task_releases_everything() {
    let fixture = Fixture::new().await;
    let (here, task) = locks(&fixture, 1).await;
    let handle = one(&here, KEY).await.unwrap();
    drop(task);
    fixture.until_free(KEY).await;
    fixture.until_free(LockKey(1)).await;
    assert!(try_lock(&here, [OTHER]).await.is_err());
    drop(handle);
}

#[tokio::test]
async fn the_lock_of_an_instance_is_shown_under_its_id() {
    let fixture = Fixture::new().await;
    let (here, _here) = locks(&fixture, 1).await;
    let (there, _there) = locks(&fixture, 2).await;
    let both = [("", "i1"), ("t", "i2")].map(|(tenant, id)| (TenantId::new(tenant), InstanceId::new(id)));
    let held_here = here.try_instances(&both).await.unwrap();
    assert!(held_here.iter().all(Option::is_some));
    let refused = there.try_instances(&both).await.unwrap();
    assert!(refused.iter().all(Option::is_none));
    let names = |locks: &SessionLocks| {
        let held = locks.view().into_iter().filter(|key| key.held);
        let mut names: Vec<String> = held.filter_map(|key| key.name).map(|name| name.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&here), ["instance:i1", "instance:i2"]);
    assert!(names(&there).is_empty());
}
