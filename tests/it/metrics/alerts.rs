//! The alerts and the dashboards of `deploy/` use metrics and labels that exist, and each alert fires on its fault.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use super::table::{Documented, documented};

/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 3] = ["instance", "job", "le"];

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(path)
}

fn yaml(path: &str) -> Yaml {
    let text = std::fs::read_to_string(deploy(path)).unwrap();
    YamlLoader::load_from_str(&text).unwrap().remove(0)
}

fn rules() -> Vec<Yaml> {
    yaml("prometheus/alerts.yml")["groups"][0]["rules"]
        .as_vec()
        .unwrap()
        .clone()
}

fn dashboards() -> Vec<(String, Value)> {
    let folder = std::fs::read_dir(deploy("grafana")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.display().to_string(), serde_json::from_str(&text).unwrap())
    };
    paths.map(read).collect()
}

/// What is wrong with a query: a metric that the table lacks, or a label that none of its metrics has.
fn complaints(query: &str, table: &BTreeMap<String, Documented>) -> Vec<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: Vec<&str> = query
        .split(|c: char| !is_word(c))
        .filter(|word| !word.is_empty())
        .collect();
    let mut complaints = Vec::new();
    let mut labels: BTreeSet<&str> = OF_PROMETHEUS.into();
    let mut values: BTreeSet<&str> = BTreeSet::new();
    for word in words.iter().filter(|word| word.starts_with("mainspring_")) {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| word.strip_suffix(end));
        let of_histogram = base
            .and_then(|base| table.get(base))
            .filter(|metric| metric.kind == "histogram");
        match of_histogram.or_else(|| table.get(*word).filter(|metric| metric.kind != "histogram")) {
            Some(metric) => {
                labels.insert(&metric.label);
                values.extend(metric.values.iter().map(String::as_str));
            }
            None => complaints.push(format!("no such metric: {word}")),
        }
    }
    if !words.iter().any(|word| word.starts_with("mainspring_")) {
        complaints.push("it asks for no metric".to_owned());
    }
    // `by (a, b)` and `{a="b"}`.
    for list in query.split(" by (").skip(1) {
        let list = list.split(')').next().unwrap();
        let unknown = list.split(',').map(str::trim).filter(|label| !labels.contains(label));
        complaints.extend(unknown.map(|label| format!("no such label: {label}")));
    }
    for matcher in query.split('{').skip(1) {
        let (label, value) = matcher.split('}').next().unwrap().split_once('=').unwrap();
        if !labels.contains(label) || !values.contains(value.trim_matches('"')) {
            complaints.push(format!("no such series: {matcher}"));
        }
    }
    complaints
}

#[test]
fn a_query_for_what_does_not_exist_is_seen() {
    let table = documented();
    let wrong = |query: &str| complaints(query, &table).len();
    assert_eq!(wrong("sum by (outcome) (rate(mainspring_bursts_total[5m])) > 0"), 0);
    assert_eq!(wrong("rate(mainspring_bursts_total{outcome=\"fenced\"}[5m])"), 0);
    assert_eq!(wrong("sum by (le) (rate(mainspring_burst_seconds_bucket[5m]))"), 0);
    for query in [
        "up > 0",
        "mainspring_bursts > 0",
        "mainspring_bursts_total_count > 0",
        "mainspring_burst_seconds > 0",
        "sum by (result) (mainspring_bursts_total)",
        "mainspring_bursts_total{result=\"fenced\"}",
        "mainspring_bursts_total{outcome=\"fine\"}",
    ] {
        assert_eq!(wrong(query), 1, "{query}");
    }
}

#[test]
fn alerts_and_dashboards_ask_for_what_exists() {
    let table = documented();
    let mut found = Vec::new();
    for rule in rules() {
        let (name, query) = (rule["alert"].as_str().unwrap(), rule["expr"].as_str().unwrap());
        found.extend(complaints(query, &table).iter().map(|what| format!("{name}: {what}")));
        for field in ["summary", "remedy"] {
            assert!(
                rule["annotations"][field].as_str().is_some_and(|text| !text.is_empty()),
                "{name}"
            );
        }
        let severity = rule["labels"]["severity"].as_str();
        assert!(["warning", "critical"].map(Some).contains(&severity), "{name}");
    }
    let dashboards = dashboards();
    let mut uids = BTreeSet::new();
    for (path, dashboard) in &dashboards {
        assert!(uids.insert(dashboard["uid"].as_str().unwrap()), "{path}");
        let panels = dashboard["panels"].as_array().unwrap();
        let ids: BTreeSet<i64> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len(), "{path}: an id occurs twice");
        for panel in panels {
            let title = panel["title"].as_str().unwrap();
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{path} {title}");
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                found.extend(
                    complaints(query, &table)
                        .iter()
                        .map(|what| format!("{path} {title}: {what}")),
                );
            }
        }
    }
    assert!(dashboards.len() >= 3 && found.is_empty(), "{found:#?}");
}

/// The numbers of the whole database are the same at each node: a sum of them would be wrong.
#[test]
fn no_number_of_the_cluster_is_summed_over_the_nodes() {
    let of_rules = rules()
        .into_iter()
        .map(|rule| rule["expr"].as_str().unwrap().to_owned());
    let of_panels = dashboards().into_iter().flat_map(|(_, dashboard)| {
        let panels = dashboard["panels"].as_array().unwrap().clone();
        let targets = panels
            .into_iter()
            .flat_map(|panel| panel["targets"].as_array().unwrap().clone());
        targets
            .map(|target| target["expr"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    });
    for query in of_rules
        .chain(of_panels)
        .filter(|query| query.contains("mainspring_cluster_"))
    {
        assert!(!query.contains("sum(") && !query.contains("sum by"), "{query}");
    }
}

#[test]
fn promtool_accepts_the_alerts_and_each_fires_on_its_fault() {
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let output = Command::new("promtool")
            .args(arguments)
            .current_dir(deploy("prometheus"))
            .output();
        let output = output.expect("promtool: `scripts/install-missing prometheus`");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{said}");
    }
    let (mut fires, mut rests) = (BTreeSet::new(), BTreeSet::new());
    let tests = yaml("prometheus/alerts_test.yml");
    let tests = tests["tests"].as_vec().unwrap();
    for test in tests.iter().flat_map(|test| test["alert_rule_test"].as_vec().unwrap()) {
        let name = test["alertname"].as_str().unwrap().to_owned();
        match test["exp_alerts"].as_vec().unwrap().len() {
            0 => rests.insert(name),
            _ => fires.insert(name),
        };
    }
    let all: BTreeSet<String> = rules()
        .iter()
        .map(|rule| rule["alert"].as_str().unwrap().to_owned())
        .collect();
    assert!(all.len() > 25 && fires == all && rests == all, "{all:?}");
}
