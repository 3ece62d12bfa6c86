//! A running node serves every metric of the reference, with its kind and bounded labels, and no other one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::table::{Documented, documented};
use crate::support::single_node::{KEY, SingleNode, literal, waits_for};
use crate::support::{Answer, Http, TIMEOUT, TestDatabase, assert_contains, node, poll_until, wait_until};

const CLUSTER: &str = "mainspring_cluster_";

/// What one scrape brings.
struct Scrape {
    text: String,
    /// By name, without the endings of histograms.
    kinds: BTreeMap<String, String>,
    /// The lines with numbers: name, labels and number.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

impl Scrape {
    fn read(answer: Answer) -> Self {
        assert!(
            answer.header("content-type").starts_with("text/plain; version=0.0.4"),
            "{answer:?}"
        );
        let Value::String(text) = answer.expect(200) else {
            panic!("no text")
        };
        let kinds = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let kinds = kinds.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines.map(sample).collect();
        Self { text, kinds, samples }
    }

    /// The sum of the series of a name with this value of their label; of all, if there is none.
    fn number(&self, name: &str, value: &str) -> f64 {
        let of = self.samples.iter().filter(|(other, labels, _)| {
            other == name && (value.is_empty() || labels.values().any(|label| label == value))
        });
        of.map(|(_, _, number)| number).sum()
    }
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, number) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels
        .trim_end_matches('}')
        .split(',')
        .filter(|label| !label.is_empty());
    let labels = labels.map(|label| label.split_once('=').unwrap());
    let labels = labels.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()));
    (name.to_owned(), labels.collect(), number.parse().unwrap())
}

/// The node serves a sample of the cluster.
async fn sampled(http: &Http) -> Scrape {
    poll_until(TIMEOUT, "a sample of the cluster", async || {
        let scrape = Scrape::read(http.get("/metrics").await);
        scrape
            .kinds
            .contains_key("mainspring_cluster_instances")
            .then_some(scrape)
    })
    .await
}

