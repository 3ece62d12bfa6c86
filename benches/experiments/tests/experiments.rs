//! The experiments, small: that they measure and judge, not how fast anything is. They need the server of `scripts/test`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::process::{Command, Output};

use serde_json::Value;
use tokio_postgres::{Client, NoTls};

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// What an experiment printed.
struct Run {
    lines: Vec<String>,
}

impl Run {
    /// The report on the last line.
    fn report(&self) -> Value {
        serde_json::from_str(self.lines.last().unwrap()).unwrap()
    }

    #[track_caller]
    fn has_line(&self, beginning: &str) {
        assert!(
            self.lines.iter().any(|line| line.starts_with(beginning)),
            "{beginning}: {:?}",
            self.lines
        );
    }
}

fn experiment(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainspring-experiments"));
    command.args(arguments).output().unwrap()
}

/// Runs an experiment to success in a database of its own, and leaves no schema.
async fn run(line: &str) -> Run {
    let server = std::env::var("MAINSPRING_TEST_DATABASE_URL").expect("MAINSPRING_TEST_DATABASE_URL is not set");
    let admin = connect(&server).await;
    let name = format!("mainspring_experiment_{:016x}", rand::random::<u64>());
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let mut url = reqwest::Url::parse(&server).unwrap();
    url.set_path(&name);
    let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let given = url.to_string();
    let output = tokio::task::spawn_blocking(move || {
        let arguments = arguments.iter().map(String::as_str).chain(["--database-url", &given]);
        experiment(&arguments.collect::<Vec<_>>())
    });
    let output = output.await.unwrap();
    let [lines, progress] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let client = connect(url.as_str()).await;
    let schemas = "SELECT count(*) AS count FROM pg_namespace WHERE nspname LIKE 'mainspring%'";
    let schemas: i64 = client.query_one(schemas, &[]).await.unwrap().get("count");
    drop(client);
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    admin.batch_execute(&drop).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{lines}\n{progress}");
    assert_eq!(schemas, 0);
    Run {
        lines: lines.lines().map(str::to_owned).collect(),
    }
}

/// Runs it: its report, in which nothing was lost and these are above zero.
async fn report(line: &str, positive: &[&str]) -> Value {
    let run = run(&format!("{line} --json")).await;
    run.has_line("server: server_version");
    let report = run.report();
    for nothing in ["lost", "twice", "errors"] {
        assert_eq!(*report.get(nothing).unwrap_or(&0.into()), 0, "{report}");
    }
    for name in positive {
        assert!(report[*name].as_f64().unwrap() > 0.0, "{name}: {report}");
    }
    report
}

