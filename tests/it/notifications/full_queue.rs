//! A server whose queue of notifications is full: hints are lost, and nothing else.

use serde_json::json;

use crate::support::node::Node;
use crate::support::single_node::literal;
use crate::support::{Server, Stop, TestDatabase, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_costs_no_connection_and_is_emptied_once_its_readers_go_on() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let version = "SELECT current_setting('server_version_num')::bigint";
    if database.connect().await.count(version).await < 170_000 {
        // Its queue has 8 GB, whatever is set.
        return;
    }
    // The smallest one, of 512 kB.
    let set = "ALTER SYSTEM SET max_notify_queue_pages = 64";
    database.connect().await.run(set).await;
    server.restart(Stop::Fast);
    let settings = ["--check-in", "200ms"];
    let one = Node::start_with(&database, "one", &[&settings[..], &["--workers", "0"]].concat(), "");
    let two = Node::start_with(&database, "two", &settings, "");
    let http = one.http.as_ref().unwrap();
    let root = json!({"id": "w", "type": "Elsa.WriteLine", "text": literal("here")});
    http.publish(&json!({"definitionId": "says", "root": root})).await;

    // No session may remove what a listener in a transaction has not read.
    let hog = database.connect().await;
    for statement in ["LISTEN hog", "BEGIN; SELECT 1"] {
        hog.run(statement).await;
    }
    let sender = database.connect().await;
    while sender
        .batch_execute("SELECT pg_notify('hog', repeat('x', 7900))")
        .await
        .is_ok()
    {}
    let finishes = async || {
        let begun = http.dispatch("says", &json!({})).await;
        http.instance_becomes(begun["workflowInstanceId"].as_str().unwrap(), "Finished")
            .await;
    };
    // A check-in finds it.
    finishes().await;
    one.child.wait_for_log("a notification to other nodes is lost").await;
    // A publish is refused with the cause.
    let changed = json!({"id": "w", "type": "Elsa.WriteLine", "text": literal("there")});
    let changed = json!({"definitionId": "says", "root": changed});
    let save = json!({"model": &changed, "publish": true});
    let refused = http.post("workflow-definitions", &save).await.expect(503).to_string();
    assert!(refused.contains("its queue of notifications is full"), "{refused}");

    drop(hog);
    // The server itself leaves the queue full, and the nodes send nothing that would tell them.
    wait_until("notifications to be sent again", async || {
        sender.batch_execute("NOTIFY hog").await.is_ok()
    })
    .await;
    http.publish(&changed).await;
    finishes().await;
    for node in [&one, &two] {
        assert!(!node.child.logs("connection for notifications was lost"));
    }
}
