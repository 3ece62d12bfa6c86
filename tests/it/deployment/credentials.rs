//! A password that changes while nodes run: refused for as long as they have the old one, and nothing is lost.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::support::node::{NAMES, Node, assert_each_exactly_once, load, publish, wait_until_finished};
use crate::support::{Server, TIMEOUT, TestDatabase, poll_until, wait_until};

const FORMER: &str = "hemlock-77";
const LATTER: &str = "foxglove-88";

/// A file that is gone at the end.
struct Secret(PathBuf);

impl Secret {
    /// Replaces the file, as tools do.
    fn put(&self, password: &str) {
        let beside = self.0.with_extension("new");
        std::fs::write(&beside, format!("{password}\n")).unwrap();
        std::fs::rename(beside, &self.0).unwrap();
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_rotated_while_nodes_run() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let client = database.connect().await;
    let name = database.name();
    // All that the engine's user needs.
    client
        .run(&format!(
            "CREATE ROLE engine LOGIN PASSWORD '{FORMER}'; GRANT CREATE ON DATABASE {name} TO engine"
        ))
        .await;
    let file = Secret(std::env::temp_dir().join(format!("mainspring-secret-{}", uuid::Uuid::new_v4().simple())));
    file.put(FORMER);
    let url = format!("postgres://engine@127.0.0.1:{}/{name}", server.port());
    let path = file.0.display().to_string();
    let settings = ["--check-in", "200ms", "--database-password-file", &path];
    let mut nodes: Vec<Node> = NAMES
        .iter()
        .map(|name| Node::start_at(&url, name, &settings, &[]))
        .collect();
    publish(nodes[0].http.as_ref().unwrap()).await;
    let count = 120;
    let load = load(nodes.iter().map(|node| node.http.clone().unwrap()).collect(), count);
    wait_until("the load to begin", async || client.rows("instance").await > 0).await;
    // In a transaction of its own, so that new connections find it changed.
    client.run(&format!("ALTER ROLE engine PASSWORD '{LATTER}'")).await;
    // Again and again: one that had shown the former password just before is admitted just after.
    let ends = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'engine'";
    let mut none = 0;
    wait_until("all that came with the former password to be gone", async || {
        let ended = client.count(ends).await;
        none = if ended == 0 { none + 1 } else { 0 };
        none == 10
    })
    .await;
    for node in &nodes {
        let http = node.http.clone().unwrap();
        wait_until("the node to give the reason", async || {
            let start = json!({"input": {"n": 1000}});
            let path = "workflow-definitions/walk/dispatch";
            let answer = http.send(Method::POST, path, &[], Some(&start)).await.unwrap();
            assert_eq!(answer.status, 503, "{}", answer.body);
            answer.body["code"] == "database-refused"
        })
        .await;
        http.readiness_becomes(503).await;
    }
    // The nodes retry with a backoff of up to a few seconds.
    let refusals = || server.log().matches("password authentication failed").count();
    let (before, began) = (refusals(), Instant::now());
    let asked = poll_until(TIMEOUT, "the nodes to ask again", async || {
        let asked = refusals() - before;
        (began.elapsed() > Duration::from_secs(3) && asked > 0).then_some(asked)
    })
    .await;
    let took = began.elapsed();
    println!("three nodes asked {asked} times in {took:?}");
    assert!(asked as f64 / took.as_secs_f64() < 20.0, "{asked} in {took:?}");
    file.put(LATTER);
    let changed = Instant::now();
    for node in &nodes {
        let http = node.http.clone().unwrap();
        http.readiness_becomes(200).await;
    }
    println!("all ready again {:?} after the file changed", changed.elapsed());
    for lane in load {
        lane.await.unwrap();
    }
    println!("all accepted after {:?}", changed.elapsed());
    wait_until_finished(&client, count as i64).await;
    println!("all finished after {:?}", changed.elapsed());
    assert_each_exactly_once(&database, &client, count as i64).await;
    for node in &mut nodes {
        assert!(!node.child.has_ended(), "{} has ended", node.name);
        let said = [node.child.stdout(), node.child.stderr()].concat().join("\n");
        assert!(!said.contains(FORMER) && !said.contains(LATTER), "{said}");
    }
}
