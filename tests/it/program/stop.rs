//! A process ends whatever state it is in: by a signal, and where nothing reads what it writes.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::support::node::{Node, definition};
use crate::support::process::KilledOnDrop;
use crate::support::{Gate, Http, TIMEOUT, TestDatabase, wait_until};

/// Whether the node answers in time.
async fn answers(http: &Http) -> bool {
    let live = http.send(Method::GET, "/health/live", &[], None);
    matches!(tokio::time::timeout(Duration::from_secs(1), live).await, Ok(Ok(_)))
}

/// A node whose threads are all kept. It would be found hung much later.
async fn hung(database: &TestDatabase, name: &'static str, drain: &str) -> (Node, Gate) {
    let gate = Gate::new();
    let variables = [
        ("MAINSPRING_FAILPOINTS", &*gate.blocks("watchdog.answer.runtime")),
        ("TOKIO_WORKER_THREADS", "2"),
    ];
    let settings = ["--tolerance", "40s", "--drain-timeout", drain];
    let node = Node::start_at(&database.url(), name, &settings, &variables);
    gate.open();
    let http = node.http.clone().unwrap();
    wait_until("the node to answer no more", async || !answers(&http).await).await;
    (node, gate)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_a_node_whose_threads_all_hang() {
    let database = TestDatabase::create().await;
    let nodes = tokio::join!(
        hung(&database, "one", "2s"),
        hung(&database, "two", "2s"),
        hung(&database, "three", "60s")
    );
    let ((mut one, _gate), (mut two, _other), (mut three, _third)) = nodes;
    let began = Instant::now();
    one.child.signal("TERM");
    two.child.signal("INT");
    three.child.signal("TERM");
    for node in [&mut one, &mut two] {
        let status = node.child.wait(Duration::from_secs(15));
        assert_eq!(status.code(), Some(1), "{:?}", node.child.stderr());
        assert!(
            node.child.logs("the shutdown took too long"),
            "{:?}",
            node.child.stderr()
        );
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2), "it has its time: {took:?}");
    println!("ended {took:?} after the signal");
    // The second signal ends it at once.
    assert!(!three.child.has_ended());
    three.child.signal("TERM");
    let status = three.child.wait(Duration::from_secs(15));
    assert_eq!(status.code(), Some(1));
    assert!(three.child.logs("stopped at once"), "{:?}", three.child.stderr());
}

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

/// A log that nothing reads any more stops each thread that writes to it, and in the end all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_log_is_not_read_ends_as_hung() {
    let database = TestDatabase::create().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainspring"));
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--log",
        "trace",
        "--tolerance",
        "3s",
    ]);
    command.env("MAINSPRING_DATABASE_URL", database.url());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = KilledOnDrop(command.spawn().unwrap());
    let (mut stdout, mut stderr) = (child.0.stdout.take().unwrap(), child.0.stderr.take().unwrap());
    let reads = Arc::new(AtomicBool::new(true));
    std::thread::spawn({
        let reads = Arc::clone(&reads);
        move || {
            let mut bytes = [0; 4096];
            while reads.load(Ordering::SeqCst) && matches!(stderr.read(&mut bytes), Ok(1..)) {}
            // The pipe stays open.
            std::thread::park();
        }
    });
    let url = std::thread::spawn(move || {
        let (mut line, mut byte) = (Vec::new(), [0; 1]);
        while matches!(stdout.read(&mut byte), Ok(1..)) && byte != *b"\n" {
            line.extend(byte);
        }
        (String::from_utf8(line).unwrap(), stdout)
    });
    let (line, _stdout) = tokio::task::spawn_blocking(move || url.join().unwrap()).await.unwrap();
    let http = Http::new(line.strip_prefix("ready ").unwrap());
    http.publish(&definition()).await;
    reads.store(false, Ordering::SeqCst);
    let began = Instant::now();
    let mut n = 0;
    let code = loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            break status.code();
        }
        assert!(began.elapsed() < TIMEOUT, "it goes on");
        // What it does fills the pipe.
        let start = json!({"input": {"n": n}});
        let path = "workflow-definitions/walk/dispatch";
        let sends = http.send(Method::POST, path, &[], Some(&start));
        let _ = tokio::time::timeout(Duration::from_millis(100), sends).await;
        n += 1;
    };
    assert_eq!(code, Some(4));
    println!("ended {:?} after the log was read last", began.elapsed());
}
