//! The table against its rules, the source and its page of the reference.

use std::collections::BTreeSet;
use std::path::Path;

use metrics::Unit;

use super::entry::LabelValues;
use super::*;
use crate::testing::metrics::Recorded;
use crate::testing::reference_has;

const HEAD: &str = "\
# Metrics

`GET /metrics` serves them in the text form of Prometheus: at the address of `--health-listen` without a credential, and at the
address of the API for callers with `read:cluster`. Each node counts what it does itself, since its process began; sum over the
nodes. What begins with `mainspring_cluster_` is of the whole database: one node samples it every 15 seconds, and every node
serves the same sample, so take the maximum over the nodes, never the sum.

A program that embeds the engine installs a recorder of its own for the facade `metrics`; the engine describes all of these to it.
[Dashboards](../../deploy/grafana) and [alerts](../../deploy/prometheus/alerts.yml) use these names; a test compares them. A
metric has one label at most, with the values that are named here and no other. Test of this page: `metric::tests`.

";

/// The page of the reference.
fn page() -> String {
    let mut page = HEAD.to_owned();
    for (subject, metrics) in SUBJECTS {
        page.push_str(&format!(
            "## {subject}\n\n| metric | kind | unit | what it is for | when it is high |\n|---|---|---|---|---|\n"
        ));
        metrics.iter().for_each(|metric| page.push_str(&line(metric)));
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn line(metric: &Metric) -> String {
    let (label, values) = match metric.label {
        None => (String::new(), String::new()),
        Some(label) => {
            let values = match label.values {
                LabelValues::Of(values) => values
                    .iter()
                    .map(|value| format!("`{value}`"))
                    .collect::<Vec<_>>()
                    .join(", "),
                LabelValues::Settings(which) => which.to_owned(),
            };
            (format!("{{{}}}", label.name), format!("; `{}`: {values}", label.name))
        }
    };
    let unit = match metric.unit() {
        Unit::Seconds => "seconds",
        Unit::Bytes => "bytes",
        _ => "",
    };
    let (name, kind, meaning, high) = (metric.name, metric.kind.word(), metric.meaning, metric.when_high);
    format!("| `{name}{label}` | {kind} | {unit} | {meaning}{values} | {high} |\n")
}

#[test]
fn the_reference_has_the_table() {
    reference_has("metrics.md", &page());
}

/// What is wrong with a metric.
fn complaints(metric: &Metric) -> Vec<String> {
    let name = metric.name;
    let mut complaints = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            complaints.push(format!("{name}: {what}"));
        }
    };
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    expect(
        name.starts_with("mainspring_") && is_word(name),
        "begin with mainspring_, in small letters",
    );
    let is_counter = matches!(metric.kind, MetricKind::Counter);
    expect(
        is_counter == name.ends_with("_total"),
        "counters end with _total, and nothing else does",
    );
    let is_scaled = |unit: &&str| name.split('_').any(|word| word == *unit);
    let scaled = [
        "ms",
        "millis",
        "milliseconds",
        "micros",
        "minutes",
        "hours",
        "kb",
        "mib",
        "percent",
    ];
    expect(!scaled.iter().any(is_scaled), "give it in the base unit");
    let times = ["age", "latency", "duration", "wait", "oldest"];
    let is_time = times.iter().any(is_scaled) && !name.ends_with("_transactions");
    expect(!is_time || metric.unit() == Unit::Seconds, "a time ends with _seconds");
    expect(
        !metric.meaning.is_empty() && !metric.when_high.is_empty(),
        "say what it is for, and what to do",
    );
    expect(
        !metric.meaning.contains('|') && !metric.when_high.contains('|'),
        "a bar ends a cell of the table",
    );
    if let MetricKind::Histogram(buckets) = metric.kind {
        expect(buckets.len() > 4 && buckets.is_sorted_by(|a, b| a < b), "buckets grow");
    }
    if let Some(label) = metric.label {
        expect(is_word(label.name), "a label is a word");
        match label.values {
            LabelValues::Of(values) => {
                let distinct: BTreeSet<_> = values.iter().collect();
                expect(
                    (2..=16).contains(&values.len()) && distinct.len() == values.len(),
                    "bound its label",
                );
            }
            LabelValues::Settings(which) => expect(!which.is_empty(), "say what bounds its label"),
        }
    }
    complaints
}

