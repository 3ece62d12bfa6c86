//! What is specific to Postgres: lost sessions, budgets, schemas.

use std::sync::Arc;

use futures_util::FutureExt;

use crate::lock::key::LockKey;
use crate::lock::provider::postgres::Budget;
use crate::lock::{LockProvider, LockRequest, PostgresLockOptions, PostgresLocks};
use crate::testing::conformance::lock::{LONG, lock};
use crate::testing::store::Fixture;

pub(super) async fn node(fixture: &Fixture, budget: Budget) -> Arc<dyn LockProvider> {
    let locks = PostgresLocks::with(fixture.base.clone(), budget, LockKey::of).await;
    Arc::new(locks.unwrap())
}

/// A node with the default options, on any server.
pub(super) async fn connect(url: &str) -> Arc<dyn LockProvider> {
    let locks = PostgresLocks::connect(url, PostgresLockOptions::default()).await;
    Arc::new(locks.unwrap())
}

pub(super) fn exclusive(name: &str) -> LockRequest {
    LockRequest::exclusive(name)
}

/// Ends the sessions that hold any advisory lock in this database.
const KILL: &str = "SELECT count(pg_terminate_backend(pid)) FROM
     (SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) holders";

/// Advisory locks of this database, of all sessions.
pub(super) const HELD: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

#[tokio::test]
async fn a_waiter_gets_the_lock_of_a_terminated_session() {
    let fixture = Fixture::new().await;
    let here = node(&fixture, Budget::Nodes(3)).await;
    let there = node(&fixture, Budget::Nodes(3)).await;
    let handle = lock(&here, "a").await;
    let other = lock(&here, "b").await;
    let lost = handle.lost();
    let waiting = tokio::spawn({
        let there = Arc::clone(&there);
        async move { lock(&there, "a").await }
    });
    while there.stats().contended == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.count(KILL).await, 1);
    tokio::time::timeout(LONG, lost).await.unwrap();
    assert!(handle.is_lost() && other.is_lost());
    assert!(handle.lost().now_or_never().is_some(), "at once, if it is lost already");
    assert!(handle.fencing_token().await.unwrap_err().is_lost_lock());
    let taken = waiting.await.unwrap();
    // The same provider continues with a new session, and the old handles release nothing of it.
    let again = lock(&here, "b").await;
    drop((handle, other));
    assert!(there.try_acquire(exclusive("b")).await.unwrap().is_none());
    assert!(!again.is_lost() && !taken.is_lost());
    drop((again, taken));
    fixture.until(0, HELD).await;
}

#[tokio::test]
async fn a_waiting_request_fails_when_the_session_ends() {
    let fixture = Fixture::new().await;
    let here = node(&fixture, Budget::Nodes(3)).await;
    let handle = lock(&here, "a").await;
    let mut waiting = here.acquire(exclusive("a"), LONG);
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(fixture.count(KILL).await, 1);
    let error = waiting.await.unwrap_err();
    assert!(error.is_lost_lock() && error.is_transient(), "{error}");
    drop(handle);
}

#[tokio::test]
async fn past_the_budget_requests_queue() {
    let fixture = Fixture::new().await;
    let here = node(&fixture, Budget::Locks(3)).await;
    let mut held = Vec::new();
    for name in ["a", "b", "c"] {
        held.push(lock(&here, name).await);
    }
    assert!(here.try_acquire(exclusive("d")).await.unwrap().is_none());
    let mut one = here.acquire(exclusive("d"), LONG);
    assert!((&mut one).now_or_never().is_none());
    let mut two = here.acquire(exclusive("e").and_exclusive("f"), LONG);
    assert!((&mut two).now_or_never().is_none());
    assert_eq!(here.stats().over_budget, 2);
    assert_eq!(fixture.count(HELD).await, 3);
    let error = here
        .acquire(exclusive("1").and_shared("2").and_shared("3").and_shared("4"), LONG)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "invalid-lock-request");
    held.pop();
    let one = one.await.unwrap();
    assert!((&mut two).now_or_never().is_none(), "two do not fit where one was");
    // A released lock makes room for the next request.
    drop(held);
    let two = two.await.unwrap();
    assert_eq!(fixture.count(HELD).await, 3);
    drop((one, two));
    fixture.until(0, HELD).await;
}

#[tokio::test]
async fn locks_of_two_schemas_are_independent() {
    let fixture = Fixture::new().await;
    let here = node(&fixture, Budget::Nodes(3)).await;
    let url = fixture.url();
    let options = PostgresLockOptions::default().schema("other");
    let other: Arc<dyn LockProvider> = Arc::new(PostgresLocks::connect(&url, options).await.unwrap());
    let _here = lock(&here, "a").await;
    assert!(other.try_acquire(exclusive("a")).await.unwrap().is_some());
    // One connection each, however many locks.
    let _many: Vec<_> = futures_util::future::join_all((0..100).map(|number| {
        let other = Arc::clone(&other);
        async move { lock(&other, &format!("n{number}")).await }
    }))
    .await;
    let sessions = "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory'
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(fixture.count(sessions).await, 2);
}
