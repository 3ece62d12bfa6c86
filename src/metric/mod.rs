//! Every metric: its name, kind and labels, what it is for, and what to do when it is high. One table, from which come the
//! descriptions of a recorder, the buckets of histograms and `docs/reference/metrics.md`; tests compare it with what the source
//! counts and with what a node serves.
//!
//! What happens is counted where it happens, through the facade `metrics`. This module installs no recorder: the program does.
//!
//! # Layout
//!
//! - `entry`: the form of a metric.
//! - `work`, `locks`, `database`, `requests`, `services`, `cluster`: the metrics, by subject.

mod cluster;
mod database;
mod entry;
mod locks;
mod requests;
mod services;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use cluster::TABLES;
pub(crate) use entry::Metric;
#[cfg(any(test, feature = "cli"))]
pub(crate) use entry::MetricKind;

/// The subjects with their metrics, as the reference has them.
pub(crate) const SUBJECTS: [(&str, &[Metric]); 6] = [
    ("Work", &work::METRICS),
    ("Locks", &locks::METRICS),
    ("Database", &database::METRICS),
    ("Requests", &requests::METRICS),
    ("Services and process", &services::METRICS),
    ("Cluster", &cluster::METRICS),
];

/// Every metric.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    SUBJECTS.iter().flat_map(|(_, metrics)| metrics.iter())
}

/// The metric of a name.
pub(crate) fn find(name: &str) -> Option<&'static Metric> {
    all().find(|metric| metric.name == name)
}

/// Describes every metric to the recorder of this process, and makes the series of those whose labels are known: what has not
/// happened yet is 0, not absent. Without a recorder it does nothing.
pub(crate) fn register() {
    all().for_each(Metric::register);
}
