//! A node that is killed while bodies stream to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::bodies::files_in;
use super::{Received, client, echo, instances, request};
use crate::support::node::{Node, assert_invariants};
use crate::support::{Http, LONG_TIMEOUT, TIMEOUT, TestDatabase, long, wait_until};

/// As large as files of the spool are.
const SPOOLED: usize = 300_000;

/// Clients that send one request after the other.
const CLIENTS: usize = 8;

/// A folder for the spool. It ends with this value.
struct SpoolFolder(PathBuf);

impl SpoolFolder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("mainspring-it-spool-{}", uuid::Uuid::new_v4())))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// Starts a node that has its spool there.
    fn node(&self, database: &TestDatabase) -> (Node, Http) {
        let settings = ["--check-in", "200ms", "--spool-dir", self.0.to_str().unwrap()];
        let node = Node::start_with(database, "one", &settings, "");
        let http = node.http.clone().unwrap();
        (node, http)
    }

    /// Nothing is there but the lock of the process that lives.
    #[track_caller]
    fn assert_empty(&self) {
        assert_eq!(files_in(&self.0), 1);
    }
}

impl Drop for SpoolFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_of_an_upload_starts_nothing_and_leaves_no_file() {
    let spool = SpoolFolder::new();
    let database = TestDatabase::create().await;
    let (mut node, http) = spool.node(&database);
    http.publish(&echo("seen", "seen", &["POST"], "({length: getBody().length})"))
        .await;
    let mut stream = tokio::net::TcpStream::connect(http.address()).await.unwrap();
    let head = format!(
        "POST /workflows/seen HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n\
         Idempotency-Key: k\r\nContent-Length: {}\r\n\r\n",
        8 << 20
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'x'; 2 << 20]).await.unwrap();
    wait_until("the body to be in the spool", async || files_in(spool.path()) == 2).await;
    node.child.kill9();
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut answer)).await;
    // An end or a reset, and not a byte of an answer.
    let _end_or_reset = closed.expect("the connection to be closed");
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(files_in(spool.path()), 2, "a process that is killed deletes nothing");

    let (_node, http) = spool.node(&database);
    spool.assert_empty();
    assert_eq!(instances(&http, "seen").await.len(), 0);
    let connection = database.connect().await;
    assert_eq!(connection.rows("work").await, 0);
    // Of the key nothing is known, either.
    let whole = request(&http, Method::POST, "seen").header("Idempotency-Key", "k");
    let whole = whole.header("Content-Type", "application/octet-stream");
    let whole = Received::of(whole.body(vec![b'x'; 3 << 20])).await.expect(200);
    assert_eq!(whole["length"], 3 << 20);
    wait_until("no file to be left", async || files_in(spool.path()) == 1).await;
    assert_invariants(&database).await;
}

/// What clients without a key have received.
#[derive(Default)]
struct Seen {
    /// The instances that have answered.
    answered: Mutex<BTreeSet<String>>,
    /// How often the answer was 503, or the connection was closed.
    refused: Mutex<usize>,
}

/// Sends requests until one is not answered. Every second body is in the spool.
async fn send_until_closed(address: String, seen: Arc<Seen>) {
    let client = client();
    for number in 0.. {
        let length = if number % 2 == 0 { SPOOLED } else { 10 };
        let sent = client.post(format!("http://{address}/workflows/seen"));
        let sent = sent.header("Content-Type", "application/octet-stream");
        let answer = async {
            let response = sent.body(vec![b'x'; length]).send().await?;
            let status = response.status().as_u16();
            Ok::<_, reqwest::Error>((status, response.text().await?))
        };
        match answer.await {
            Ok((200, id)) => assert!(seen.answered.lock().unwrap().insert(id), "an instance answers once"),
            Ok((503, _)) => *seen.refused.lock().unwrap() += 1,
            Ok((status, text)) => panic!("{status}: {text}"),
            Err(_) => {
                *seen.refused.lock().unwrap() += 1;
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_of_a_killed_node_is_of_a_committed_run() {
    let rounds = if long() { 40 } else { 3 };
    let spool = SpoolFolder::new();
    let database = TestDatabase::create().await;
    let connection = database.connect().await;
    let (mut node, mut http) = spool.node(&database);
    http.publish(&echo("seen", "seen", &["POST"], "getWorkflowInstanceId()"))
        .await;
    let seen = Arc::<Seen>::default();
    for round in 1..=rounds {
        let before = seen.answered.lock().unwrap().len();
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(send_until_closed(http.address(), Arc::clone(&seen)));
        }
        // The number of answers makes the moment of the kill another one in each round.
        wait_until("answers", async || {
            seen.answered.lock().unwrap().len() >= before + 40 + round
        })
        .await;
        node.child.kill9();
        while let Some(ended) = tokio::time::timeout(LONG_TIMEOUT, clients.join_next())
            .await
            .expect("each client to see the end")
        {
            ended.unwrap();
        }
        (node, http) = spool.node(&database);
        spool.assert_empty();
    }
    let refused = *seen.refused.lock().unwrap();
    let answered: Vec<String> = seen.answered.lock().unwrap().iter().cloned().collect();
    eprintln!("{rounds} kills: {} answers, {refused} refusals", answered.len());
    assert!(
        refused >= rounds * CLIENTS,
        "each kill ends the connections of each client"
    );
    // What was accepted without files and not answered runs all the same.
    connection.wait_for_rows("work", 0).await;
    let finished = "SELECT count(*) FROM mainspring.instance WHERE sub_status = 3 AND id = ANY($1)";
    let finished: i64 = connection.query_one(finished, &[&answered]).await.unwrap().get(0);
    assert_eq!(
        finished,
        answered.len() as i64,
        "each answer is of a run that is committed"
    );
    let all = connection.rows("instance").await;
    let most = answered.len() + refused;
    assert!(all <= most as i64, "{all} runs of {most} requests");
    assert_invariants(&database).await;
}
