//! A Redis cluster against the conformance suite, and what is specific to it: redirections, and masters that are away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::redis::{exclusive, short, until};
use crate::lock::LockProvider;
use crate::lock::provider::redis::{RedisLockOptions, RedisLocks};
use crate::redis_server::HashSlot;
use crate::testing::conformance::lock::{LONG, LockMembers, Provider, conforms};
use crate::testing::{RedisCluster, RedisProcess};

/// Members of one cluster; each case has a prefix of its own.
struct OfCluster {
    url: String,
    prefix: String,
}

impl LockMembers for OfCluster {
    async fn provider(&self) -> Provider {
        let options = RedisLockOptions::default().prefix(&self.prefix);
        Arc::new(RedisLocks::connect(&self.url, options).await.unwrap())
    }
}

async fn connect(cluster: &RedisCluster, options: RedisLockOptions) -> RedisLocks {
    RedisLocks::connect(&cluster.url(), options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_conforms() {
    let cluster = RedisCluster::start();
    let cases = AtomicU64::new(0);
    conforms(async || OfCluster {
        url: cluster.url(),
        prefix: format!("case-{}:", cases.fetch_add(1, Ordering::SeqCst)),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_have_the_names_and_slots_that_the_cluster_computes() {
    let cluster = RedisCluster::start();
    let names = ["i1", "a{b}c", "{}x{y}", "x}y", "{{z}}", "{", "tenant:i"];
    let node = &cluster.nodes[0];
    for key in names
        .iter()
        .map(|name| format!("workflow:{name}"))
        .chain([String::new()])
    {
        let slot = |key: &str| node.run(&["CLUSTER", "KEYSLOT", key]);
        assert_eq!(HashSlot::of(&key).to_string(), slot(&key), "{key}");
        let beside = format!("mainspring:waiting:{{{}}}:{key}", HashSlot::of(&key).tag());
        assert_eq!(slot(&beside), slot(&key), "{key}");
    }
    let (here, there) = (
        connect(&cluster, RedisLockOptions::default()).await,
        connect(&cluster, RedisLockOptions::default()).await,
    );
    let mut held = Vec::new();
    for name in names {
        held.push(here.try_acquire(exclusive(name)).await.unwrap().unwrap());
        assert!(there.try_acquire(exclusive(name)).await.unwrap().is_none());
    }
    let mut expected: Vec<String> = names.iter().map(|name| format!("workflow:{name}")).collect();
    expected.sort();
    assert_eq!(cluster.keys("workflow:*"), expected);
    assert!(cluster.keys("mainspring:tokens:*").len() >= 3);
    assert!(!cluster.run(&["GET", "mainspring:nonce"]).is_empty());
    drop(held);
    until("the keys to be deleted", || cluster.keys("workflow:*").is_empty()).await;
}

/// The token of several locks is below those of the next holder of any of them, though each hash slot has a counter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_several_locks_are_below_the_next_one_of_each() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster, RedisLockOptions::default()).await;
    let ahead = "mainspring:tokens:{TAG}:workflow:".replace("TAG", &HashSlot::of("workflow:a").tag().to_string());
    cluster.run(&["SET", &ahead, "9000000000000000"]);
    let both = locks.acquire(exclusive("a").and_exclusive("b"), LONG).await.unwrap();
    let token = both.fencing_token().await.unwrap();
    assert!(token.get() > 9_000_000_000_000_000, "{token}");
    assert!(both.fencing_token().await.unwrap() >= token);
    drop(both);
    for name in ["a", "b"] {
        let next = locks.acquire(exclusive(name), LONG).await.unwrap();
        assert!(next.fencing_token().await.unwrap() > token, "{name}");
    }
}

/// Whichever of several locks is held: the request waits for that one, learns of its release, and delays no request for the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locks_wait_for_the_one_that_is_held() {
    let cluster = RedisCluster::start();
    let (here, there) = (
        connect(&cluster, RedisLockOptions::default()).await,
        connect(&cluster, RedisLockOptions::default()).await,
    );
    let mut took = Vec::new();
    for held in ["a", "b", "c", "a", "b"] {
        let handle = there.acquire(exclusive(held), LONG).await.unwrap();
        let waits = {
            let here = here.clone();
            let all = exclusive("a").and_exclusive("b").and_exclusive("c");
            tokio::spawn(async move { here.acquire(all, LONG).await })
        };
        // By now it tries again by itself only after a long pause.
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!waits.is_finished());
        for other in ["a", "b", "c"].into_iter().filter(|other| *other != held) {
            let free = here.acquire(exclusive(other), LONG);
            drop(
                tokio::time::timeout(Duration::from_secs(5), free)
                    .await
                    .unwrap()
                    .unwrap(),
            );
        }
        let released = Instant::now();
        drop(handle);
        drop(waits.await.unwrap().unwrap());
        took.push(released.elapsed());
    }
    took.sort_unstable();
    assert!(took[2] < Duration::from_millis(200), "{took:?}");
    let many = (0..255).fold(exclusive("first"), |all, number| {
        all.and_exclusive(format!("n{number}"))
    });
    drop(here.acquire(many, LONG).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_server_and_a_cluster_are_refused_for_each_other() {
    let cluster = RedisCluster::start();
    let single = RedisProcess::start();
    let port = single.port();
    let member = cluster.nodes[0].url();
    for (url, named) in [
        (member.clone(), "redis-cluster://"),
        (member.replace("redis://", ""), "redis-cluster://"),
        (format!("redis-cluster://127.0.0.1:{port}"), "with redis://"),
        (format!("127.0.0.1:{port},127.0.0.1:{port}"), "`serviceName`"),
    ] {
        let error = RedisLocks::connect(&url, short()).await.err().unwrap();
        assert!(
            error.code() == "redis-refused" && error.to_string().contains(named),
            "{url}: {error}"
        );
    }
    let hosts = cluster.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port()));
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let locks = RedisLocks::connect(&hosts, short()).await.unwrap();
    drop(locks.acquire(exclusive("a"), LONG).await.unwrap());
}

/// A hash slot moves to another master while its locks are held, asked for and released: at each step of the move.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hash_slot_that_moves_loses_no_lock_and_grants_none_twice() {
    let cluster = RedisCluster::start();
    // All locks are in the slot of `m`.
    let options = || short().prefix("{m}:");
    let slot = cluster.nodes[0].run(&["CLUSTER", "KEYSLOT", "m"]);
    let from = cluster.master_of("m");
    let to = cluster.nodes.iter().find(|node| node.port() != from.port()).unwrap();
    let (here, there) = (connect(&cluster, options()).await, connect(&cluster, options()).await);
    let held = here.try_acquire(exclusive("held")).await.unwrap().unwrap();
    let token = held.fencing_token().await.unwrap();
    let released = here.try_acquire(exclusive("released")).await.unwrap().unwrap();
    // Keys are taken and released all the time, one holder at a time.
    let inside = Arc::new(AtomicU64::new(0));
    let grants = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for provider in [here.clone(), there.clone()] {
        let (inside, grants) = (Arc::clone(&inside), Arc::clone(&grants));
        tasks.push(tokio::spawn(async move {
            loop {
                let handle = provider.acquire(exclusive("busy"), LONG).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                grants.fetch_add(1, Ordering::SeqCst);
                drop(handle);
            }
        }));
    }
    let go_on = async |what: &str| {
        let before = grants.load(Ordering::SeqCst);
        until(what, || grants.load(Ordering::SeqCst) > before + 20).await;
        assert!(there.try_acquire(exclusive("held")).await.unwrap().is_none(), "{what}");
        assert!(!held.is_lost(), "{what}");
    };
    go_on("before the move").await;
    let [from_id, to_id] = [from, to].map(|node| node.run(&["CLUSTER", "MYID"]));
    assert_eq!(to.run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]), "OK");
    assert_eq!(from.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]), "OK");
    go_on("while nothing has moved yet").await;
    let port = to.port().to_string();
    let move_key = |key: &str| {
        let moved = from.run(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        assert!(["OK", "NOKEY"].contains(&moved.as_str()), "{key}: {moved}");
    };
    move_key("{m}:held");
    go_on("while a lock has moved, and the counter has not").await;
    // It is released where it was, and is taken where it goes.
    drop(released);
    drop(there.acquire(exclusive("released"), LONG).await.unwrap());
    drop(here.acquire(exclusive("one").and_exclusive("two"), LONG).await.unwrap());
    let began = Instant::now();
    loop {
        let keys = from.run(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
        let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
        if keys.is_empty() {
            break;
        }
        assert!(began.elapsed() < LONG, "{keys:?}");
        keys.into_iter().for_each(move_key);
    }
    go_on("while all has moved").await;
    for node in [to, from, &cluster.nodes[0], &cluster.nodes[1], &cluster.nodes[2]] {
        assert_eq!(node.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]), "OK");
    }
    go_on("after the move").await;
    // For longer than its expiry: it was extended at the new master.
    let moved = Instant::now();
    while moved.elapsed() < Duration::from_secs(3) {
        go_on("some time after the move").await;
    }
    drop(held);
    let next = there.acquire(exclusive("held"), LONG).await.unwrap();
    assert!(next.fencing_token().await.unwrap() > token);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    for task in tasks {
        assert!(task.await.unwrap_err().is_cancelled(), "two holders");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_flushed_are_loaded_again() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster, RedisLockOptions::default()).await;
    let held = locks.acquire(exclusive("a"), LONG).await.unwrap();
    for node in &cluster.nodes {
        node.run(&["SCRIPT", "FLUSH"]);
    }
    for name in ["b", "c", "d", "e", "f"] {
        assert!(locks.try_acquire(exclusive(name)).await.unwrap().is_some(), "{name}");
    }
    assert!(!held.is_lost());
}

