//! Stalled connections block no other client.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::single_node::{KEY, SingleNode, literal};
use crate::support::{Child, Http, LONG_TIMEOUT, Server, Stop, TestDatabase};

/// What a node may have of open files in the test, and more connections than that leaves room for.
const FILES: usize = 400;
const MANY: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_heads_block_no_client() {
    let database = TestDatabase::create().await;
    let limited = format!("ulimit -n {FILES}; exec \"$0\" \"$@\"");
    let program = env!("CARGO_BIN_EXE_mainspring");
    let arguments = ["-c", &limited, program, "serve", "--api-key", KEY];
    let url = database.url();
    let settings = [("MAINSPRING_LISTEN", "127.0.0.1:0"), ("MAINSPRING_DATABASE_URL", &url)];
    let node = SingleNode::ready(database, Child::program("sh", &arguments, &settings));
    node.publish(
        "hello",
        json!({"id": "w", "type": "Elsa.WriteLine", "text": literal("here")}),
    )
    .await;

    let mut held = Vec::new();
    for _ in 0..MANY {
        let mut stream = node.connect().await;
        // It may have ended already for one that came later.
        let _ = stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: loc").await;
        held.push(stream);
    }
    let answered = async {
        let live = Http::new(&format!("http://{}", node.address)).get("/health/live").await;
        live.expect(200);
        let executed = node.http.post("workflow-definitions/hello/execute", &json!({})).await;
        executed.expect(200);
    };
    // Before, the first answer came when the heads had timed out, after a minute.
    tokio::time::timeout(Duration::from_secs(20), answered)
        .await
        .expect("answers in time");
    let errors = node.child.stderr().join("\n");
    assert!(!errors.contains("cannot accept connections"), "{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_has_a_listener_of_its_own() {
    let server = Server::start().await;
    server.stop(Stop::Fast);
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--health-listen",
        "127.0.0.1:0",
        "--database-wait",
        "2m",
    ];
    let mut child = Child::start(&arguments, &[("MAINSPRING_DATABASE_URL", &server.url())]);
    let health = child.health().await;
    // The node waits for its database: it is live and not ready.
    health.get("/health/live").await.expect(200);
    assert_eq!(health.get("/health/ready").await.expect(503)["status"], "not-ready");
    assert_eq!(health.get("workflow-definitions").await.status, 404);
    server.start_again();
    child.wait_for_line("ready ", LONG_TIMEOUT);
    health.get("/health/ready").await.expect(200);
    child.signal("TERM");
    assert_eq!(child.wait(LONG_TIMEOUT).code(), Some(0));
}
