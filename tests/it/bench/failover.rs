//! `mainspring bench failover`, small: that it measures and judges, not how fast anything is.

use serde_json::Value;

use crate::support::{Child, LONG_TIMEOUT, TestDatabase};

/// The fields of its JSON in their order, and no others.
const FIELDS: [&str; 11] = [
    "bench",
    "fault",
    "rounds",
    "bursts",
    "p50_ms",
    "p95_ms",
    "max_ms",
    "lost",
    "twice",
    "duplicates",
    "errors",
];

async fn after(fault: &str) {
    let database = TestDatabase::empty().await;
    let url = database.url();
    let small = [
        "--bursts",
        "5",
        "--rounds",
        "1",
        "--check-in",
        "200ms",
        "--tolerance",
        "1s",
        "--json",
    ];
    let bench = ["bench", "failover", "--database-url", &url, "--fault", fault];
    let mut bench = Child::start(&[&bench[..], &small].concat(), &[]);
    let code = bench.wait(LONG_TIMEOUT).code();
    let said = bench.stdout();
    assert_eq!(code, Some(0), "{said:?}\n{}", bench.stderr().join("\n"));
    let report: Value = serde_json::from_str(said.last().unwrap()).unwrap();
    let fields: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, FIELDS);
    assert_eq!(
        (&report["bench"], &report["fault"]),
        (&"failover".into(), &fault.into())
    );
    assert_eq!((&report["rounds"], &report["bursts"]), (&1.into(), &5.into()));
    for nothing in ["lost", "twice", "errors"] {
        assert_eq!(report[nothing], 0, "{report}");
    }
    assert!(report["p50_ms"].as_f64().unwrap() > 0.0, "{report}");
    assert!(
        said.iter().any(|line| line.starts_with("server: server_version")),
        "{said:?}"
    );
    assert!(bench.stderr().iter().any(|line| line.starts_with("round 1 of 1: ")));
    let client = database.connect().await;
    let query = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'mainspring%'";
    assert_eq!(client.query_one(query, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn the_bursts_of_a_killed_node_run_elsewhere_once() {
    after("kill").await;
}

#[tokio::test]
async fn a_stopped_node_that_goes_on_writes_nothing() {
    after("stop").await;
}

#[tokio::test]
async fn a_node_that_is_cut_off_writes_nothing() {
    after("cut").await;
}

#[tokio::test]
async fn it_can_be_interrupted_and_leaves_no_schema() {
    let database = TestDatabase::empty().await;
    let url = database.url();
    let mut bench = Child::start(
        &[
            "bench",
            "failover",
            "--database-url",
            &url,
            "--bursts",
            "5",
            "--fault",
            "stop",
        ],
        &[],
    );
    crate::support::poll_until(LONG_TIMEOUT, "the first fault", async || {
        bench
            .stderr()
            .iter()
            .any(|line| line.contains("after the fault"))
            .then_some(())
    })
    .await;
    bench.signal("INT");
    assert_eq!(bench.wait(LONG_TIMEOUT).code(), Some(1));
    let client = database.connect().await;
    let query = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'mainspring%'";
    assert_eq!(client.query_one(query, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn nodes_that_do_not_start_are_reported_and_leave_no_schema() {
    let database = TestDatabase::empty().await;
    let url = database.url();
    // Less than two check-ins.
    let mut bench = Child::start(
        &["bench", "failover", "--database-url", &url, "--tolerance", "100ms"],
        &[],
    );
    let code = bench.wait(LONG_TIMEOUT).code();
    let said = bench.stderr().join("\n");
    assert_eq!(code, Some(2), "{said}");
    let last = bench.stderr().pop().unwrap_or_default();
    assert!(
        last.contains("ended before it was ready") && last.contains("tolerance"),
        "{said}"
    );
    let client = database.connect().await;
    let query = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'mainspring%'";
    assert_eq!(client.query_one(query, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn a_violated_invariant_makes_it_fail() {
    let database = TestDatabase::empty().await;
    let url = database.url();
    let small = ["--bursts", "2", "--rounds", "1", "--json"];
    let mut bench = Child::start(
        &[&["bench", "failover", "--database-url", &url][..], &small].concat(),
        &[],
    );
    let client = database.connect().await;
    // A bookmark of no instance, which no node minds and every check finds.
    crate::support::poll_until(LONG_TIMEOUT, "its tables", async || {
        let schema = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'mainspring_bench%'";
        let schema: String = client.query_opt(schema, &[]).await.ok()??.get(0);
        let stray = format!("INSERT INTO {schema}.bookmark VALUES ('', 'none', 'b', '', '', '', '', '', '{{}}', true)");
        client.batch_execute(&stray).await.ok()
    })
    .await;
    assert_eq!(bench.wait(LONG_TIMEOUT).code(), Some(1), "{:?}", bench.stdout());
    let report: Value = serde_json::from_str(bench.stdout().last().unwrap()).unwrap();
    assert_eq!(
        (&report["lost"], &report["twice"], &report["errors"]),
        (&0.into(), &0.into(), &1.into()),
        "{report}"
    );
}
