//! More connections than a node may have, of clients that send half a head or nothing.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::{Received, echo, request};
use crate::support::single_node::SingleNode;
use crate::support::{Child, LONG_TIMEOUT, TIMEOUT, TestDatabase, long, wait_until};

/// Opens connections, sends half a head over every second one, and keeps them.
const OPENER: &str = r#"
import signal, socket, sys
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = []
for at in range(count):
    one = socket.create_connection((host, port))
    held.append(one)
    try:
        if at % 2:
            one.sendall(b'POST /workflows/here HTTP/1.1\r\nHost: loc')
    except OSError:
        # Closed for one that came later.
        pass
print('ready', len(held), flush=True)
signal.pause()
"#;

/// What one of them may take of the node's memory, and what a node may take that serves beside them, in bytes.
const EACH: u64 = 32 << 10;
const BESIDE: u64 = 32 << 20;

/// The most open files that a process of this user may have.
fn most_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    // `unlimited` is no number.
    line.split_whitespace().nth(4).unwrap().parse().unwrap_or(usize::MAX)
}

/// Starts a program that may have so many open files.
fn with_files(files: usize, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    let limited = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
    Child::program("sh", &[&["-c", &limited, program], arguments].concat(), variables)
}

/// How many files a node has open.
fn open_files(node: &SingleNode) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", node.child.id()))
        .unwrap()
        .count()
}

/// How many connections a node admits, as it logs it.
fn admitted(node: &SingleNode) -> usize {
    let lines = node.child.stderr();
    let line = lines
        .iter()
        .find(|line| line.contains("connection limit, derived"))
        .unwrap();
    let number = line.split_once("connections=").unwrap().1;
    number.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_send_no_request_keep_no_other_from_being_served() {
    // With enough open files the node admits its most, 8,192.
    let (files, count) = if long() { (10_000, 10_000) } else { (400, 500) };
    let (files, count) = (files.min(most_files()), count.min(most_files() - 100));
    let database = TestDatabase::create().await;
    let url = database.url();
    let settings = [("MAINSPRING_LISTEN", "127.0.0.1:0"), ("MAINSPRING_DATABASE_URL", &url)];
    let child = with_files(files, env!("CARGO_BIN_EXE_mainspring"), &["serve"], &settings);
    let node = SingleNode::ready(database, child);
    node.http.publish(&echo("here", "here", &["POST"], "getBody()")).await;
    let serves = async || {
        let sent = request(&node.http, Method::POST, "here");
        Received::of(sent.json(&json!("here"))).await.expect(200)
    };
    assert_eq!(serves().await, "here");
    let limit = admitted(&node);
    assert!(count > limit, "{count} connections fit into {limit}");
    let (before, files_before) = (node.memory("VmRSS"), open_files(&node));

    let (host, port) = node.address.split_once(':').unwrap();
    let number = count.to_string();
    let holder = with_files(count + 50, "python3", &["-c", OPENER, host, port, &number], &[]);
    assert_eq!(holder.wait_for_line("ready ", LONG_TIMEOUT), number);
    // The node accepts connections after the clients have opened them.
    wait_until("half of the connections to be accepted", async || {
        open_files(&node) > files_before + limit / 2
    })
    .await;
    let held = open_files(&node) - files_before;
    assert!(held <= limit + 10, "{held} of {limit} are open");
    // Real clients come one after the other, each with a connection of its own.
    for _ in 0..20 {
        let served = tokio::time::timeout(Duration::from_secs(20), serves()).await;
        assert_eq!(served.expect("an answer in time"), "here");
    }
    let grown = node.memory("VmHWM").saturating_sub(before);
    eprintln!("{held} open connections of {count} take {} KiB", grown >> 10);
    let most = EACH * limit as u64 + BESIDE;
    assert!(grown < most, "{grown} bytes for {limit} connections");

    drop(holder);
    wait_until("the connections to be closed", async || {
        open_files(&node) <= files_before + 10
    })
    .await;
    for _ in 0..20 {
        let served = tokio::time::timeout(TIMEOUT, serves()).await;
        assert_eq!(served.expect("an answer in time"), "here");
    }
    let errors = node.child.stderr().join("\n");
    assert!(!errors.contains("cannot accept connections"), "{errors}");
    node.assert_invariants();
}
