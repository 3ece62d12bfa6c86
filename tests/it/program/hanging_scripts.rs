//! Scripts that hang their threads in native code: their callers are answered, other scripts continue, and a node whose
//! threads for scripts all hang leaves the cluster and ends.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::node::{Node, assert_invariants, definition};
use crate::support::{TestDatabase, wait_until};

/// Compares long texts: each step takes milliseconds, and QuickJS asks after ten thousand of them.
fn hanging(n: usize) -> serde_json::Value {
    let script = format!("const t = 'a'.repeat(28e6), u = 'a'.repeat(28e6); let n = {n}; for (;;) if (t === u) n++;");
    let script = json!({"typeName": "String", "expression": {"type": "JavaScript", "value": script}});
    json!({"definitionId": format!("hang-{n}"), "name": "Hang", "root": {"type": "Elsa.WriteLine", "id": "line", "text": script}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_eighth_thread_that_hangs_ends_its_node_and_others_go_on() {
    let database = TestDatabase::create().await;
    let settings = ["--script-time-limit", "200ms", "--drain-timeout", "5s"];
    let mut node = Node::start_with(&database, "one", &settings, "");
    let http = node.http.clone().unwrap();
    http.publish(&definition()).await;
    http.dispatch("walk", &json!({"instanceId": "waits", "input": {"n": 1}}))
        .await;
    http.instance_becomes("waits", "Suspended").await;
    let mut hung = 0;
    for n in 0.. {
        assert!(n < 40, "{hung} of {n} hang");
        http.publish(&hanging(n)).await;
        let began = Instant::now();
        let fault = http
            .post(&format!("workflow-definitions/hang-{n}/execute"), &json!({}))
            .await;
        let took = began.elapsed();
        assert_eq!(fault.status, 500, "{}", fault.body);
        assert!(fault.body.to_string().contains("script-timeout"), "{}", fault.body);
        println!("answered after {took:?}");
        // The limit, and a second; a debug build on a busy machine takes longer.
        assert!(took < Duration::from_secs(10), "{took:?}");
        // QuickJS may ask soon after the limit by chance: it counts the steps of the scripts before, too.
        hung = node
            .child
            .stderr()
            .iter()
            .filter(|line| line.contains("its thread is abandoned"))
            .count();
        if hung >= 8 {
            break;
        }
        http.execute("walk", &json!({"input": {"n": 2}})).await;
    }
    let other = Node::start_with(&database, "two", &settings, "");
    let status = node.child.wait(Duration::from_secs(30));
    assert_eq!(status.code(), Some(5), "{:?}", node.child.stderr());
    assert!(
        node.child.logs("its threads for scripts hang"),
        "{:?}",
        node.child.stderr()
    );
    let client = database.connect().await;
    wait_until("the node to have left", async || client.rows("node").await == 1).await;
    let http = other.http.as_ref().unwrap();
    http.trigger("go-1", &json!({})).await;
    http.instance_becomes("waits", "Finished").await;
    assert_invariants(&database).await;
}
