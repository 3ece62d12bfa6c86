//! A process ends whatever state its threads are in.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::support::node::{Node, definition};
use crate::support::{Gate, TestDatabase};

/// The burst that keeps a thread outlasts the drain, and its thread the runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_one_of_whose_threads_hangs_drains_and_ends() {
    let (database, gate) = (TestDatabase::create().await, Gate::new());
    gate.open();
    let variables = [
        ("MAINSPRING_FAILPOINTS", &*gate.blocks("burst.instance.kept")),
        ("TOKIO_WORKER_THREADS", "2"),
    ];
    let mut node = Node::start_at(&database.url(), "one", &["--drain-timeout", "2s"], &variables);
    let http = node.http.clone().unwrap();
    http.publish(&definition()).await;
    let start = json!({"instanceId": "kept", "input": {"n": 1}});
    let path = "workflow-definitions/walk/dispatch";
    let sends = http.send(Method::POST, path, &[], Some(&start));
    let _ = tokio::time::timeout(Duration::from_millis(500), sends).await;
    let client = database.connect().await;
    client.wait_for_rows("work WHERE claimed_by IS NOT NULL", 1).await;
    node.child.signal("TERM");
    let status = node.child.wait(Duration::from_secs(30));
    assert_eq!(status.code(), Some(0), "{:?}", node.child.stderr());
    assert_eq!(client.rows("work WHERE claimed_by IS NULL").await, 1);
    assert_eq!(client.rows("node").await, 0, "it has left");
}