/// Whether `scripts/test --long` runs this.
fn is_long() -> bool {
    std::env::var_os("MAINSPRING_TEST_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

#[tokio::test]
async fn observers_receive_the_commits_of_another_node() {
    let small = "hub --observers 3 --events 6 --seconds 1";
    let report = report(small, &["ops_per_s", "p50_us", "dispatch_ratio"]).await;
    assert_eq!((&report["clients"], &report["seconds"]), (&3.into(), &1.into()));
}

#[tokio::test]
async fn requests_of_workflows_are_measured_against_plain_ones() {
    for (small, positive) in [
        (
            "uploads --clients 2 --megabytes 1 --seconds 1",
            ["handler_mb_per_s", "workflow_mb_per_s"],
        ),
        (
            "outgoing --clients 2 --requests 3 --seconds 1",
            ["client_per_s", "workflows_per_s"],
        ),
        (
            "credentials --clients 2 --seconds 1",
            ["static_key_per_s", "token_per_s"],
        ),
        (
            "traces --clients 2 --seconds 1 --ratio 1",
            ["without_per_s", "with_per_s"],
        ),
        ("links --links 3 --clients 2 --seconds 1", ["p50_us", "beside_per_s"]),
        (
            "metrics --instances 1000 --timers 100 --scrapes 5 --clients 2 --seconds 1",
            ["scrape_p99_ms", "metrics_per_s"],
        ),
        (
            "webhooks --clients 2 --deliveries 20 --seconds 1",
            ["workflows_per_s", "deliveries_per_s"],
        ),
    ] {
        report(small, &[&positive[..], &["ratio"]].concat()).await;
    }
}

#[tokio::test]
async fn events_of_one_name_are_measured_beside_starts_and_executes() {
    let small = "shared-names --clients 4 --publishers 2 --starters 2 --seconds 1 --names 1 --waiting 20";
    let positive = [
        "events",
        "waiters_per_s",
        "no_events_waiters_per_s",
        "execute_p99_ratio",
        "alone_execute_p99_us",
    ];
    let report = report(small, &positive).await;
    assert_eq!((&report["names"], &report["waiting"]), (&1.into(), &20.into()));
}

#[tokio::test]
async fn one_event_resumes_all_that_wait_once() {
    let small = "fan-out --waiting 300 --nodes 2";
    let report = report(small, &["answered_us", "median_per_s", "execute_p50_us"]).await;
    assert_eq!((&report["started"], &report["copied"]), (&300.into(), &0.into()));
    assert!(report["rate_ratio"].is_null(), "{report}");
}

/// More instances than the nodes start: most of a second event's are copies.
#[tokio::test]
async fn copies_of_waiting_instances_resume_once() {
    if is_long() {
        let report = report("fan-out --waiting 25000", &["rate_ratio"]).await;
        assert_eq!((&report["started"], &report["copied"]), (&20_000.into(), &5_000.into()));
    }
}

#[tokio::test]
async fn children_nested_workflows_and_tokens_are_measured() {
    for (mode, arguments, has_baseline) in [
        ("bulk", "--instances 1200 --nodes 2", false),
        ("bulk-ports", "--instances 40 --journal off", false),
        ("loop", "--instances 8", true),
        ("nested", "--instances 6", true),
        ("tokens", "--instances 2", true),
        ("script-loop", "--instances 30", true),
        ("hostile", "--seconds 1 --clients 4", true),
    ] {
        let report = report(&format!("composed --mode {mode} {arguments}"), &["ops_per_s"]).await;
        assert_eq!(report["mode"], mode);
        for name in ["baseline_ops_per_s", "ratio"] {
            let is_positive = report[name].as_f64().is_some_and(|figure| figure > 0.0);
            assert_eq!(is_positive, has_baseline, "{report}");
        }
        assert_eq!(report["p99_ratio"].is_number(), mode == "hostile", "{report}");
    }
}

#[tokio::test]
async fn the_statements_of_each_start_mode_are_counted() {
    for mode in ["execute", "dispatch", "event"] {
        let run = run(&format!("statements --mode {mode} --clients 4 --instances 60 --json")).await;
        let report = run.report();
        assert_eq!((&report["mode"], &report["errors"]), (&mode.into(), &0.into()));
        for name in ["statements", "round_trips"] {
            let each = report[name].as_f64().unwrap();
            assert!(each > 0.0 && each < 60.0, "{report}");
        }
    }
}

#[tokio::test]
async fn poll_and_claim_are_measured_among_future_timers_and_dead_rows() {
    let polls = run("poll --rows 11000").await;
    for line in [
        "10000 future timers, poll: first ",
        "10000 future timers, claim: first ",
        "11000 future timers, poll: first ",
        "11000 future timers, claim: first ",
    ] {
        polls.has_line(line);
    }
    let dead = run("dead-rows --rows 3000 --seconds 1").await;
    for line in ["before the snapshot, poll: ", "with the snapshot, claim: "] {
        let found = dead.lines.iter().find(|found| found.starts_with(line));
        assert!(
            found.is_some_and(|found| !found.ends_with(", of 0")),
            "{line}: {:?}",
            dead.lines
        );
    }
}

#[tokio::test]
async fn instances_that_are_due_at_once_finish() {
    let run = run("due-at-once --rows 40 --seconds 5").await;
    run.has_line("40 instances due at once: 40 finished in 5 s");
}

#[tokio::test]
async fn finished_workflows_leave_no_work() {
    let run = run("churn --workflows 300 --seconds 1").await;
    let is_empty = |line: &String| line.ends_with(" s, 0 rows of work left");
    assert!(run.lines.iter().any(is_empty), "{:?}", run.lines);
}

#[tokio::test]
async fn executes_are_measured_without_and_with_a_snapshot() {
    let run = run("snapshot --seconds 1 --rate 40").await;
    for line in ["without an old snapshot: ", "with an old snapshot: "] {
        let found = run.lines.iter().find(|found| found.starts_with(line));
        assert!(
            found.is_some_and(|found| found.ends_with(", of 40")),
            "{line}: {:?}",
            run.lines
        );
    }
}

/// Twenty seconds of as much as the server can take: not beside other tests.
#[tokio::test]
async fn two_statements_are_measured_beside_the_locks() {
    if is_long() {
        let positive = ["pipelined_ops_per_s", "one_statement_ops_per_s", "single_client_ratio"];
        let report = report("locks --clients 8 --seconds 1", &positive).await;
        let ratio = report["ops_per_s"].as_f64().unwrap() / report["baseline_ops_per_s"].as_f64().unwrap();
        assert!((report["ratio"].as_f64().unwrap() - ratio).abs() < 0.02, "{report}");
    }
}

/// Thousands of versions and a journal of 10,000 entries are written first.
#[tokio::test]
async fn lists_among_a_history_are_measured() {
    if is_long() {
        let small = "history --rows 300 --queries 3 --clients 2 --seconds 1 --delete";
        let report = report(small, &["execute_p99_ratio", "deleted_per_s"]).await;
        assert_eq!(report["newest"]["refused"], 0, "{report}");
    }
}

#[test]
fn wrong_usage_has_its_exit_code() {
    for wrong in [&["fan-out", "--waiting", "0"][..], &["locks", "--provider", "postgres"]] {
        assert_eq!(experiment(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn runs_are_drawn_and_a_file_without_a_result_is_named() {
    let folder = std::env::temp_dir().join(format!("mainspring-plot-{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let report =
        "machine: 2 cores\n{\"bench\":\"workflows\",\"mode\":\"execute\",\"ops_per_s\":412.0,\"p50_us\":731}\n";
    let (good, bad) = (file("good.txt", report), file("bad.txt", "no result\n"));
    let output = experiment(&["plot", &good]);
    let picture = String::from_utf8(output.stdout).unwrap();
    assert!(picture.starts_with("<svg"), "{picture}");
    for text in ["good: workflows, mode execute", "412", "731"] {
        assert!(picture.contains(text), "{text}: {picture}");
    }
    let drawn = folder.join("picture.svg");
    let output = experiment(&["plot", &good, &bad, "-o", drawn.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&bad) && !drawn.exists(), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}
