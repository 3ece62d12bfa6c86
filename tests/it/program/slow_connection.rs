//! The programs where every answer of the database is late.

use std::time::Duration;

use serde_json::Value;

use crate::support::{Child, LONG_TIMEOUT, Proxy, TestDatabase};

/// Each way: twice as bad as the ten milliseconds per round trip that must do no harm.
const LATE: Duration = Duration::from_millis(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_and_the_locks_work_behind_a_slow_connection() {
    let database = TestDatabase::create().await;
    let proxy = Proxy::with_delay(&database.url(), LATE).await;
    let url = proxy.url();
    let mut demo = Child::start(&["demo", "--database-url", url], &[]);
    let demo_ends = tokio::task::spawn_blocking(move || {
        let code = demo.wait(LONG_TIMEOUT).code();
        (code, demo.stdout().join("\n"), demo.stderr().join("\n"))
    });
    let (code, output, said) = demo_ends.await.unwrap();
    assert_eq!(code, Some(0), "{output}\n{said}");
    println!("{output}");

    let small = ["--clients", "64", "--seconds", "2", "--json"];
    let arguments = [&["bench", "locks", "--database-url", url], &small[..]].concat();
    let mut bench = Child::start(&arguments, &[]);
    let bench_ends = tokio::task::spawn_blocking(move || (bench.wait(LONG_TIMEOUT).code(), bench.stdout()));
    let (code, lines) = bench_ends.await.unwrap();
    assert_eq!(code, Some(0), "{lines:?}");
    let figures: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!(figures["errors"], 0, "{figures}");
    assert!(figures["ops_per_s"].as_f64().unwrap() > 0.0, "{figures}");
    println!("{figures}");
}
