//! A node that is killed while a request waits, at each moment from its body to its answer: the client's repeat under its key
//! gets the answer, what it asks for ran once, and what its instance sends to another server has one key.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;

use super::http_request::{Web, file, keyed, node_at, says, start_of, text};
use crate::runtime::engine::http_request::HttpRun;
use crate::spool::RequestFiles;

/// The settings of the process that is killed: its database, the key, and whether the request has files.
const DATABASE: &str = "MAINSPRING_TEST_KILLED_DATABASE";
const KEY: &str = "MAINSPRING_TEST_KILLED_KEY";
const FILES: &str = "MAINSPRING_TEST_KILLED_FILES";

const MOMENTS: [&str; 14] = [
    "request.accepting",
    "accept.before",
    "accept.after",
    "request.accepted",
    "burst.before",
    "burst.running",
    "burst.after",
    "commit.gathered",
    "commit.begun",
    "commit.written",
    "commit.committed",
    "commit.answered",
    "request.replying",
    "request.ended",
];

async fn request(key: &str, has_files: bool) -> HttpRun {
    HttpRun {
        payload: json!(key),
        files: RequestFiles::new(if has_files { vec![file().await] } else { Vec::new() }),
        // The first publish of its database.
        ..keyed(start_of(1), key, 1)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test below, in a process of its own that is killed"]
async fn a_node_that_takes_one_request() {
    let engine = node_at(&std::env::var(DATABASE).unwrap(), "killed", 4).await;
    let run = request(&std::env::var(KEY).unwrap(), std::env::var_os(FILES).is_some()).await;
    engine.run_request(run).await.unwrap();
}

/// Runs such a node until it dies at a moment.
async fn kill(web: &Web, moment: &str, key: &str, has_files: bool) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "--exact",
            "runtime::engine::tests::http_kill::a_node_that_takes_one_request",
        ])
        .args(["--ignored", "--test-threads=1"])
        .env("MAINSPRING_FAILPOINTS", format!("{moment}=abort"))
        .env(DATABASE, web.url())
        .env(KEY, key)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    if has_files {
        child.env(FILES, "1");
    }
    let output = tokio::time::timeout(Duration::from_secs(60), child.output())
        .await
        .unwrap()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && !said.contains("FAILED"), "{moment}: {said}");
}

/// A server that notes the heads of requests.
struct Target {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Target {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                    let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                    let _ = stream.write_all(answer).await;
                });
            }
        });
        Self { port, heads }
    }

    /// An activity that sends what the request has.
    fn request(&self) -> Value {
        let url = format!("'http://127.0.0.1:{}/' + encodeURIComponent(variables.Got)", self.port);
        let url = json!({"typeName": "Uri", "expression": {"type": "JavaScript", "value": url}});
        json!({"id": "send", "type": "Elsa.SendHttpRequest", "url": url})
    }

    /// The keys of the requests that one client has caused.
    fn keys(&self, of: &str) -> Vec<String> {
        let line = format!("GET /{} HTTP/1.1\r\n", of.replace(' ', "%20"));
        let heads = self.heads.lock().unwrap();
        let own = heads.iter().filter(|head| head.starts_with(&line));
        let key = |head: &String| {
            let mut lines = head.lines();
            lines.find_map(|line| line.strip_prefix("idempotency-key: ").map(str::to_owned))
        };
        own.map(|head| key(head).expect("a key")).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_gets_the_answer_of_a_request_whose_node_was_killed() {
    let web = Web::new().await;
    let target = Target::start().await;
    web.publish(&[target.request(), says("a")]).await;
    let mut count = 0;
    for has_files in [false, true] {
        for moment in MOMENTS {
            let key = format!("{moment} {has_files}");
            kill(&web, moment, &key, has_files).await;
            let outcome = web.engine.run_request(request(&key, has_files).await).await.unwrap();
            assert_eq!(text(&outcome), format!("a {key}"));
            let sent = target.keys(&key);
            let own: BTreeSet<&String> = sent.iter().collect();
            // With files nothing is accepted before the commit: the repeat is the run of another instance, whose keys are its own.
            let most = if has_files { 2 } else { 1 };
            assert!((1..=most).contains(&own.len()), "{key}: {sent:?}");
            let last = format!("{}/", outcome.instance_id);
            assert!(sent.last().unwrap().starts_with(&last), "{key}: {sent:?}");
            count += 1;
            assert_eq!(
                web.count("SELECT count(*) FROM mainspring.instance").await,
                count,
                "{key}"
            );
        }
    }
    web.finish().await;
}
