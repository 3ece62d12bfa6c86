//! Locks and cache notifications in a Redis cluster.

use std::time::{Duration, Instant};

use mainspring::lock::{LockProvider, LockRequest, RedisLockOptions, RedisLocks};
use serde_json::json;

use super::redis_servers::{ends, start};
use crate::support::certificates::Certificates;
use crate::support::node::{Node, assert_each_exactly_once, load, publish, start_three, wait_until_finished};
use crate::support::redis::RedisProcess;
use crate::support::redis_cluster::RedisCluster;
use crate::support::{Http, TIMEOUT, TestDatabase, long, wait_until};

async fn nothing_is_away(http: &Http) {
    wait_until("all services to be there", async || {
        http.get("/health/ready").await.expect(200)["away"] == json!([])
    })
    .await;
}

/// Three nodes of the engine with the rights that docs/adapters.md lists, after refusals that name the remedy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_share_a_cluster_and_what_is_no_cluster_is_refused() {
    let database = TestDatabase::create().await;
    let (redis, single) = (RedisCluster::start(), RedisProcess::start());
    let member = redis.nodes[0].url();
    ends(start(&database, &member, &[]), 2, &["--redis-url", "redis-cluster://"]);
    ends(
        start(&database, &single.url().replace("redis:", "redis-cluster:"), &[]),
        2,
        &["--redis-url", "no cluster"],
    );
    ends(start(&database, &format!("{}/1", redis.url()), &[]), 2, &["database 0"]);
    ends(
        start(&database, "redis-cluster://127.0.0.1:1", &[]),
        3,
        &["127.0.0.1:1"],
    );
    let of_nodes = "info get set evalsha script|load subscribe publish ping asking cluster|info cluster|slots";
    let of_scripts = "time type del exists pexpire pttl zadd zrange zrem zremrangebyscore zscore";
    let rights = "ACL SETUSER app reset on >geheim ~workflow:* ~mainspring:* &mainspring:* -@all +";
    let rights = format!("{rights}{}", format!("{of_nodes} {of_scripts}").replace(' ', " +"));
    for node in &redis.nodes {
        assert_eq!(node.run(&rights.split(' ').collect::<Vec<_>>()), "OK");
    }
    let url = redis.url().replace("://", "://app:geheim@");
    let settings = ["--lock-provider", "redis", "--signal", "redis", "--redis-url", &url];
    let nodes = start_three(&database, &settings);
    let addresses: Vec<_> = nodes.iter().filter_map(|node| node.http.clone()).collect();
    publish(&addresses[0]).await;
    for walk in load(addresses.clone(), 12) {
        walk.await.unwrap();
    }
    let client = database.connect().await;
    wait_until_finished(&client, 12).await;
    for http in &addresses {
        nothing_is_away(http).await;
    }
    assert_each_exactly_once(&database, &client, 12).await;
    // The locks were in Redis: each drew a token. No node needed a right that it lacked.
    assert!(!redis.keys("mainspring:tokens:*").is_empty());
    assert!(!redis.run(&["GET", "mainspring:nonce"]).is_empty());
    for node in &redis.nodes {
        assert_eq!(node.run(&["ACL", "LOG"]), "");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_tls_is_reached_at_each_node() {
    if !long() {
        return;
    }
    let files = Certificates::make();
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(|name| files.path(name));
    let redis = RedisCluster::start_with_tls(&[
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "no",
        // Else its nodes name each other by their ports without TLS.
        "--tls-cluster",
        "yes",
    ]);
    let database = TestDatabase::create().await;
    let url = format!("rediss-cluster://127.0.0.1:{}", redis.nodes[1].tls_port());
    let settings = ["--signal", "redis", "--redis-ca-file", &ca];
    let all = [&["--lock-provider", "redis", "--redis-url", &url][..], &settings].concat();
    let node = Node::start_with(&database, "one", &all, "");
    let http = node.http.as_ref().unwrap();
    publish(http).await;
    for walk in load(vec![http.clone()], 6) {
        walk.await.unwrap();
    }
    nothing_is_away(http).await;
    let client = database.connect().await;
    wait_until_finished(&client, 6).await;
    assert_each_exactly_once(&database, &client, 6).await;
}

/// Three nodes under load while a master is killed, and its replica promoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_flow_again_soon_after_a_cluster_has_promoted_a_replica() {
    if !long() {
        return;
    }
    let database = TestDatabase::create().await;
    let mut redis = RedisCluster::start_with_replicas();
    let url = redis.url();
    let settings = ["--lock-provider", "redis", "--signal", "redis", "--redis-url", &url];
    let nodes = start_three(&database, &[&settings[..], &["--lock-expiry", "3s"]].concat());
    let addresses: Vec<_> = nodes.iter().filter_map(|node| node.http.clone()).collect();
    publish(&addresses[0]).await;
    let locks = RedisLocks::connect(&url, RedisLockOptions::default()).await.unwrap();
    let of_killed = (0..).map(|number| format!("n{number}"));
    let of_killed = of_killed
        .filter(|name| redis.master_of(&format!("workflow:{name}")).port() == redis.nodes[1].port())
        .take(2)
        .collect::<Vec<_>>();
    let take_each = async || {
        for name in &of_killed {
            let request = LockRequest::exclusive(name.as_str());
            drop(locks.acquire(request, TIMEOUT).await.unwrap());
        }
    };
    let walks = load(addresses.clone(), 90);
    let client = database.connect().await;
    wait_until("some instances to be under way", async || {
        client.rows("instance").await >= 10
    })
    .await;
    redis.kill_master();
    let killed = Instant::now();
    wait_until("the promotion of the replica", async || redis.is_promoted()).await;
    let promoted = Instant::now();
    take_each().await;
    let flow = promoted.elapsed();
    for http in &addresses {
        nothing_is_away(http).await;
    }
    let took = promoted.elapsed();
    println!(
        "promoted {:?} after the kill; locks flow {flow:?} after the promotion, and all nodes have it after {took:?}",
        promoted - killed
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
    for walk in walks {
        walk.await.unwrap();
    }
    // What was the master comes back, and follows.
    redis.nodes[1].restart();
    wait_until("the former master to follow", async || {
        redis.nodes[1].run(&["ROLE"]).starts_with("slave")
    })
    .await;
    take_each().await;
    wait_until_finished(&client, 90).await;
    for http in &addresses {
        nothing_is_away(http).await;
    }
    assert_each_exactly_once(&database, &client, 90).await;
}
