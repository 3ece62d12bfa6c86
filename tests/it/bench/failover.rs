//! `mainspring bench failover`, small: that it measures and judges, not how fast anything is.

use super::{assert_line, fields, no_schema, positive, report, run, start};
use crate::support::{LONG_TIMEOUT, TestDatabase, assert_contains, assert_fields, poll_until};

/// The fields of its JSON in their order, and no others.
const FIELDS: &str = "bench fault rounds bursts p50_ms p95_ms max_ms lost twice duplicates errors";

async fn after(fault: &str) {
    let small = "--bursts 5 --rounds 1 --check-in 200ms --tolerance 1s --json";
    let bench = run(&format!("failover --fault {fault} {small}")).await;
    let report = report(&bench);
    assert_eq!(fields(&report), FIELDS);
    assert_fields!(report, {"bench": "failover", "fault": fault, "rounds": 1, "bursts": 5, "lost": 0, "twice": 0, "errors": 0});
    positive(&report, "p50_ms");
    assert_line(&bench.stdout(), "server: server_version");
    assert_line(&bench.stderr(), "round 1 of 1: ");
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
    let mut bench = start(&database, "failover --bursts 5 --fault stop");
    poll_until(LONG_TIMEOUT, "the first fault", async || {
        let said = bench.stderr();
        said.iter().any(|line| line.contains("after the fault")).then_some(())
    })
    .await;
    bench.signal("INT");
    assert_eq!(bench.wait(LONG_TIMEOUT).code(), Some(1));
    no_schema(&database).await;
}

#[tokio::test]
async fn nodes_that_do_not_start_are_reported_and_leave_no_schema() {
    let database = TestDatabase::empty().await;
    // Less than two check-ins.
    let mut bench = start(&database, "failover --tolerance 100ms");
    let code = bench.wait(LONG_TIMEOUT).code();
    let said = bench.stderr().join("\n");
    assert_eq!(code, Some(2), "{said}");
    let last = bench.stderr().pop().unwrap_or_default();
    assert_contains(&last, &["ended before it was ready", "tolerance"]);
    no_schema(&database).await;
}

#[tokio::test]
async fn a_violated_invariant_makes_it_fail() {
    let database = TestDatabase::empty().await;
    let mut bench = start(&database, "failover --bursts 2 --rounds 1 --json");
    let client = database.connect().await;
    // A bookmark of no instance, which no node minds and every check finds.
    poll_until(LONG_TIMEOUT, "its tables", async || {
        let schema = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'mainspring_bench%'";
        let schema: String = client.query_opt(schema, &[]).await.ok()??.get(0);
        let stray =
            format!("INSERT INTO {schema}.bookmark VALUES ('', 'none', 'b', 0, '', '', '', '', '', '{{}}', true)");
        client.batch_execute(&stray).await.ok()
    })
    .await;
    assert_eq!(bench.wait(LONG_TIMEOUT).code(), Some(1), "{:?}", bench.stdout());
    assert_fields!(report(&bench), {"lost": 0, "twice": 0, "errors": 1});
}
