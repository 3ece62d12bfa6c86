//! What there is to see of a run: figures, and which of them share a panel.

use serde_json::{Map, Value};

/// What a figure is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    PerSecond,
    /// Microseconds.
    Time,
    Bytes,
    Count,
}

/// One number of an outcome.
pub(super) struct Figure {
    /// What it is called below its bars; empty if the title says all.
    pub(super) name: &'static str,
    /// The fields that may hold it, and what one of theirs is in units of ours.
    fields: &'static [(&'static str, f64)],
}

/// Figures that are worth comparing with each other.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) unit: Unit,
    pub(super) figures: &'static [Figure],
}

const fn figure(name: &'static str, fields: &'static [(&'static str, f64)]) -> Figure {
    Figure { name, fields }
}

/// In the order in which they are drawn.
pub(super) const PANELS: [Panel; 10] = [
    Panel {
        title: "Throughput",
        unit: Unit::PerSecond,
        figures: &[
            figure("measured", &[("ops_per_s", 1.0)]),
            figure("plain, two round trips", &[("baseline_ops_per_s", 1.0)]),
        ],
    },
    Panel {
        title: "Latency",
        unit: Unit::Time,
        figures: &[
            figure("p50", &[("p50_us", 1.0), ("p50_ms", 1e3)]),
            figure("p95", &[("p95_us", 1.0), ("p95_ms", 1e3)]),
            figure("p99", &[("p99_us", 1.0), ("p99_ms", 1e3)]),
        ],
    },
    Panel {
        title: "Longest latency",
        unit: Unit::Time,
        figures: &[figure("", &[("max_us", 1.0), ("max_ms", 1e3)])],
    },
    Panel {
        title: "Latency from before the event was sent",
        unit: Unit::Time,
        figures: &[
            figure("p50", &[("sent_p50_us", 1.0)]),
            figure("p95", &[("sent_p95_us", 1.0)]),
            figure("p99", &[("sent_p99_us", 1.0)]),
        ],
    },
    Panel {
        title: "Hand-over between sessions",
        unit: Unit::Time,
        figures: &[
            figure("p50", &[("hand_over_p50_us", 1.0)]),
            figure("p99", &[("hand_over_p99_us", 1.0)]),
        ],
    },
    Panel {
        title: "From the first due until the last had run",
        unit: Unit::Time,
        figures: &[figure("", &[("all_ms", 1e3)])],
    },
    Panel {
        title: "CPU of each workflow",
        unit: Unit::Time,
        figures: &[
            figure("engine", &[("engine_cpu_us", 1.0)]),
            figure("server", &[("server_cpu_us", 1.0)]),
        ],
    },
    Panel {
        title: "Words with the server for each workflow",
        unit: Unit::Count,
        figures: &[
            figure("statements", &[("statements", 1.0)]),
            figure("round trips", &[("round_trips", 1.0)]),
        ],
    },
    Panel {
        title: "WAL of each workflow",
        unit: Unit::Bytes,
        figures: &[figure("", &[("wal_bytes", 1.0)])],
    },
    Panel {
        title: "Flushes for each workflow",
        unit: Unit::Count,
        figures: &[figure("", &[("flushes", 1.0)])],
    },
];

/// More than anything measures, and far from where arithmetic ends.
const MOST: f64 = 1e15;

impl Figure {
    /// Its value in an outcome.
    pub(super) fn of(&self, outcome: &Map<String, Value>) -> Option<f64> {
        let mut found = self.fields.iter().filter_map(|(field, factor)| {
            let value = outcome.get(*field)?.as_f64()? * factor;
            (0.0..=MOST).contains(&value).then_some(value)
        });
        found.next()
    }
}

/// Whether there is anything to draw of it.
pub(super) fn has_figures(outcome: &Map<String, Value>) -> bool {
    let mut figures = PANELS.iter().flat_map(|panel| panel.figures);
    figures.any(|figure| figure.of(outcome).is_some())
}
