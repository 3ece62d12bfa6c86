//! Locks in files while a node has no descriptors left: they are away, and come back by themselves.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::node::Node;
use crate::support::single_node::{head, waits_for};
use crate::support::{TIMEOUT, TestDatabase, wait_until};

/// Sends a request over a connection that stays open, and gives the body of its answer.
async fn ask(stream: &mut TcpStream, request: &str) -> Value {
    let asked = async {
        let request = format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = head(stream).await.to_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap_or("0").parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        serde_json::from_slice(&body).unwrap_or_default()
    };
    tokio::time::timeout(TIMEOUT, asked).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_can_open_no_file_says_so_and_goes_on_once_it_can() {
    let database = TestDatabase::create().await;
    let folder = std::env::temp_dir().join(format!("{}.locks", database.name()));
    let settings = ["--lock-provider", "file", "--lock-dir", folder.to_str().unwrap()];
    let node = Node::start_with(&database, "one", &settings, "");
    let http = node.http.as_ref().unwrap();
    http.publish(&json!({"definitionId": "waits", "root": waits_for("go")}))
        .await;
    let begun = http.dispatch("waits", &json!({})).await;
    let id = begun["workflowInstanceId"].as_str().unwrap().to_owned();
    http.instance_becomes(&id, "Suspended").await;
    // A client may open another connection at any time, which the node could not accept.
    let mut stream = TcpStream::connect(http.address()).await.unwrap();
    let ready = "GET /health/ready";
    assert_eq!(ask(&mut stream, ready).await["away"], json!([]));

    let of_node = Pid::from_raw(i32::try_from(node.child.id()).unwrap());
    let limit = getrlimit(Resource::Nofile);
    // What is open stays open.
    let none = Rlimit {
        current: Some(1),
        ..limit
    };
    prlimit(of_node, Resource::Nofile, none).unwrap();
    ask(&mut stream, "POST /elsa/api/events/go/trigger").await;
    wait_until("readiness to name the locks", async || {
        ask(&mut stream, ready).await["away"] == json!(["locks"])
    })
    .await;
    let causes = ask(&mut stream, ready).await["causes"].to_string();
    assert!(
        causes.contains("Too many open files") && causes.contains(folder.to_str().unwrap()),
        "{causes}"
    );
    node.child.wait_for_log("locks of files cannot be taken").await;
    let shown = ask(&mut stream, &format!("GET /elsa/api/workflow-instances/{id}")).await;
    assert_eq!(shown["subStatus"], "Suspended");

    prlimit(of_node, Resource::Nofile, limit).unwrap();
    wait_until("the locks to come back", async || {
        ask(&mut stream, ready).await["away"] == json!([])
    })
    .await;
    http.instance_becomes(&id, "Finished").await;
    node.child.wait_for_log("locks of files can be taken again").await;
    drop(node);
    std::fs::remove_dir_all(&folder).unwrap();
}