/// The master of one lock does not answer: tries for it fail at once, and those of other masters continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_away_takes_only_its_own_locks_with_it() {
    // Without its slots the others serve on.
    let cluster = RedisCluster::start_with(&["--cluster-require-full-coverage", "no"]);
    let locks = connect(&cluster, short()).await;
    let place_of = |name: &str| cluster.master_of(&format!("workflow:{name}")).port();
    let away = place_of("n0");
    let names = (0..30).map(|number| format!("n{number}"));
    let others: Vec<String> = names.filter(|name| place_of(name) != away).collect();
    let [elsewhere, others @ ..] = others.as_slice() else {
        panic!()
    };
    let (lost, kept) = (
        locks.acquire(exclusive("n0"), LONG).await.unwrap(),
        locks.acquire(exclusive(elsewhere), LONG).await.unwrap(),
    );
    let master = cluster.nodes.iter().find(|node| node.port() == away).unwrap();
    master.signal("STOP");
    tokio::time::timeout(LONG, lost.lost()).await.unwrap();
    until("the lock to be away", || locks.is_away()).await;
    let began = Instant::now();
    let error = locks.try_acquire(exclusive("n0")).await.unwrap_err();
    assert!(
        error.is_unavailable() && began.elapsed() < Duration::from_millis(500),
        "{error}"
    );
    for name in others {
        assert!(locks.try_acquire(exclusive(name)).await.unwrap().is_some(), "{name}");
    }
    assert!(!kept.is_lost());
    kept.fencing_token().await.unwrap();
    let mixed = vec![exclusive("n0"), exclusive("elsewhere"), exclusive("again")];
    let granted = locks.try_acquire_many(mixed).await.unwrap();
    assert!(granted[0].is_none() && granted.iter().flatten().count() >= 1);
    master.signal("CONT");
    drop(locks.acquire(exclusive("n0"), LONG).await.unwrap());
    until("all to be back", || !locks.is_away()).await;
}

