//! Nodes that admit other callers than the others say so, each in its log.

use crate::support::node::Node;
use crate::support::{TestDatabase, wait_until};

const FORMER: &str = "former-s3cret-of-a-test";
const LATTER: &str = "latter-s3cret-of-a-test";
const DIFFERENT: &str = "different settings, so one may refuse what the other admits";
const SAME: &str = "all live nodes have the same identity settings again";

/// The settings that a node names as different from those of another one, from the newest line.
fn named(node: &Node, other: &str) -> Option<String> {
    let lines = node.child.stderr();
    let mut lines = lines.iter().rev().filter(|line| line.contains(DIFFERENT));
    let line = lines.find(|line| line.contains(&format!("node=\"{other}\"")))?;
    let settings = line.split_once("settings=\"")?.1.split_once('"')?.0;
    Some(settings.to_owned())
}

async fn names(node: &Node, other: &str, settings: &str) {
    let what = format!("{} to name {settings} of {other}", node.name);
    wait_until(&what, async || named(node, other).as_deref() == Some(settings)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_node_by_node_is_named_at_each_and_ends() {
    let database = TestDatabase::create().await;
    let settings = |key| ["--check-in", "200ms", "--api-key", key];
    let one = Node::start_with(&database, "one", &settings(FORMER), "");
    let two = Node::start_with(&database, "two", &settings(FORMER), "");
    // One without the role that these settings are for has nothing to compare.
    let worker = Node::start_with(&database, "three", &["--check-in", "200ms", "--roles", "worker"], "");
    drop(two);
    // Nothing is refused: the new one serves while the former one does.
    let more = [
        "--cors-origin",
        "https://studio.example",
        "--trusted-proxy",
        "10.0.0.0/8",
    ];
    let two = Node::start_with(&database, "two", &[&settings(LATTER)[..], &more].concat(), "");
    let differing = "api-key, cors-origin, trusted-proxy";
    names(&one, "two", differing).await;
    names(&two, "one", differing).await;
    drop(one);
    let one = Node::start_with(&database, "one", &[&settings(LATTER)[..], &more].concat(), "");
    two.child.wait_for_log(SAME).await;
    assert!(!worker.child.logs(DIFFERENT) && !one.child.logs(DIFFERENT));
    for node in [&one, &two, &worker] {
        assert!(!node.child.logs("s3cret"), "{}", node.child.stderr().join("\n"));
    }
    // What is recorded is too short to find a key by.
    let client = database.connect().await;
    let rows = client
        .query(
            "SELECT unnest(identity_settings) AS setting FROM mainspring.node WHERE node_id = 'one'",
            &[],
        )
        .await
        .unwrap();
    let recorded: Vec<String> = rows.iter().map(|row| row.get("setting")).collect();
    let key = recorded.iter().find_map(|setting| setting.strip_prefix("api-key="));
    assert_eq!(key.map(str::len), Some(8), "{recorded:?}");
}
