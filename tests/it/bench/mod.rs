//! The benchmarks, run for real.

mod failover;
mod runs;

use serde_json::Value;

use crate::support::{Child, LONG_TIMEOUT, TestDatabase};

/// Starts `bench` with a command line, in a database.
fn start(database: &TestDatabase, line: &str) -> Child {
    let url = database.url();
    let arguments: Vec<&str> = ["bench"].into_iter().chain(line.split(' ')).collect();
    Child::start(&[&arguments[..], &["--database-url", &url]].concat(), &[])
}

/// Runs it to success in a database of its own, and leaves no schema: the ended process.
async fn run(line: &str) -> Child {
    let database = TestDatabase::empty().await;
    let mut bench = start(&database, line);
    let code = bench.wait(LONG_TIMEOUT).code();
    assert_eq!(code, Some(0), "{:?}\n{}", bench.stdout(), bench.stderr().join("\n"));
    no_schema(&database).await;
    bench
}

async fn no_schema(database: &TestDatabase) {
    let query = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'mainspring%'";
    assert_eq!(database.connect().await.count(query).await, 0);
}

/// The report on the last line.
fn report(bench: &Child) -> Value {
    serde_json::from_str(bench.stdout().last().unwrap()).unwrap()
}

/// The names of the fields of a report, in their order.
fn fields(report: &Value) -> String {
    let names: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    names.join(" ")
}

/// Some line begins so.
#[track_caller]
fn assert_line(lines: &[String], beginning: &str) {
    assert!(
        lines.iter().any(|line| line.starts_with(beginning)),
        "{beginning}: {lines:?}"
    );
}

/// A figure of a report that is above zero.
#[track_caller]
fn positive(report: &Value, name: &str) -> f64 {
    let figure = report[name].as_f64().unwrap();
    assert!(figure > 0.0, "{name}: {report}");
    figure
}
