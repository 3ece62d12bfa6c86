//! One session holds the locks of a node; what keeps two bursts of one process apart, and two processes.

use std::time::Duration;

use super::super::request::Name;
use super::super::{LockGuard, LockKey, SessionLocks, SessionTask};
use crate::id::{InstanceId, TenantId};
use crate::store::commit::tests::fixture::Fixture;

const KEY: LockKey = LockKey(0x1234_5678_9abc_def0);
const OTHER: LockKey = LockKey(77);

async fn locks(fixture: &Fixture, liveness: i64) -> (SessionLocks, SessionTask) {
    SessionLocks::start(&fixture.base, LockKey(liveness)).await.unwrap()
}

/// By their keys, so that `pg_locks` can be asked for them.
async fn try_lock<const N: usize>(locks: &SessionLocks, keys: [LockKey; N]) -> crate::Result<Vec<Option<LockGuard>>> {
    let named = |key| (key, Name::Given("a lock".into()));
    locks.try_lock(keys.into_iter().map(named)).await
}

async fn one(locks: &SessionLocks, key: LockKey) -> Option<LockGuard> {
    try_lock(locks, [key]).await.unwrap().pop().unwrap()
}

/// How often the database shows the key as held, whoever holds it.
fn held(key: LockKey) -> String {
    format!(
        "SELECT count(*) FROM pg_locks
         WHERE locktype = 'advisory' AND objsubid = 1 AND granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND ((classid::bigint << 32) | objid::bigint) = {}",
        key.0
    )
}

#[tokio::test]
async fn two_bursts_of_one_process_never_have_one_lock() {
    let fixture = Fixture::new().await;
    let (here, _here) = locks(&fixture, 1).await;
    let (there, _there) = locks(&fixture, 2).await;
    let guard = one(&here, KEY).await.unwrap();
    assert!(one(&here, KEY).await.is_none(), "a session took its own lock again");
    assert!(one(&there, KEY).await.is_none());
    // In one batch the first who asks gets it.
    let mut both = try_lock(&here, [OTHER, OTHER, KEY]).await.unwrap();
    assert_eq!(
        both.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false]
    );
    drop(both.drain(..));
    drop(guard);
    // Given back once, it is free: nothing of it is left in the session.
    fixture.until(0, &held(KEY)).await;
    fixture.until(0, &held(OTHER)).await;
    let guard = one(&there, KEY).await.unwrap();
    assert!(one(&here, KEY).await.is_none());
    drop(guard);
    fixture.until(0, &held(KEY)).await;
    assert!(one(&here, KEY).await.is_some());
}

#[tokio::test]
async fn a_lock_taken_again_and_again_is_held_once() {
    let fixture = Fixture::new().await;
    let (here, _here) = locks(&fixture, 1).await;
    let (there, _there) = locks(&fixture, 2).await;
    for _ in 0..5 {
        // The same round trip gives it back and takes it again.
        drop(one(&here, KEY).await.expect("it was given back before"));
    }
    fixture.until(0, &held(KEY)).await;
    assert!(one(&there, KEY).await.is_some());
    assert!(!*here.lost().borrow(), "a lock was given back that was not held");
}

#[tokio::test]
async fn whoever_goes_away_while_asking_leaves_nothing_locked() {
    let fixture = Fixture::new().await;
    let (here, _here) = locks(&fixture, 1).await;
    let (there, _there) = locks(&fixture, 2).await;
    // Somebody holds the table of locks up, in effect: the request is sent, and its sender is gone before the answer.
    tokio::select! {
        biased;
        _ = try_lock(&here, [KEY]) => panic!("answered before it was sent"),
        () = std::future::ready(()) => {}
    }
    // The next answer comes after that of the one who went away.
    assert!(one(&here, OTHER).await.is_some());
    fixture.until(0, &held(KEY)).await;
    assert!(one(&there, KEY).await.is_some());
    assert!(!*here.lost().borrow());
}

#[tokio::test]
async fn a_lost_session_loses_every_guard() {
    let fixture = Fixture::new().await;
    let (here, _here) = locks(&fixture, 1).await;
    let (there, _there) = locks(&fixture, 2).await;
    let guard = one(&here, KEY).await.unwrap();
    assert!(!guard.is_lost());
    let ended = fixture
        .count(&format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_locks
             WHERE locktype = 'advisory' AND objsubid = 1 AND ((classid::bigint << 32) | objid::bigint) = {}
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            KEY.0
        ))
        .await;
    assert_eq!(ended, 1);
    let mut lost = here.lost();
    tokio::time::timeout(Duration::from_secs(60), lost.wait_for(|lost| *lost))
        .await
        .expect("nobody noticed")
        .unwrap();
    assert!(guard.is_lost());
    let error = try_lock(&here, [OTHER]).await.unwrap_err();
    assert!(error.is_lost_lock(), "{error}");
    // Somebody else has it now, and the guard that comes too late takes nothing away.
    fixture.until(0, &held(KEY)).await;
    let taken = one(&there, KEY).await.unwrap();
    drop(guard);
    assert!(!taken.is_lost());
    assert_eq!(fixture.count(&held(KEY)).await, 1);
}

#[tokio::test]
async fn the_first_lock_of_a_session_must_be_free() {
    let fixture = Fixture::new().await;
    let (_here, _task) = locks(&fixture, 1).await;
    let refused = SessionLocks::start(&fixture.base, LockKey(1)).await;
    assert_eq!(refused.err().unwrap().code(), "liveness-lock-taken");
}

#[tokio::test]
async fn dropping_the_task_frees_everything() {
    let fixture = Fixture::new().await;
    let (here, task) = locks(&fixture, 1).await;
    let guard = one(&here, KEY).await.unwrap();
    drop(task);
    fixture.until(0, &held(KEY)).await;
    fixture.until(0, &held(LockKey(1))).await;
    assert!(try_lock(&here, [OTHER]).await.is_err());
    drop(guard);
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
    let mut names: Vec<String> = here.held().iter().map(|lock| lock.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["instance:i1", "instance:i2"]);
    assert!(there.held().is_empty());
    assert_eq!((here.stats().granted, there.stats().refused), (2, 2));
}
