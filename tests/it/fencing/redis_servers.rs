//! Redis servers that cannot be used as they are set, sentinels, and TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mainspring::lock::{LockProvider, LockRequest, RedisLockOptions, RedisLocks};
use mainspring::testing::conformance::lock::{LockMembers, Provider, conforms};
use serde_json::json;

use crate::support::certificates::Certificates;
use crate::support::node::{Node, assert_each_exactly_once, load, publish, spawn, start_three, wait_until_finished};
use crate::support::redis::RedisProcess;
use crate::support::sentinels::{MASTER, Sentinels};
use crate::support::{Child, TIMEOUT, TestDatabase, long, wait_until};

pub(super) fn start(database: &TestDatabase, url: &str, more: &[&str]) -> Child {
    let settings = ["--lock-provider", "redis", "--redis-url", url];
    spawn(&database.url(), "one", &[&settings[..], more].concat(), &[])
}

/// It ends with this exit code, and says these words and no password.
#[track_caller]
pub(super) fn ends(mut child: Child, code: i32, words: &[&str]) {
    let ended = child.wait(TIMEOUT).code();
    let said = child.stderr().join("\n");
    assert!(!said.contains("geheim") && !said.contains("falsch"), "{said}");
    let says_all = words.iter().all(|word| said.contains(word));
    assert!(ended == Some(code) && says_all, "{words:?}, {ended:?}: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_exits_with_a_remedy_where_its_redis_cannot_be_used() {
    let database = TestDatabase::create().await;
    let redis = RedisProcess::start_with(&["--requirepass", "geheim"]);
    let port = redis.port();
    let start = |url: &str| start(&database, url, &[]);
    ends(start(&format!("redis://:falsch@127.0.0.1:{port}")), 2, &["password"]);
    ends(start("redis://:geheim@127.0.0.1:1"), 3, &["127.0.0.1:1"]);
    ends(start(&format!("127.0.0.1:{port},pasword=geheim")), 2, &["pasword"]);
    ends(
        start(&format!("rediss://:geheim@127.0.0.1:{port}")),
        3,
        &["not speak TLS"],
    );
    ends(
        start(&format!("127.0.0.1:{port},serviceName=m,password=geheim")),
        2,
        &["not a sentinel"],
    );
    ends(
        start(&format!("redis-cluster://:geheim@127.0.0.1:{port}")),
        2,
        &["no cluster", "redis://"],
    );
    let replica = RedisProcess::start_with(&["--replicaof", "127.0.0.1", "1"]);
    ends(start(&replica.url()), 2, &["replica", "name the master"]);
    let waits = self::start(
        &database,
        "redis://:geheim@127.0.0.1:1",
        &["--signal", "redis", "--service-wait", "1s"],
    );
    ends(waits, 3, &["waiting for Redis", "127.0.0.1:1"]);
    // `abortConnect=false`: it starts without Redis, and is ready.
    let degraded = Node::start_at(
        &database.url(),
        "one",
        &[
            "--lock-provider",
            "redis",
            "--redis-url",
            "127.0.0.1:1,abortConnect=false",
        ],
        &[],
    );
    let http = degraded.http.as_ref().unwrap();
    wait_until("readiness to name what is away", async || {
        http.get("/health/ready").await.expect(200)["away"] == json!(["locks"])
    })
    .await;
    let said = degraded.child.stderr().join("\n");
    assert_eq!(said.matches("starts without Redis").count(), 1, "{said}");
}

/// The rights that docs/adapters.md lists are enough, and a missing one is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_documented_rights_is_enough() {
    let of_nodes = "info get set evalsha script|load subscribe publish";
    let of_scripts = "time type del exists pexpire pttl zadd zrange zrem zremrangebyscore zscore";
    let redis = RedisProcess::start();
    let allow = |commands: &str| {
        let rights = "ACL SETUSER app reset on >geheim ~workflow:* ~mainspring:* &mainspring:* -@all +";
        let all = format!("{rights}{}", commands.replace(' ', " +"));
        assert_eq!(redis.run(&all.split(' ').collect::<Vec<_>>()), "OK");
    };
    let database = TestDatabase::create().await;
    let url = format!("redis://app:geheim@127.0.0.1:{}", redis.port());
    allow("info");
    ends(start(&database, &url, &[]), 2, &["denies", "GET"]);
    allow(&format!("{of_nodes} {of_scripts}"));
    let all = ["--lock-provider", "redis", "--signal", "redis", "--redis-url", &url];
    let node = Node::start_with(&database, "one", &all, "");
    let http = node.http.as_ref().unwrap();
    publish(http).await;
    for walk in load(vec![http.clone()], 3) {
        walk.await.unwrap();
    }
    let client = database.connect().await;
    wait_until_finished(&client, 3).await;
    assert_eq!(http.get("/health/ready").await.expect(200)["away"], json!([]));
    assert_each_exactly_once(&database, &client, 3).await;
    // The locks were in Redis: each drew a token.
    assert!(!redis.run(&["GET", "mainspring:tokens:workflow:"]).is_empty());
}

