//! Cache notifications over Redis.

use serde_json::json;

use super::wake::{NEVER, OFTEN, named, shown};
use crate::support::node::{Node, spawn};
use crate::support::redis::RedisProcess;
use crate::support::redis_cluster::RedisCluster;
use crate::support::{Http, TIMEOUT, TestDatabase, wait_until};

async fn comes_to_show(http: &Http, version: usize) {
    let what = format!("a node to show version {version}");
    wait_until(&what, async || shown(http).await == format!("v{version}")).await;
}

/// The node stays ready, and names the services whose server is away.
async fn away_becomes(http: &Http, away: &[&str]) {
    wait_until("readiness to name what is away", async || {
        let answer = http.get("/health/ready").await.expect(200);
        assert_eq!(answer["status"], "ready");
        answer["away"] == json!(away)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_reaches_other_nodes_over_redis_and_by_check_ins_while_it_is_away() {
    let database = TestDatabase::create().await;
    let mut redis = RedisProcess::start();
    let url = redis.url();
    let over_redis = ["--signal", "redis", "--redis-url", &url];
    let start = |name, check_ins: &[&str]| Node::start_with(&database, name, &[check_ins, &over_redis].concat(), "");
    let nodes = [start("one", &NEVER), start("two", &NEVER), start("three", &OFTEN)];
    let [one, two, three] = nodes.each_ref().map(|node| node.http.as_ref().unwrap());
    let publish = async |version| drop(one.post("workflow-definitions", &named(version)).await.expect(200));
    publish(1).await;
    for node in [two, three] {
        comes_to_show(node, 1).await;
    }
    publish(2).await;
    // Before its event the node may show the version that it reads, and forgets it with the event.
    wait_until("the events of both versions", async || {
        let said = nodes[1].child.stderr().join("\n");
        let event = "Received cache invalidation event for workflow definition named";
        said.matches(event).count() == 2
    })
    .await;
    comes_to_show(two, 2).await;
    away_becomes(two, &[]).await;
    redis.kill();
    away_becomes(two, &["signal"]).await;
    away_becomes(three, &["signal"]).await;
    comes_to_show(three, 2).await;
    publish(3).await;
    comes_to_show(three, 3).await;
    assert_eq!(shown(two).await, "v2", "it has received nothing and not checked in");
    redis.restart();
    comes_to_show(two, 3).await;
    away_becomes(two, &[]).await;
    publish(4).await;
    comes_to_show(two, 4).await;
    let said = nodes[1].child.stderr().join("\n");
    for line in ["cache notifications is away", "cache notifications is back"] {
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
}

/// A nonce that changes while only the signal uses Redis is noticed over the open connection, and the nodes agree on the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_is_agreed_on_anew_over_the_connections_of_the_signal() {
    let database = TestDatabase::create().await;
    let (redis, elsewhere) = (RedisProcess::start(), RedisProcess::start());
    let (url, other_url) = (redis.url(), elsewhere.url());
    let settings = |url| [&OFTEN[..], &["--signal", "redis", "--redis-url", url]].concat();
    let [one, two] = ["one", "two"].map(|name| Node::start_with(&database, name, &settings(&url), ""));
    away_becomes(one.http.as_ref().unwrap(), &[]).await;
    redis.run(&["FLUSHALL"]);
    for node in [&one, &two] {
        node.child.wait_for_log("another nonce than before").await;
        node.child.wait_for_log("the services of this node have changed").await;
    }
    let nonce = redis.run(&["GET", "mainspring:nonce"]);
    let client = database.connect().await;
    let agreed = format!("node WHERE signal_domain = 'redis #{nonce}'");
    client.wait_for_rows(&agreed, 2).await;
    // A third one joins them; one with another server does not.
    let three = Node::start_with(&database, "three", &settings(&url), "");
    let mut four = spawn(&database.url(), "four", &settings(&other_url), &[]);
    assert_eq!(four.wait(TIMEOUT).code(), Some(2));
    let said = four.stderr().join("\n");
    assert_eq!(said.matches("redis #").count(), 2, "{said}");
    drop((one, two, three));
}

/// Nodes at different members of a cluster receive what each other publishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_reaches_other_nodes_over_each_member_of_a_cluster() {
    let database = TestDatabase::create().await;
    let redis = RedisCluster::start();
    let start = |name, member: &RedisProcess| {
        let url = format!("redis-cluster://127.0.0.1:{}", member.port());
        let over_redis = ["--signal", "redis", "--redis-url", &url];
        Node::start_with(&database, name, &[&NEVER[..], &over_redis].concat(), "")
    };
    let nodes = ["one", "two", "three"];
    let nodes: Vec<Node> = nodes
        .into_iter()
        .zip(&redis.nodes)
        .map(|(name, member)| start(name, member))
        .collect();
    let all: Vec<&Http> = nodes.iter().filter_map(|node| node.http.as_ref()).collect();
    for http in &all {
        away_becomes(http, &[]).await;
    }
    for (version, at) in (1..).zip(&all) {
        at.post("workflow-definitions", &named(version)).await.expect(200);
        for http in &all {
            comes_to_show(http, version).await;
        }
    }
}
