//! Redis never decides: locks that are deleted, forgotten, shortened or out of reach repeat no commit and lose no work.

use std::time::Duration;

use crate::support::node::{Node, assert_each_exactly_once, load, publish, start_three, wait_until_finished};
use crate::support::redis::RedisProcess;
use crate::support::{Child, TIMEOUT, TestDatabase};

/// How many walks run at a time.
const WALKS: usize = 40;

fn settings(redis: &RedisProcess) -> Vec<String> {
    let url = redis.url();
    let all = [
        "--lock-provider",
        "redis",
        "--redis-url",
        &url,
        "--lock-expiry",
        "1500ms",
        "--tolerance",
        "2s",
    ];
    all.map(str::to_owned).to_vec()
}

fn start(database: &TestDatabase, redis: &RedisProcess) -> Vec<Node> {
    let settings = settings(redis);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    start_three(database, &settings)
}

/// Runs walks on three nodes while something is done to Redis or to a node, again and again.
async fn disturbed(mut disturb: impl AsyncFnMut(&mut RedisProcess, &mut Vec<Node>, usize)) {
    let database = TestDatabase::create().await;
    let mut redis = RedisProcess::start();
    let mut nodes = start(&database, &redis);
    publish(nodes[1].http.as_ref().unwrap()).await;
    let addresses = nodes.iter().skip(1).filter_map(|node| node.http.clone()).collect();
    let walks = load(addresses, WALKS);
    for round in 0..20 {
        disturb(&mut redis, &mut nodes, round).await;
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
    disturbed(async |redis, _, round| {
        let keys = redis.run(&["KEYS", "workflow:*"]);
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_stopped_and_started_empty_decides_nothing() {
    disturbed(async |redis, _, round| match round {
        3 => redis.kill(),
        8 => redis.restart(),
        10 => redis.signal("STOP"),
        18 => redis.signal("CONT"),
        _ => {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_stopped_past_its_expiry_and_a_killed_one_decide_nothing() {
    disturbed(async |_, nodes, round| match round {
        2 => nodes[0].child.signal("STOP"),
        3 => tokio::time::sleep(Duration::from_secs(3)).await,
        4 => nodes[0].child.signal("CONT"),
        12 => nodes[0].child.kill9(),
        _ => {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_exits_with_a_remedy_where_its_redis_cannot_be_used() {
    let database = TestDatabase::create().await;
    let redis = RedisProcess::start_with(&["--requirepass", "geheim"]);
    let port = redis.port();
    let node = |url: String| {
        let settings = ["--lock-provider", "redis", "--redis-url", &url];
        crate::support::node::spawn(&database.url(), "one", &settings, &[])
    };
    let ended = |mut child: Child| {
        let code = child.wait(TIMEOUT).code().unwrap();
        let said = child.stderr().join("\n");
        assert!(!said.contains("geheim") && !said.contains("falsch"), "{said}");
        (code, said)
    };
    let (code, said) = ended(node(format!("redis://:falsch@127.0.0.1:{port}")));
    assert!(code == 2 && said.contains("password"), "{code}: {said}");
    let (code, said) = ended(node("redis://:geheim@127.0.0.1:1".to_owned()));
    assert!(code == 3 && said.contains("127.0.0.1:1"), "{code}: {said}");
    let (code, said) = ended(node(format!("127.0.0.1:{port},pasword=geheim")));
    assert!(code == 2 && said.contains("pasword"), "{code}: {said}");
    // `abortConnect=false`: it starts without Redis.
    let degraded = node("127.0.0.1:1,abortConnect=false".to_owned());
    degraded.wait_for_line("ready ", TIMEOUT);
}