/// Whether a master keeps locks again is tried with a hash slot that it has now, not with one that it had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_refuses_stays_away_until_it_is_put_right() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster, short()).await;
    let from = cluster.master_of("workflow:a");
    let to = cluster.nodes.iter().find(|node| node.port() != from.port()).unwrap();
    // The first slot of the master moves.
    let place = cluster
        .nodes
        .iter()
        .position(|node| node.port() == from.port())
        .unwrap();
    let first = ["0", "5461", "10923"][place];
    let [from_id, to_id] = [from, to].map(|node| node.run(&["CLUSTER", "MYID"]));
    assert_eq!(to.run(&["CLUSTER", "SETSLOT", first, "IMPORTING", &from_id]), "OK");
    assert_eq!(from.run(&["CLUSTER", "SETSLOT", first, "MIGRATING", &to_id]), "OK");
    let keys = from.run(&["CLUSTER", "GETKEYSINSLOT", first, "100"]);
    for key in keys.lines().filter(|key| !key.is_empty()) {
        let moved = from.run(&["MIGRATE", "127.0.0.1", &to.port().to_string(), key, "0", "5000"]);
        assert_eq!(moved, "OK", "{key}");
    }
    for node in [to, from] {
        assert_eq!(node.run(&["CLUSTER", "SETSLOT", first, "NODE", &to_id]), "OK");
    }
    drop(locks.acquire(exclusive("a"), LONG).await.unwrap());
    tokio::time::sleep(Duration::from_secs(2)).await;
    from.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let is_named = || locks.away_cause().is_some_and(|cause| cause.contains("maxmemory"));
    let began = Instant::now();
    while !is_named() {
        assert!(began.elapsed() < LONG);
        let _ = locks.try_acquire(exclusive("a")).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Also while nothing asks for a lock.
    let named = Instant::now();
    while named.elapsed() < Duration::from_secs(4) {
        assert!(is_named());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = locks.try_acquire(exclusive("a")).await.unwrap_err();
    assert!(error.to_string().contains("maxmemory"), "{error}");
    from.run(&["CONFIG", "SET", "maxmemory", "0"]);
    drop(locks.acquire(exclusive("a"), LONG).await.unwrap());
    until("all to be back", || !locks.is_away()).await;
}

/// All nodes are away, then back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_away_fails_tries_at_once() {
    let mut cluster = RedisCluster::start();
    let locks = connect(&cluster, short()).await;
    let handle = locks.acquire(exclusive("a"), LONG).await.unwrap();
    cluster.nodes.iter_mut().for_each(RedisProcess::kill);
    tokio::time::timeout(LONG, handle.lost()).await.unwrap();
    let began = Instant::now();
    let error = locks.try_acquire(exclusive("a")).await.unwrap_err();
    assert!(
        error.is_unavailable() && began.elapsed() < Duration::from_millis(500),
        "{error}"
    );
    cluster.nodes.iter_mut().for_each(RedisProcess::restart);
    drop(locks.acquire(exclusive("a"), LONG).await.unwrap());
}
