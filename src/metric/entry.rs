//! The form of a metric.

use metrics::{Label, Unit};

/// What the names of metrics begin with that are of the whole database.
const OF_CLUSTER: &str = "mainspring_cluster_";

/// A metric.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) label: Option<MetricLabel>,
    /// What it is for.
    pub(crate) meaning: &'static str,
    /// What to do when it is high.
    pub(crate) when_high: &'static str,
}

/// What kind of number it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MetricKind {
    /// It only grows, until the process ends.
    Counter,
    Gauge,
    /// With the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

impl MetricKind {
    #[cfg(test)]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// The one label that a metric may have: each further one would multiply its series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetricLabel {
    pub(crate) name: &'static str,
    pub(crate) values: LabelValues,
}

/// What bounds a label.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LabelValues {
    /// These and no other.
    Of(&'static [&'static str]),
    /// One for each that the settings name; the text says which.
    Settings(#[cfg_attr(not(test), allow(dead_code, reason = "for the reference"))] &'static str),
}

/// From a tenth of a millisecond to ten seconds.
pub(super) const SHORT: &[f64] = &[
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// From a millisecond to an hour.
pub(super) const WAITS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 3600.0,
];

/// From ten milliseconds to a month.
pub(super) const LIVES: &[f64] = &[
    0.01,
    0.1,
    1.0,
    10.0,
    60.0,
    600.0,
    3600.0,
    21_600.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
];

/// Sizes of batches.
pub(super) const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

pub(super) const fn counter(name: &'static str, meaning: &'static str, when_high: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Counter,
        label: None,
        meaning,
        when_high,
    }
}

pub(super) const fn gauge(name: &'static str, meaning: &'static str, when_high: &'static str) -> Metric {
    Metric {
        kind: MetricKind::Gauge,
        ..counter(name, meaning, when_high)
    }
}

pub(super) const fn histogram(
    name: &'static str,
    buckets: &'static [f64],
    meaning: &'static str,
    when_high: &'static str,
) -> Metric {
    Metric {
        kind: MetricKind::Histogram(buckets),
        ..counter(name, meaning, when_high)
    }
}

impl Metric {
    /// The same by a label with these values.
    pub(super) const fn by(self, name: &'static str, values: &'static [&'static str]) -> Self {
        self.with(MetricLabel {
            name,
            values: LabelValues::Of(values),
        })
    }

    /// The same by a label with a value for each of what the settings name.
    pub(super) const fn by_settings(self, name: &'static str, which: &'static str) -> Self {
        self.with(MetricLabel {
            name,
            values: LabelValues::Settings(which),
        })
    }

    const fn with(self, label: MetricLabel) -> Self {
        Self {
            label: Some(label),
            ..self
        }
    }

    /// The base unit that its name ends with; a count where it names none.
    pub(crate) fn unit(&self) -> Unit {
        let name = self.name.trim_end_matches("_total");
        if name.ends_with("_seconds") {
            Unit::Seconds
        } else if name.ends_with("_bytes") {
            Unit::Bytes
        } else {
            Unit::Count
        }
    }

    /// The known values of its label; none without a label.
    #[cfg(test)]
    pub(crate) fn values(&self) -> &'static [&'static str] {
        match self.label {
            Some(MetricLabel {
                values: LabelValues::Of(values),
                ..
            }) => values,
            _ => &[],
        }
    }

    /// Whether a node has it before the first sample of the cluster.
    pub(crate) fn is_of_node(&self) -> bool {
        !self.name.starts_with(OF_CLUSTER)
    }

    pub(super) fn register(&self) {
        let (name, unit) = (self.name, self.unit());
        let description = format!("{}. When it is high: {}.", self.meaning, self.when_high);
        match self.kind {
            MetricKind::Counter => metrics::describe_counter!(name, unit, description),
            MetricKind::Gauge => metrics::describe_gauge!(name, unit, description),
            MetricKind::Histogram(_) => metrics::describe_histogram!(name, unit, description),
        }
        if !self.is_of_node() {
            return;
        }
        match self.label {
            None => self.touch(Vec::new()),
            Some(MetricLabel {
                name,
                values: LabelValues::Of(values),
            }) => values
                .iter()
                .for_each(|value| self.touch(vec![Label::from_static_parts(name, value)])),
            Some(_) => {}
        }
    }

    /// Makes the series with these labels. One that has a value keeps it.
    fn touch(&self, labels: Vec<Label>) {
        let name = self.name;
        match self.kind {
            MetricKind::Counter => drop(metrics::counter!(name, labels)),
            MetricKind::Gauge => drop(metrics::gauge!(name, labels)),
            MetricKind::Histogram(_) => drop(metrics::histogram!(name, labels)),
        }
    }

    /// Sets a gauge, or a counter that is counted elsewhere. A value of a label that the table lacks is left out: its series
    /// would be unbounded.
    pub(crate) fn set(&self, value: Option<&str>, number: f64) {
        let name = self.name;
        let labels = match (self.label, value) {
            (None, None) => Vec::new(),
            (Some(label), Some(value)) => match label.known(value) {
                Some(value) => vec![Label::from_static_parts(label.name, value)],
                None => return,
            },
            _ => return,
        };
        match self.kind {
            MetricKind::Gauge => metrics::gauge!(name, labels).set(number),
            // A count, which is below 2^53.
            MetricKind::Counter => metrics::counter!(name, labels).absolute(number as u64),
            MetricKind::Histogram(_) => {}
        }
    }
}

impl MetricLabel {
    fn known(self, wanted: &str) -> Option<&'static str> {
        match self.values {
            LabelValues::Of(values) => values.iter().copied().find(|value| *value == wanted),
            LabelValues::Settings(_) => None,
        }
    }
}