/// What becomes of a master of sentinels.
#[derive(Clone, Copy, PartialEq)]
enum Failover {
    Killed,
    /// It continues later, and knows nothing of another one.
    Paused,
    /// Killed; the replica that is promoted has seen none of the keys that are held.
    NeverSeen,
}

/// Three nodes under load while sentinels promote another server.
async fn fails_over(failover: Failover) {
    let database = TestDatabase::create().await;
    let mut sentinels = Sentinels::start();
    let url = sentinels.connection_string();
    let redis = ["--lock-provider", "redis", "--signal", "redis", "--redis-url", &url];
    let nodes = start_three(&database, &[&redis[..], &["--lock-expiry", "3s"]].concat());
    let addresses: Vec<_> = nodes.iter().filter_map(|node| node.http.clone()).collect();
    publish(&addresses[0]).await;
    let locks = RedisLocks::connect(&url, RedisLockOptions::default()).await.unwrap();
    let walks = load(addresses.clone(), 60);
    let before = sentinels.master();
    if failover == Failover::NeverSeen {
        sentinels.cut_replication();
        wait_until("a lock that the replica has never seen", async || {
            let held = sentinels.run_at_master(&["KEYS", "workflow:*"]);
            let seen = sentinels.run_at_replica(&["KEYS", "workflow:*"]);
            held.lines().any(|key| !key.is_empty() && !seen.contains(key))
        })
        .await;
    }
    let paused = match failover {
        Failover::Paused => Some(sentinels.pause_master()),
        _ => {
            sentinels.kill_master();
            None
        }
    };
    wait_until("the sentinels to name another master", async || {
        sentinels.master() != before
    })
    .await;
    let promoted = Instant::now();
    // Readiness may not have seen yet that the former master is silent: what counts is a lock at the new one.
    wait_until("a lock at the promoted server", async || {
        let held = locks.acquire(LockRequest::exclusive("flows"), TIMEOUT).await;
        held.is_ok() && sentinels.run_at_master(&["EXISTS", "workflow:flows"]).trim() == "1"
    })
    .await;
    let flow = promoted.elapsed();
    for http in &addresses {
        wait_until("the locks to be back", async || {
            http.get("/health/ready").await.expect(200)["away"] == json!([])
        })
        .await;
    }
    let took = promoted.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    println!("locks flow after {flow:?}, and all nodes have the promoted server after {took:?}");
    if let Some(paused) = paused {
        sentinels.resume(paused);
        wait_until("the former master to follow", async || {
            sentinels.run_at(paused, &["ROLE"]).starts_with("slave")
        })
        .await;
        for http in &addresses {
            assert_eq!(http.get("/health/ready").await.expect(200)["away"], json!([]));
        }
    }
    for walk in walks {
        walk.await.unwrap();
    }
    let client = database.connect().await;
    wait_until_finished(&client, 60).await;
    assert!(!sentinels.run_at_master(&["GET", "mainspring:nonce"]).is_empty());
    assert_each_exactly_once(&database, &client, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_flow_again_soon_after_sentinels_have_promoted_a_replica() {
    if !long() {
        return;
    }
    fails_over(Failover::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_has_never_seen_the_held_locks_decides_nothing() {
    if !long() {
        return;
    }
    fails_over(Failover::NeverSeen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_stopped_while_another_one_was_promoted_decides_nothing() {
    if !long() {
        return;
    }
    fails_over(Failover::Paused).await;
}

/// Members of one master behind sentinels; each case has a prefix of its own.
struct BehindSentinels {
    url: String,
    prefix: String,
}

impl LockMembers for BehindSentinels {
    async fn provider(&self) -> Provider {
        let options = RedisLockOptions::default().prefix(&self.prefix);
        Arc::new(RedisLocks::connect(&self.url, options).await.unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_provider_conforms_behind_sentinels() {
    if !long() {
        return;
    }
    let sentinels = Sentinels::start();
    let cases = AtomicU64::new(0);
    conforms(async || BehindSentinels {
        url: sentinels.connection_string(),
        prefix: format!("case-{}:", cases.fetch_add(1, Ordering::SeqCst)),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_know_no_such_master_end_a_start() {
    if !long() {
        return;
    }
    let (database, sentinels) = (TestDatabase::create().await, Sentinels::start());
    let url = sentinels.connection_string().replace(MASTER, "unknown");
    ends(start(&database, &url, &[]), 2, &["`unknown`", "serviceName"]);
}

/// A master that was stopped, and continues as if it were one: nothing that it has is believed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_former_master_holds_is_not_asked_for() {
    if !long() {
        return;
    }
    let sentinels = Sentinels::start();
    let connect = async || {
        let options = RedisLockOptions::default();
        RedisLocks::connect(&sentinels.connection_string(), options)
            .await
            .unwrap()
    };
    let (here, there) = (connect().await, connect().await);
    let kept = here.try_acquire(LockRequest::exclusive("kept")).await.unwrap().unwrap();
    // It is deleted at the promoted server, and so only the former master has it.
    sentinels.run_at_master(&["SET", "workflow:old", "another/1:1"]);
    sentinels.run_at_master(&["WAIT", "1", "5000"]);
    let before = sentinels.master();
    let former = sentinels.pause_master();
    wait_until("the sentinels to name another master", async || {
        sentinels.master() != before
    })
    .await;
    let promoted = Instant::now();
    assert_eq!(sentinels.run_at_master(&["DEL", "workflow:old"]), "1");
    let held = there
        .acquire(LockRequest::exclusive("new"), Duration::from_secs(10))
        .await
        .unwrap();
    drop(
        here.acquire(LockRequest::exclusive("flows"), Duration::from_secs(10))
            .await
            .unwrap(),
    );
    let took = promoted.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    println!("locks flow {took:?} after the promotion");
    sentinels.resume(former);
    let mut tries = 0;
    wait_until("the former master to follow", async || {
        tries += 1;
        let new = here.try_acquire(LockRequest::exclusive("new")).await;
        assert!(!matches!(new, Ok(Some(_))), "the former master does not know the lock");
        let old = here.try_acquire(LockRequest::exclusive("old")).await;
        assert!(!matches!(old, Ok(None)), "the former master has a lock that is gone");
        sentinels.run_at(former, &["ROLE"]).starts_with("slave")
    })
    .await;
    println!("{tries} tries while the former master was one");
    // What was granted before the promotion is held on, at the promoted server.
    assert!(!kept.is_lost() && !held.is_lost());
    let (kept_at, held_at) = (
        sentinels.run_at_master(&["GET", "workflow:kept"]),
        sentinels.run_at_master(&["GET", "workflow:new"]),
    );
    assert!(!kept_at.is_empty() && !held_at.is_empty());
    kept.fencing_token().await.unwrap();
}

/// Each is logged once while a node runs, and heals when it is put right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_cannot_be_used_any_more_is_named_once_until_it_is_put_right() {
    let database = TestDatabase::create().await;
    let redis = RedisProcess::start();
    let file = std::env::temp_dir().join(format!("{}.redis-url", database.name()));
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", redis.port());
    std::fs::write(&file, redis.url()).unwrap();
    let path = file.to_str().unwrap();
    let settings = [
        "--lock-provider",
        "redis",
        "--signal",
        "redis",
        "--redis-url-file",
        path,
    ];
    let node = Node::start_with(&database, "one", &settings, "");
    let http = node.http.as_ref().unwrap();
    let away = async |names: &[&str]| {
        wait_until("readiness to name what is away", async || {
            http.get("/health/ready").await.expect(200)["away"] == json!(names)
        })
        .await;
    };
    let said = |part: &str| node.child.stderr().iter().filter(|line| line.contains(part)).count();
    let says = async |part: &str, times: usize| {
        wait_until(part, async || said(part) >= times).await;
        assert_eq!(said(part), times, "{part}");
    };
    // A password that changes.
    redis.run(&["CONFIG", "SET", "requirepass", "geheim"]);
    redis.run(&["-a", "geheim", "CLIENT", "KILL", "TYPE", "normal"]);
    redis.run(&["-a", "geheim", "CLIENT", "KILL", "TYPE", "pubsub"]);
    away(&["locks", "signal"]).await;
    says("refuses the user or the password", 2).await;
    says("is away", 2).await;
    std::fs::write(&file, url("geheim")).unwrap();
    away(&[]).await;
    says("is back", 2).await;
    // A server that becomes a replica of nothing.
    redis.run(&["-a", "geheim", "REPLICAOF", "127.0.0.1", "1"]);
    redis.run(&["-a", "geheim", "CLIENT", "KILL", "TYPE", "normal"]);
    redis.run(&["-a", "geheim", "CLIENT", "KILL", "TYPE", "pubsub"]);
    away(&["locks", "signal"]).await;
    says("it is a replica", 2).await;
    says("is away", 4).await;
    redis.run(&["-a", "geheim", "REPLICAOF", "NO", "ONE"]);
    away(&[]).await;
    says("is back", 4).await;
    assert_eq!(said("geheim"), 0);
    publish(http).await;
    for walk in load(vec![http.clone()], 3) {
        walk.await.unwrap();
    }
    let client = database.connect().await;
    wait_until_finished(&client, 3).await;
    assert_each_exactly_once(&database, &client, 3).await;
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_authority_and_a_client_certificate_are_used_and_needed() {
    let files = Certificates::make();
    let database = TestDatabase::create().await;
    let [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map(|name| files.path(name));
    let (server_cert, server_key) = (files.path("server.pem"), files.path("server.key"));
    let redis = RedisProcess::start_with_tls(&[
        "--tls-cert-file",
        &server_cert,
        "--tls-key-file",
        &server_key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "yes",
    ]);
    let url = format!("rediss://127.0.0.1:{}", redis.tls_port());
    let both = ["--redis-cert-file", &cert, "--redis-key-file", &key];
    let ca_file = ["--redis-ca-file", ca.as_str()];
    ends(start(&database, &url, &both), 3, &["redis-ca-file"]);
    ends(start(&database, &url, &ca_file), 3, &["TLS"]);
    ends(
        start(&database, &url, &["--redis-cert-file", &cert]),
        2,
        &["redis-key-file"],
    );
    ends(
        start(&database, &url, &["--redis-ca-file", "/dev/null"]),
        2,
        &["/dev/null", "PEM"],
    );
    ends(start(&database, &redis.url(), &ca_file), 2, &["rediss://"]);
    let plain = format!("redis://127.0.0.1:{}", redis.tls_port());
    ends(start(&database, &plain, &[]), 3, &["rediss://"]);
    let all = [
        &["--lock-provider", "redis", "--signal", "redis", "--redis-url", &url][..],
        &ca_file,
        &both,
    ]
    .concat();
    let node = Node::start_at(&database.url(), "one", &all, &[]);
    let http = node.http.as_ref().unwrap();
    wait_until("the signal to be there", async || {
        http.get("/health/ready").await.expect(200)["away"] == json!([])
    })
    .await;
    assert!(!redis.run(&["GET", "mainspring:nonce"]).is_empty());
    // `sslHost` is the name in the certificate, and no address.
    let named = |name: &str| format!("127.0.0.1:{},ssl=true,sslHost={name}", redis.tls_port());
    let with = |url| {
        [
            &["--lock-provider", "redis", "--signal", "redis", "--redis-url", url][..],
            &ca_file,
            &both,
        ]
        .concat()
    };
    let other = named("other.invalid");
    ends(
        start(&database, &other, &[&ca_file[..], &both].concat()),
        3,
        &["certificate", "127.0.0.1"],
    );
    let url = named("redis.invalid");
    let node = Node::start_at(&database.url(), "two", &with(&url), &[]);
    let http = node.http.as_ref().unwrap();
    wait_until("the signal to be there", async || {
        http.get("/health/ready").await.expect(200)["away"] == json!([])
    })
    .await;
}
