//! A node that is killed while a request waits, at each moment from its body to its answer: the client's repeat under its key
//! gets the answer, and what it asks for ran once.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::process::Command;

use super::http_request::{Web, file, keyed, node_at, says, start, text};
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
        files: RequestFiles::new(if has_files { vec![file().await] } else { Vec::new() }),
        ..keyed(start(), key, 1)
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

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_gets_the_answer_of_a_request_whose_node_was_killed() {
    let web = Web::new().await;
    web.publish(&[
        json!({"id": "line", "type": "Elsa.WriteLine", "text": "runs"}),
        says("a"),
    ])
    .await;
    let mut count = 0;
    for has_files in [false, true] {
        for moment in MOMENTS {
            let key = format!("{moment} {has_files}");
            kill(&web, moment, &key, has_files).await;
            let outcome = web.engine.run_request(request(&key, has_files).await).await.unwrap();
            assert_eq!(text(&outcome), "a hello", "{key}");
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
