//! The figures of a run, and the panels that show them.

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
    /// The label below its bars; empty if the title is enough.
    pub(super) name: &'static str,
    /// The JSON fields that may contain it, with the factor to our unit.
    fields: &'static [(&'static str, f64)],
}

/// Figures in one diagram.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) unit: Unit,
    pub(super) figures: &'static [Figure],
}

const fn figure(name: &'static str, fields: &'static [(&'static str, f64)]) -> Figure {
    Figure { name, fields }
}

/// In drawing order.
pub(super) const PANELS: [Panel; 10] = [
    Panel {
        title: "Throughput",
        unit: Unit::PerSecond,
        figures: &[
            figure("measured", &[("ops_per_s", 1.0)]),
            figure("baseline, two round trips", &[("baseline_ops_per_s", 1.0)]),
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
        title: "Handoff between sessions",
        unit: Unit::Time,
        figures: &[
            figure("p50", &[("handoff_p50_us", 1.0), ("hand_over_p50_us", 1.0)]),
            figure("p99", &[("handoff_p99_us", 1.0), ("hand_over_p99_us", 1.0)]),
        ],
    },
    Panel {
        title: "From the first due time to the last end",
        unit: Unit::Time,
        figures: &[figure("", &[("all_ms", 1e3)])],
    },
    Panel {
        title: "CPU per workflow",
        unit: Unit::Time,
        figures: &[
            figure("engine", &[("engine_cpu_us", 1.0)]),
            figure("server", &[("server_cpu_us", 1.0)]),
        ],
    },
    Panel {
        title: "Statements and round trips per workflow",
        unit: Unit::Count,
        figures: &[
            figure("statements", &[("statements", 1.0)]),
            figure("round trips", &[("round_trips", 1.0)]),
        ],
    },
    Panel {
        title: "WAL per workflow",
        unit: Unit::Bytes,
        figures: &[figure("", &[("wal_bytes", 1.0)])],
    },
    Panel {
        title: "Flushes per workflow",
        unit: Unit::Count,
        figures: &[figure("", &[("flushes", 1.0)])],
    },
];

/// The largest plausible value.
const MAX: f64 = 1e15;

impl Figure {
    /// Its value in a result.
    pub(super) fn of(&self, outcome: &Map<String, Value>) -> Option<f64> {
        let mut found = self.fields.iter().filter_map(|(field, factor)| {
            let value = outcome.get(*field)?.as_f64()? * factor;
            (0.0..=MAX).contains(&value).then_some(value)
        });
        found.next()
    }
}

pub(super) fn has_figures(outcome: &Map<String, Value>) -> bool {
    let mut figures = PANELS.iter().flat_map(|panel| panel.figures);
    figures.any(|figure| figure.of(outcome).is_some())
}
