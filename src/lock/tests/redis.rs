//! Redis against the conformance suite, and what is specific to it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{FutureExt, StreamExt};

use crate::lock::key::LockKey;
use crate::lock::owner::LockOwner;
use crate::lock::provider::redis::{RedisLockOptions, RedisLocks};
use crate::lock::{LockProvider, LockRequest};
use crate::redis_server::RedisServer;
use crate::testing::RedisProcess;
use crate::testing::conformance::lock::{LONG, LockMembers, Provider, conforms, lock};

struct Redis(RedisProcess);

impl LockMembers for Redis {
    async fn provider(&self) -> Provider {
        Arc::new(
            RedisLocks::connect(&self.0.url(), RedisLockOptions::default())
                .await
                .unwrap(),
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_provider_conforms() {
    conforms(async || Redis(RedisProcess::start())).await;
}

pub(super) fn exclusive(name: &str) -> LockRequest {
    LockRequest::exclusive(name)
}

async fn connect(server: &RedisProcess, options: RedisLockOptions) -> RedisLocks {
    RedisLocks::connect(&server.url(), options).await.unwrap()
}

pub(super) fn short() -> RedisLockOptions {
    RedisLockOptions::default().expiry(Duration::from_millis(1500))
}

/// Waits for a condition that other processes bring about.
pub(super) async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_a_key_under_its_name_and_is_gone_after_its_release() {
    let server = RedisProcess::start();
    let locks = connect(&server, RedisLockOptions::default()).await;
    let handle = locks.try_acquire(exclusive("i1")).await.unwrap().unwrap();
    assert_eq!(server.run(&["KEYS", "workflow:*"]), "workflow:i1");
    let left: i64 = server.run(&["PTTL", "workflow:i1"]).parse().unwrap();
    assert!((25_000..=30_000).contains(&left), "{left}");
    drop(handle);
    until("the key to be deleted", || {
        server.run(&["KEYS", "workflow:*"]).is_empty()
    })
    .await;
    // The end of a provider releases what is held.
    let handle = locks.try_acquire(exclusive("i2")).await.unwrap().unwrap();
    drop(locks);
    until("the key to be deleted", || {
        server.run(&["KEYS", "workflow:*"]).is_empty()
    })
    .await;
    assert!(handle.is_lost());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_outlives_its_expiry() {
    let server = RedisProcess::start();
    let (here, there) = (connect(&server, short()).await, connect(&server, short()).await);
    let handle = here.try_acquire(exclusive("a")).await.unwrap().unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        assert!(there.try_acquire(exclusive("a")).await.unwrap().is_none());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!handle.is_lost());
    handle.fencing_token().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_deleted_by_hand_is_lost_and_its_new_holder_keeps_it() {
    let server = RedisProcess::start();
    let (here, there) = (connect(&server, short()).await, connect(&server, short()).await);
    let lost = here.try_acquire(exclusive("a")).await.unwrap().unwrap();
    let kept = here.try_acquire(exclusive("b")).await.unwrap().unwrap();
    server.run(&["DEL", "workflow:a"]);
    let held = there.acquire(exclusive("a"), LONG).await.unwrap();
    assert!(lost.fencing_token().now_or_never().is_none_or(|token| token.is_ok()));
    tokio::time::timeout(LONG, lost.lost()).await.unwrap();
    assert!(lost.is_lost() && !kept.is_lost() && !held.is_lost());
    assert!(here.try_acquire(exclusive("a")).await.unwrap().is_none());
    drop(lost);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        !server.run(&["GET", "workflow:a"]).is_empty(),
        "the former holder released the lock of another one"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_fails_tries_at_once_and_loses_what_expires() {
    let mut server = RedisProcess::start();
    let locks = connect(&server, short()).await;
    let handle = locks.try_acquire(exclusive("a")).await.unwrap().unwrap();
    server.kill();
    tokio::time::timeout(LONG, handle.lost()).await.unwrap();
    let began = Instant::now();
    let error = locks.try_acquire(exclusive("b")).await.unwrap_err();
    assert!(
        error.is_unavailable() && began.elapsed() < Duration::from_millis(500),
        "{error}"
    );
    server.restart();
    // A request that waits takes the lock when the server is back.
    drop(locks.acquire(exclusive("a"), LONG).await.unwrap());
}

/// Makes a server refuse to write, for this cause, or write again.
async fn refuse(server: &RedisProcess, cause: &str, refuses: bool) {
    let set = |setting, wrong, right| server.run(&["CONFIG", "SET", setting, if refuses { wrong } else { right }]);
    match cause {
        "maxmemory" => drop(set("maxmemory", "1", "0")),
        "replicas" => drop(set("min-replicas-to-write", "3", "0")),
        _ => {
            let answer = server.run(&["CONFIG", "GET", "dir"]);
            // A folder in the place of the file that it would save to.
            let file = Path::new(answer.lines().last().unwrap()).join("dump.rdb");
            let state = match refuses {
                true => {
                    std::fs::create_dir(&file).unwrap();
                    "err"
                }
                false => {
                    std::fs::remove_dir(&file).unwrap();
                    "ok"
                }
            };
            set("save", "3600 1000000", "");
            server.run(&["BGSAVE"]);
            until("it to save", || {
                let text = server.run(&["INFO", "persistence"]);
                text.contains(&format!("rdb_last_bgsave_status:{state}")) && text.contains("rdb_bgsave_in_progress:0")
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_is_away_with_its_cause_and_keeps_its_connections_and_leases() {
    let server = RedisProcess::start();
    let locks = connect(&server, short()).await;
    let handle = locks.try_acquire(exclusive("a")).await.unwrap().unwrap();
    for cause in ["maxmemory", "replicas", "save to its disk"] {
        refuse(&server, cause, true).await;
        let connections = || {
            let text = server.run(&["INFO", "stats"]);
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("total_connections_received:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        let began = Instant::now();
        let error = loop {
            match locks.try_acquire(exclusive("b")).await {
                Ok(granted) => assert!(
                    granted.is_none() && began.elapsed() < Duration::from_secs(1),
                    "no cause"
                ),
                Err(error) => break error,
            }
        };
        assert!(
            error.code() == "redis-unavailable" && error.to_string().contains(cause),
            "{error}"
        );
        assert!(locks.is_away() && locks.away_cause().unwrap().contains(cause));
        let before = connections();
        // Longer than a lease: what memory lacks does not keep it from being extended.
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(connections() - before < 10, "it connects again and again");
        if cause == "maxmemory" {
            assert!(!handle.is_lost());
        }
        assert!(locks.is_away() && locks.try_acquire(exclusive("b")).await.is_err());
        refuse(&server, cause, false).await;
        until("it to come back", || !locks.is_away()).await;
        drop(locks.acquire(exclusive("b"), LONG).await.unwrap());
        assert!(locks.away_cause().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_rights_to_the_keys_of_locks_is_refused_at_the_start() {
    let server = RedisProcess::start();
    server.run(&[
        "ACL",
        "SETUSER",
        "poor",
        "on",
        ">password",
        "~mainspring:*",
        "&mainspring:*",
        "+@all",
    ]);
    let url = server.url().replace("redis://", "redis://poor:password@");
    let error = RedisLocks::connect(&url, RedisLockOptions::default())
        .await
        .err()
        .unwrap();
    assert!(
        error.code() == "redis-refused" && error.to_string().contains("lock-prefix"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silence_shorter_than_the_lease_loses_nothing() {
    let server = RedisProcess::start();
    let locks = connect(&server, RedisLockOptions::default().expiry(Duration::from_secs(20))).await;
    let handle = locks.try_acquire(exclusive("a")).await.unwrap().unwrap();
    server.signal("STOP");
    // Longer than an answer may take: the connection is replaced.
    let asked = tokio::time::timeout(Duration::from_secs(4), locks.acquire(exclusive("b"), LONG)).await;
    assert!(asked.is_err());
    server.signal("CONT");
    drop(locks.acquire(exclusive("b"), LONG).await.unwrap());
    assert!(!handle.is_lost());
    handle.fencing_token().await.unwrap();
}

/// A short lease, which nothing extends: its holder learns of its end before the server lets another one take it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_learns_of_the_end_of_its_lease_before_the_server_ends_it() {
    let server = RedisProcess::start();
    let locks = connect(&server, short()).await;
    let mut early = Vec::new();
    for round in 0..5 {
        let handle = locks.acquire(exclusive(&format!("a{round}")), LONG).await.unwrap();
        let lost = handle.lost();
        server.run(&["CLIENT", "PAUSE", "20000", "WRITE"]);
        let ends: u64 = server
            .run(&["PEXPIRETIME", &format!("workflow:a{round}")])
            .parse()
            .unwrap();
        let loss = tokio::spawn(async move {
            lost.await;
            std::time::SystemTime::now()
        });
        let noticed = tokio::time::timeout(LONG, loss).await.unwrap().unwrap();
        assert!(handle.is_lost());
        server.run(&["CLIENT", "UNPAUSE"]);
        let noticed = noticed.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        early.push(i128::from(ends) - i128::try_from(noticed).unwrap());
        until("the server to be back", || !locks.is_away()).await;
    }
    early.sort_unstable();
    // The middle one, as a busy machine may wake the test late.
    assert!(early[2] > 0, "milliseconds before the end: {early:?}");
}

/// The registrations that live.
fn owner(incarnation: i64, living: &Arc<Mutex<HashSet<i64>>>, asked: &Arc<AtomicI64>) -> LockOwner {
    let (living, asked) = (Arc::clone(living), Arc::clone(asked));
    LockOwner::new("cluster", incarnation, move |incarnations| {
        asked.fetch_add(1, Ordering::SeqCst);
        let living = living.lock().unwrap().clone();
        Box::pin(async move { Ok(incarnations.into_iter().filter(|one| living.contains(one)).collect()) })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_registration_that_is_gone_is_taken_over() {
    let server = RedisProcess::start();
    let (living, asked) = (Arc::new(Mutex::new(HashSet::from([1, 2]))), Arc::default());
    let with = |owner: LockOwner| {
        let server = RedisServer::parse(&server.url()).unwrap();
        RedisLocks::with(server, RedisLockOptions::default(), Some(owner), LockKey::of).unwrap()
    };
    let (one, two) = (with(owner(1, &living, &asked)), with(owner(2, &living, &asked)));
    let held = one.try_acquire(exclusive("a")).await.unwrap().unwrap();
    let token = held.fencing_token().await.unwrap();
    assert_eq!(server.run(&["GET", "workflow:a"]), "cluster/1:1");
    assert!(two.try_acquire(exclusive("a")).await.unwrap().is_none(), "it lives");
    living.lock().unwrap().remove(&1);
    let began = Instant::now();
    let taken = loop {
        if let Some(taken) = two.try_acquire(exclusive("a")).await.unwrap() {
            break taken;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "not taken over");
        tokio::task::yield_now().await;
    };
    assert!(taken.fencing_token().await.unwrap() > token);
    assert!(asked.load(Ordering::SeqCst) >= 2);
    // A value of another cluster is never taken over.
    server.run(&["SET", "workflow:b", "other/1:7"]);
    assert!(two.try_acquire(exclusive("b")).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_name_is_reported_where_it_was_missed() {
    let server = RedisProcess::start();
    let (here, there) = (connect(&server, short()).await, connect(&server, short()).await);
    let mut freed = there.freed();
    // The subscription is ready when a first name has come.
    let began = Instant::now();
    loop {
        let handle = here.acquire(exclusive("i"), LONG).await.unwrap();
        assert!(there.try_acquire(exclusive("i")).await.unwrap().is_none());
        drop(handle);
        let name = tokio::time::timeout(Duration::from_millis(500), freed.next()).await;
        if let Ok(name) = name {
            assert_eq!(name.as_deref(), Some("i"));
            return;
        }
        assert!(began.elapsed() < LONG, "never reported");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_a_replica_and_a_cluster_are_refused_without_a_secret() {
    let protected = RedisProcess::start_with(&[
        "--requirepass",
        "geheim",
        "--user",
        "app",
        "on",
        ">wort",
        "~*",
        "&*",
        "+@all",
    ]);
    let port = protected.port();
    let replica = RedisProcess::start_with(&["--replicaof", "127.0.0.1", "1"]);
    let cluster = RedisProcess::start_with(&["--cluster-enabled", "yes"]);
    for (url, code) in [
        (format!("redis://:falsch@127.0.0.1:{port}"), "redis-refused"),
        (format!("127.0.0.1:{port},password=falsch"), "redis-refused"),
        (replica.url(), "redis-refused"),
        (cluster.url(), "redis-refused"),
        (format!("rediss://:geheim@127.0.0.1:{port}"), "redis-unavailable"),
        ("redis://:geheim@127.0.0.1:1".to_owned(), "redis-unavailable"),
    ] {
        let error = RedisLocks::connect(&url, RedisLockOptions::default())
            .await
            .err()
            .unwrap();
        let shown = format!("{error} {error:?}");
        assert_eq!(error.code(), code, "{shown}");
        assert!(!shown.contains("geheim") && !shown.contains("falsch"), "{shown}");
    }
    for url in [
        format!("redis://app:wort@127.0.0.1:{port}/3"),
        format!("127.0.0.1:{port},user=app,password=wort,defaultDatabase=3"),
    ] {
        let locks: Provider = Arc::new(RedisLocks::connect(&url, RedisLockOptions::default()).await.unwrap());
        drop(lock(&locks, "a").await);
    }
}
