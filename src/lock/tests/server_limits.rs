//! A server whose lock table is full, or whose commits hang. It affects all its clients, so the tests start their own.

use std::path::PathBuf;

use futures_util::FutureExt;

use super::postgres::{HELD, connect, exclusive};
use crate::db::{Channel, Connector, DatabaseUrl, Notification, Notifier, SchemaName, Session};
use crate::harness::private_postgres::{Options, PrivatePostgres, start};
use crate::lock::LockRequest;
use crate::testing::conformance::lock::{LONG, lock};
use crate::testing::store::Fixture;

/// A server for one test.
struct OwnServer {
    postgres: PrivatePostgres,
    folder: PathBuf,
}

impl OwnServer {
    /// Starts it with this setting.
    async fn start(setting: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mainspring-full-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&folder).unwrap();
        let data = || Options {
            folder: folder.join("data"),
        };
        let postgres = start(data()).await.unwrap();
        let admin = session(postgres.url()).await;
        let set = format!("ALTER SYSTEM SET {setting}");
        admin.client.batch_execute(&set).await.unwrap();
        drop(admin);
        postgres.stop().await.unwrap();
        let postgres = start(data()).await.unwrap();
        Self { postgres, folder }
    }

    async fn end(self) {
        self.postgres.stop().await.unwrap();
        std::fs::remove_dir_all(self.folder).unwrap();
    }
}

async fn session(url: &str) -> Session {
    let url = DatabaseUrl::parse(url).unwrap();
    let connector = Connector::new(&url, &SchemaName::parse("mainspring").unwrap()).unwrap();
    connector.open().await.unwrap()
}

async fn held(admin: &Session) -> i64 {
    admin.client.query_one(HELD, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_full_server_makes_requests_queue() {
    // The smallest table: ten for each of 200 connections, and some.
    let server = OwnServer::start("max_locks_per_transaction = 10").await;
    let url = server.postgres.url();
    let here = connect(url).await;
    let before = lock(&here, "before").await;
    let (hog, admin) = (session(url).await, session(url).await);
    assert!(!here.is_away());
    let mut full = false;
    for from in 0..1000 {
        let statement =
            format!("SELECT count(pg_try_advisory_lock(9, k)) FROM generate_series({from} * 100, {from} * 100 + 99) k");
        if hog.client.batch_execute(&statement).await.is_err() {
            full = true;
            break;
        }
    }
    assert!(full, "the lock table never fills");
    // The rest is too small for so many.
    let many = (0..200).fold(exclusive("many"), |request, number| {
        request.and_exclusive(number.to_string())
    });
    assert!(here.try_acquire(many.clone()).await.unwrap().is_none());
    let mut waiting = here.acquire(many.clone(), LONG);
    while here.stats().over_budget + here.stats().contended == 0 {
        assert!((&mut waiting).now_or_never().is_none(), "there was room");
        tokio::task::yield_now().await;
    }
    assert!(!before.is_lost(), "held locks stay");
    // One key that still finds room keeps none for the probe.
    let mut number = 1_000_000;
    while here.away_cause().is_none_or(|cause| !cause.contains("process")) {
        let statement = format!("SELECT pg_try_advisory_lock(9, {number})");
        number += i32::from(hog.client.batch_execute(&statement).await.is_ok());
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let process: i32 = hog
        .client
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0);
    let cause = here.away_cause().unwrap();
    assert!(
        cause.contains("53200") && cause.contains(&format!("process {process} of the role")),
        "{cause}"
    );
    drop(hog);
    while here.is_away() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let many = waiting.await.unwrap();
    assert_eq!(held(&admin).await, 202);
    drop((before, many));
    while held(&admin).await > 0 {
        tokio::task::yield_now().await;
    }
    server.end().await;
}

#[tokio::test]
async fn a_message_that_cannot_be_sent_loses_no_lock() {
    let server = OwnServer::start("wal_level = replica").await;
    let url = server.postgres.url();
    let (here, there) = (connect(url).await, connect(url).await);
    let (theirs, ours) = (lock(&there, "theirs").await, lock(&here, "ours").await);
    // A commit waits for a standby that does not exist, and holds the lock that every NOTIFY needs.
    let (admin, slow) = (session(url).await, session(url).await);
    let set = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'";
    admin.client.batch_execute(set).await.unwrap();
    admin.client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let commits = tokio::spawn(async move {
        let slowly = "BEGIN; SET LOCAL synchronous_commit = on; SELECT pg_logical_emit_message(true, 'a', 'b');
                      SELECT pg_current_xact_id(); NOTIFY anything; COMMIT";
        // The first one may run before the new setting is effective.
        while slow.client.batch_execute(slowly).await.is_ok() {}
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    while admin.client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    let mut waiting = here.acquire(LockRequest::exclusive("theirs"), LONG);
    while here.stats().contended == 0 {
        assert!((&mut waiting).now_or_never().is_none(), "it is held");
        tokio::task::yield_now().await;
    }
    // Round trips after the message: it has failed by then.
    for number in 0..3 {
        drop(lock(&here, &format!("other {number}")).await);
    }
    assert!(!ours.is_lost());
    drop(theirs);
    drop(waiting.await.unwrap());
    assert!(!ours.is_lost());
    commits.abort();
    server.end().await;
}

#[tokio::test]
async fn a_refused_notification_keeps_the_connection() {
    let fixture = Fixture::new().await;
    let (notifier, _task) = Notifier::start(&fixture.base, &[Channel::WakeNotifications])
        .await
        .unwrap();
    let mut received = notifier.subscribe();
    let channel = notifier.name(Channel::WakeNotifications).to_owned();
    // Refused as one is while the queue of the server is full: the server answers an error.
    for _ in 0..3 {
        let error = notifier.notify(&channel, &["x".repeat(9000)]).await.unwrap_err();
        assert!(
            error.to_string().contains("payload"),
            "the connection was given up: {error}"
        );
    }
    notifier.notify(&channel, &["last".to_owned()]).await.unwrap();
    match received.recv().await.unwrap() {
        Notification::Received { payload, .. } => assert_eq!(&*payload, "last"),
        Notification::Reconnected => panic!("the connection was replaced"),
    }
}