/// What is wrong with a series.
fn complaint(
    documented: &BTreeMap<String, Documented>,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> Option<String> {
    let ends = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    let of_histogram = ends.and_then(|base| Some((base, documented.get(base)?)));
    let (name, metric) = of_histogram
        .or_else(|| Some((name, documented.get(name)?)))
        .map_or((name, None), |(name, of)| (name, Some(of)));
    let Some(metric) = metric else {
        return Some(format!("{name} is not documented"));
    };
    if (metric.kind == "histogram") != of_histogram.is_some() {
        return Some(format!("{name} is no {}", metric.kind));
    }
    for (label, value) in labels.iter().filter(|(label, _)| *label != "le") {
        if *label != metric.label || !metric.values.contains(value) {
            return Some(format!("{name} has the label {label}={value:?}"));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_serves_every_metric_of_the_reference_and_no_other_one() {
    let node = SingleNode::with_key(&["--health-listen", "127.0.0.1:0"]).await;
    let hello = json!({"type": "Elsa.WriteLine", "id": "line", "text": literal("hello")});
    node.publish("hello", hello).await;
    node.http.execute("hello", &json!({})).await;
    node.http.dispatch("hello", &json!({})).await;
    node.publish("waits", waits_for("A")).await;
    node.http.dispatch("waits", &json!({"instanceId": "waiting"})).await;
    node.http.instance_becomes("waiting", "Suspended").await;
    node.http.trigger("A", &json!({})).await;
    let health = node.child.health().await;
    let served = poll_until(TIMEOUT, "all instances to be counted", async || {
        let scrape = sampled(&health).await;
        (scrape.number("mainspring_instances_finished_total", "finished") == 3.0).then_some(scrape)
    })
    .await;
    let table = documented();
    // The issuers of OpenID Connect are those of the settings: here none.
    let by_settings = |metric: &&Documented| metric.label.is_empty() || !metric.values.is_empty();
    let expected: BTreeSet<&String> = table
        .iter()
        .filter(|(_, metric)| by_settings(metric))
        .map(|(name, _)| name)
        .collect();
    let missing: Vec<_> = expected
        .into_iter()
        .filter(|name| !served.kinds.contains_key(*name))
        .collect();
    assert!(missing.is_empty(), "documented and not served: {missing:#?}");
    for (name, kind) in &served.kinds {
        let documented = table.get(name).map(|metric| &metric.kind);
        assert_eq!(documented, Some(kind), "{name}");
        assert!(served.text.contains(&format!("# HELP {name} ")), "{name}");
    }
    let complaints = served
        .samples
        .iter()
        .filter_map(|(name, labels, _)| complaint(&table, name, labels));
    let complaints: BTreeSet<String> = complaints.collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert_counted(&served);
    assert_linted(&served.text);
    node.assert_invariants();
}

/// What two instances of one activity leave in the counters, and one that has waited.
fn assert_counted(served: &Scrape) {
    for (name, value, expected) in [
        ("mainspring_instances_started_total", "", 3.0),
        ("mainspring_instances_suspended_total", "", 1.0),
        ("mainspring_instances_resumed_total", "", 1.0),
        ("mainspring_instances_finished_total", "", 3.0),
        ("mainspring_instance_duration_seconds_count", "", 3.0),
        ("mainspring_bursts_total", "committed", 4.0),
        ("mainspring_burst_seconds_count", "", 4.0),
        ("mainspring_dispatch_latency_seconds_count", "", 4.0),
        ("mainspring_cluster_nodes", "live", 1.0),
        ("mainspring_cluster_partitions_ahead", "", 7.0),
    ] {
        assert_eq!(served.number(name, value), expected, "{name} {value}");
    }
    for name in [
        "mainspring_activities_executed_total",
        "mainspring_lock_acquisition_seconds_count",
        "mainspring_lock_hold_seconds_count",
        "mainspring_workers",
        "mainspring_pool_connections_limit",
        "mainspring_query_seconds_count",
        "mainspring_commit_seconds_count",
        "mainspring_process_resident_memory_bytes",
        "mainspring_cluster_database_bytes",
        "mainspring_cluster_connections",
    ] {
        assert!(served.number(name, "") > 0.0, "{name}");
    }
    let age = served.number("mainspring_cluster_sample_age_seconds", "");
    assert!((0.0..120.0).contains(&age), "{age}");
}

/// `promtool check metrics` says nothing.
fn assert_linted(text: &str) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool: `scripts/install-missing prometheus`");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_the_api_asks_for_a_credential() {
    for roles in ["api,worker", "scheduler"] {
        let node = SingleNode::with_key(&["--roles", roles]).await;
        let stranger = Http::new(&format!("http://{}", node.address));
        stranger.get("/metrics").await.assert_refused(401, "unauthorized");
        let text = sampled(&stranger.with_key(KEY)).await.text;
        assert_contains(&text, &["# TYPE mainspring_bursts_total counter", CLUSTER]);
        node.assert_invariants();
    }
}

/// Of two nodes one samples, and both serve the same; the other one takes over when the first is gone.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_serves_one_sample_and_any_node_takes_it() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let settings = ["--check-in", "200ms", "--health-listen", "127.0.0.1:0"];
    let nodes = ["one", "two"].map(|name| node::Node::start_with(&database, name, &settings, ""));
    for started in &nodes {
        let health = started.child.health().await;
        wait_until("both nodes to be sampled", async || {
            sampled(&health).await.number("mainspring_cluster_nodes", "live") == 2.0
        })
        .await;
    }
    let sampler = "SELECT last_run_by FROM mainspring.cluster_job WHERE name = 'sample-cluster'";
    let first: i64 = client.query_one(sampler, &[]).await.unwrap().get(0);
    let of_first = "SELECT node_id FROM mainspring.node WHERE incarnation = $1";
    let name: String = client.query_one(of_first, &[&first]).await.unwrap().get(0);
    let [one, two] = nodes;
    let (mut gone, stays) = if name == "one" { (one, two) } else { (two, one) };
    gone.child.kill9();
    let health = stays.child.health().await;
    wait_until("the other node to sample", async || {
        let sampler: i64 = client.query_one(sampler, &[]).await.unwrap().get(0);
        sampler != first && sampled(&health).await.number("mainspring_cluster_nodes", "live") == 1.0
    })
    .await;
    let seconds = client.rows("cluster_second WHERE nodes = 1 AND at > now() - interval '1 minute'");
    assert!(seconds.await > 0);
    node::assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_keeps_no_metrics_serves_and_samples_none() {
    let node = SingleNode::with_key(&["--no-metrics", "--check-in", "200ms"]).await;
    node.http.get("/metrics").await.assert_refused(404, "no-metrics");
    let client = node.database.connect().await;
    // The other jobs run, by the same check-ins.
    wait_until("the jobs of the cluster to run", async || {
        client.rows("cluster_job WHERE last_run_by IS NOT NULL").await == 5
    })
    .await;
    assert_eq!(client.rows("cluster_sample").await, 0);
    node.assert_invariants();
}