#[test]
fn every_metric_keeps_the_rules() {
    let complaints: Vec<String> = all().flat_map(complaints).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    let names: BTreeSet<&str> = all().map(|metric| metric.name).collect();
    assert_eq!(names.len(), all().count(), "a name is in the table twice");
    assert!(names.len() > 100, "{}", names.len());
}

#[test]
fn a_metric_that_breaks_a_rule_is_seen() {
    let fine = entry::counter("mainspring_x_total", "what", "do");
    assert_eq!(complaints(&fine), Vec::<String>::new());
    for metric in [
        entry::counter("mainspring_x", "what", "do"),
        entry::gauge("mainspring_x_total", "what", "do"),
        entry::gauge("other_x", "what", "do"),
        entry::gauge("mainspring_x_ms", "what", "do"),
        entry::gauge("mainspring_x_age", "what", "do"),
        entry::gauge("mainspring_x", "", "do"),
        entry::gauge("mainspring_x", "what", ""),
        entry::histogram("mainspring_x_seconds", &[1.0, 2.0], "what", "do"),
        entry::histogram("mainspring_x_seconds", &[1.0, 2.0, 2.0, 3.0, 4.0], "what", "do"),
        entry::gauge("mainspring_x", "what", "do").by("x", &["one"]),
        entry::gauge("mainspring_x", "what", "do").by("x", &["one", "one"]),
        entry::gauge("mainspring_x", "what", "do").by_settings("x", ""),
    ] {
        assert_eq!(complaints(&metric).len(), 1, "{metric:?}");
    }
}

/// The texts in quotes that have the form of a metric's name, in a folder of the source.
fn literals(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("src/metric") {
                literals(&path, found);
            }
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let quoted = text.split("\"mainspring_").skip(1);
        let names = quoted.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name);
        let names = names.filter(|name| !name.ends_with('_'));
        let names = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        found.extend(names.map(|name| format!("mainspring_{name}")));
    }
}

/// What is sampled of the cluster is compared by `store::tests::cluster_sample`, with the sample itself.
#[test]
fn the_source_counts_what_the_table_has_and_nothing_else() {
    let mut counted = BTreeSet::new();
    literals(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut counted);
    counted.retain(|name| find(name).is_none_or(Metric::is_of_node));
    let table: BTreeSet<String> = all()
        .filter(|metric| metric.is_of_node())
        .map(|of| of.name.to_owned())
        .collect();
    let unknown: Vec<_> = counted.difference(&table).collect();
    let uncounted: Vec<_> = table.difference(&counted).collect();
    assert!(
        unknown.is_empty() && uncounted.is_empty(),
        "not in the table: {unknown:?}; never counted: {uncounted:?}"
    );
}

#[test]
fn what_has_not_happened_is_zero() {
    let recorded = Recorded::default();
    metrics::with_local_recorder(&recorded, register);
    let counters = recorded.counters();
    let counted: BTreeSet<&str> = counters.iter().map(|(name, _)| name.as_str()).collect();
    let gauges = recorded.gauges();
    for metric in
        all().filter(|metric| !matches!(metric.label, Some(label) if matches!(label.values, LabelValues::Settings(_))))
    {
        let is_made = match metric.kind {
            MetricKind::Counter => counted.contains(metric.name),
            MetricKind::Gauge => gauges.iter().any(|name| name == metric.name),
            MetricKind::Histogram(_) => recorded.histograms().iter().any(|(name, _)| name == metric.name),
        };
        assert_eq!(is_made, metric.is_of_node(), "{}", metric.name);
    }
    assert!(counters.iter().all(|(_, count)| *count == 0), "{counters:?}");
}
