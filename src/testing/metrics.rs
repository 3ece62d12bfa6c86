//! A recorder that keeps the metrics of one test.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

#[derive(Default)]
pub(crate) struct Recorded {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    histograms: Mutex<BTreeMap<String, Arc<Values>>>,
    gauges: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
}

#[derive(Default)]
struct Values(Mutex<Vec<f64>>);

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.counters.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(key.name().to_owned()).or_default()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut gauges = self.gauges.lock().unwrap();
        Gauge::from_arc(Arc::clone(gauges.entry(key.name().to_owned()).or_default()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut histograms = self.histograms.lock().unwrap();
        Histogram::from_arc(Arc::clone(histograms.entry(key.name().to_owned()).or_default()))
    }
}

impl Recorded {
    /// The value of a gauge.
    pub(crate) fn gauge(&self, name: &str) -> f64 {
        let gauges = self.gauges.lock().unwrap();
        f64::from_bits(gauges[name].load(Relaxed))
    }

    /// The names of all gauges.
    pub(crate) fn gauges(&self) -> Vec<String> {
        self.gauges.lock().unwrap().keys().cloned().collect()
    }

    /// All counters, sorted by name.
    pub(crate) fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.counters.lock().unwrap();
        let counters = counters.iter();
        counters
            .map(|(name, count)| (name.clone(), count.load(Relaxed)))
            .collect()
    }

    /// The values of all histograms, sorted by name.
    pub(crate) fn histograms(&self) -> Vec<(String, Vec<f64>)> {
        let histograms = self.histograms.lock().unwrap();
        let histograms = histograms.iter();
        histograms
            .map(|(name, values)| (name.clone(), values.0.lock().unwrap().clone()))
            .collect()
    }
}
