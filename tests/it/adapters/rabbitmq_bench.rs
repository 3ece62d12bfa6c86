//! `mainspring bench signals --elsewhere`, small: a node without workers wakes another one, over either of both.

use serde_json::Value;

use crate::support::rabbitmq::RabbitProcess;
use crate::support::{Child, LONG_TIMEOUT, TestDatabase, long};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_runs_at_another_node_and_is_measured() {
    let broker = RabbitProcess::shared();
    let url = broker.url();
    let over_rabbitmq: &[&str] = &["--wake", "rabbitmq", "--rabbitmq-url", &url];
    let ways = [("rabbitmq", over_rabbitmq), ("postgres", &[])];
    for (wake, settings) in ways.into_iter().take(if long() { 2 } else { 1 }) {
        let database = TestDatabase::empty().await;
        let place = database.url();
        let line = "bench signals --elsewhere --nodes 2 --clients 2 --seconds 1 --json --database-url";
        let arguments: Vec<&str> = line
            .split(' ')
            .chain([&*place])
            .chain(settings.iter().copied())
            .collect();
        let mut bench = Child::start(&arguments, &[]);
        let code = bench.wait(LONG_TIMEOUT).code();
        assert_eq!(code, Some(0), "{:?}\n{}", bench.stdout(), bench.stderr().join("\n"));
        let report: Value = serde_json::from_str(bench.stdout().last().unwrap()).unwrap();
        assert_eq!((&report["elsewhere"], &report["wake"]), (&true.into(), &wake.into()));
        assert!(report["events"].as_u64().unwrap() > 2, "{report}");
        println!("{wake}: p50 {} us", report["p50_us"]);
    }
}
