//! Redis never decides: locks that are deleted, forgotten, shortened or out of reach repeat no commit and lose no work.

use std::time::Duration;

use serde_json::json;

use crate::support::node::{
    Node, assert_each_exactly_once, assert_invariants, load, publish, start_three, wait_until_finished,
};
use crate::support::redis::RedisProcess;
use crate::support::{LONG_TIMEOUT, Proxy, TestDatabase, long, poll_until};

/// How many walks run at a time.
const WALKS: usize = 40;

fn start(database: &TestDatabase, url: &str) -> Vec<Node> {
    let in_redis = ["--lock-provider", "redis", "--redis-url", url];
    let times = ["--lock-expiry", "1500ms", "--tolerance", "2s"];
    start_three(database, &[in_redis, times].concat())
}

/// What is disturbed.
struct Scene {
    redis: RedisProcess,
    /// Between the nodes and Redis.
    network: Proxy,
    nodes: Vec<Node>,
}

/// Runs walks on three nodes while something is done to Redis, to its network or to a node, again and again.
async fn disturbed(arguments: &[&str], mut disturb: impl AsyncFnMut(&mut Scene, usize)) {
    let database = TestDatabase::create().await;
    let redis = RedisProcess::start_with(arguments);
    let network = Proxy::before(&redis.url()).await;
    let nodes = start(&database, network.url());
    let mut scene = Scene { redis, network, nodes };
    publish(scene.nodes[1].http.as_ref().unwrap()).await;
    let addresses = scene
        .nodes
        .iter()
        .skip(1)
        .filter_map(|node| node.http.clone())
        .collect();
    let walks = load(addresses, WALKS);
    for round in 0..20 {
        disturb(&mut scene, round).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for walk in walks {
        walk.await.unwrap();
    }
    let client = database.connect().await;
    let count = i64::try_from(WALKS).unwrap();
    wait_until_finished(&client, count).await;
    assert_each_exactly_once(&database, &client, count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_that_are_flushed_deleted_and_shortened_under_load_decide_nothing() {
    let mut met = 0;
    disturbed(&[], async |scene, round| {
        let redis = &scene.redis;
        let keys = redis.run(&["KEYS", "workflow:*"]);
        met += keys.lines().filter(|key| !key.is_empty()).count();
        match round % 3 {
            0 => drop(redis.run(&["FLUSHALL"])),
            1 => keys
                .lines()
                .filter(|key| !key.is_empty())
                .for_each(|key| drop(redis.run(&["DEL", key]))),
            _ => keys
                .lines()
                .filter(|key| !key.is_empty())
                .for_each(|key| drop(redis.run(&["PEXPIRE", key, "1"]))),
        }
    })
    .await;
    println!("{met} held keys were met");
    assert!(met > 0, "no lock was held at any time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_stopped_and_started_empty_decides_nothing() {
    disturbed(&[], async |scene, round| match round {
        3 => scene.redis.kill(),
        8 => scene.redis.restart(),
        10 => scene.redis.signal("STOP"),
        18 => scene.redis.signal("CONT"),
        _ => {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_stopped_past_its_expiry_and_a_killed_one_decide_nothing() {
    disturbed(&[], async |scene, round| match round {
        2 => scene.nodes[0].child.signal("STOP"),
        3 => tokio::time::sleep(Duration::from_secs(3)).await,
        4 => scene.nodes[0].child.signal("CONT"),
        12 => scene.nodes[0].child.kill9(),
        _ => {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_that_are_evicted_for_want_of_memory_decide_nothing() {
    let small = ["--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru"];
    let fill = "for n = 1, 6000 do redis.call('SET', ARGV[1] .. n, string.rep('x', 2000)) end";
    let mut evicted = String::new();
    disturbed(&small, async |scene, round| {
        scene.redis.run(&["EVAL", fill, "0", &format!("filling-{round}-")]);
        let stats = scene.redis.run(&["INFO", "stats"]);
        evicted = stats
            .lines()
            .find(|line| line.starts_with("evicted_keys:"))
            .unwrap_or_default()
            .trim()
            .to_owned();
    })
    .await;
    println!("{evicted}");
    assert!(!["", "evicted_keys:0"].contains(&&*evicted), "{evicted}");
}

/// Nothing passes and nothing is reset for longer than the expiry; then what was on the way is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_network_decides_nothing() {
    disturbed(&[], async |scene, round| match round {
        2 => scene.network.stall(),
        3 => tokio::time::sleep(Duration::from_secs(3)).await,
        4 => {
            scene.network.cut();
            scene.network.resume_traffic();
        }
        _ => {}
    })
    .await;
}

/// A burst of a minute, from whose fifth second on Redis is away: its lease runs out before its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_burst_whose_redis_goes_away_repeats_no_completed_activity() {
    const STEPS: usize = 12;
    if !long() {
        return;
    }
    let database = TestDatabase::create().await;
    let mut redis = RedisProcess::start();
    let url = redis.url();
    let settings = ["--bench-activities", "--lock-provider", "redis", "--redis-url", &url];
    let [one, two] = ["one", "two"].map(|name| Node::start_with(&database, name, &settings, ""));
    let number = |value: i64| json!({"typeName": "Int32", "expression": {"type": "Literal", "value": value}});
    let steps = (1..=STEPS).flat_map(|n| {
        let work = json!({"id": format!("work{n}"), "type": "Mainspring.Work", "milliseconds": number(5000)});
        let line = json!({"id": format!("line{n}"), "type": "Elsa.WriteLine", "text": format!("step {n} of {STEPS}")});
        [work, line]
    });
    // The first burst of a start needs no lock; what follows the delay does.
    let delay = json!({"id": "delay", "type": "Elsa.Delay", "timeSpan": "00:00:00.1"});
    let activities: Vec<serde_json::Value> = std::iter::once(delay).chain(steps).collect();
    let root = json!({"id": "root", "type": "Elsa.Sequence", "activities": activities});
    let http = one.http.as_ref().unwrap();
    http.publish(&json!({"definitionId": "long", "root": root})).await;
    http.dispatch("long", &json!({})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    redis.kill();
    tokio::time::sleep(Duration::from_secs(60)).await;
    redis.restart();
    let client = database.connect().await;
    poll_until(LONG_TIMEOUT, "the instance to finish", async || {
        (client.rows("instance WHERE sub_status = 3").await == 1).then_some(())
    })
    .await;
    let lines = [one.child.stdout(), two.child.stdout()].concat();
    for n in 1..=STEPS {
        let line = format!("step {n} of {STEPS}");
        assert_eq!(
            lines.iter().filter(|found| **found == line).count(),
            1,
            "{line}: {lines:?}"
        );
    }
    assert_invariants(&database).await;
}
