//! Nodes of one cluster have the same services.

use crate::support::node::{Node, spawn};
use crate::support::{TIMEOUT, TestDatabase};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_has_a_service_elsewhere_ends_and_names_both() {
    let database = TestDatabase::create().await;
    let folder = std::env::temp_dir().join(format!("mainspring-domain-{}", uuid::Uuid::new_v4().simple()));
    let in_files = ["--lock-provider", "file", "--lock-dir", folder.to_str().unwrap()];
    let one = Node::start(&database, "one");
    let mut two = spawn(&database.url(), "two", &in_files, &[]);
    assert_eq!(two.wait(TIMEOUT).code(), Some(2));
    let said = two.stderr().join("\n");
    assert!(
        said.contains("postgres") && said.contains(folder.to_str().unwrap()) && said.contains("one"),
        "{said}"
    );
    // The same for what carries notifications; `local` is for a single node.
    for setting in ["--signal", "--wake"] {
        let mut other = spawn(&database.url(), "other", &[setting, "local"], &[]);
        assert_eq!(other.wait(TIMEOUT).code(), Some(2));
        let said = other.stderr().join("\n");
        let names_both = said.contains("over local") && said.contains("node one it is postgres");
        assert!(names_both && said.contains(&format!("the same {setting}")), "{said}");
    }
    // They have left no row, and a node like the first one starts at once.
    let client = database.connect().await;
    assert_eq!(client.rows("node").await, 1);
    let three = Node::start(&database, "three");
    drop((one, three));
    // The rows of killed nodes count until they expire.
    let settings = [&in_files[..], &["--check-in", "200ms"]].concat();
    client.execute("DELETE FROM mainspring.node", &[]).await.unwrap();
    let four = Node::start_with(&database, "four", &settings, "");
    let five = Node::start_with(&database, "five", &settings, "");
    drop((four, five));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_redis_servers_are_distinguished_and_one_that_was_emptied_is_agreed_on_anew() {
    use crate::support::redis::RedisProcess;

    let database = TestDatabase::create().await;
    let (redis, elsewhere) = (RedisProcess::start(), RedisProcess::start());
    let (url, other_url) = (redis.url(), elsewhere.url());
    let settings = |url| ["--lock-provider", "redis", "--redis-url", url, "--check-in", "200ms"];
    let one = Node::start_with(&database, "one", &settings(&url), "");
    let mut two = spawn(&database.url(), "two", &settings(&other_url), &[]);
    assert_eq!(two.wait(TIMEOUT).code(), Some(2));
    let said = two.stderr().join("\n");
    assert_eq!(said.matches("redis workflow: #").count(), 2, "{said}");
    redis.run(&["FLUSHALL"]);
    let three = Node::start_with(&database, "three", &settings(&url), "");
    one.child.wait_for_log("another nonce than before").await;
    drop((one, three));
}
