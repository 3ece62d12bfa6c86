//! The instances that finish in engines of this process.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::harness::failure::Failure;

static FINISHED: OnceLock<Arc<AtomicU64>> = OnceLock::new();

/// The counter of instances that finish in engines of this process. The first call installs the metrics recorder that counts
/// them, which is to happen before the first engine starts.
pub fn finished_instances() -> Result<Arc<AtomicU64>, Failure> {
    if let Some(counter) = FINISHED.get() {
        return Ok(Arc::clone(counter));
    }
    let counter = Arc::default();
    metrics::set_global_recorder(FinishedCounter(Arc::clone(&counter)))
        .map_err(|_| Failure::failed("this process has another metrics recorder"))?;
    Ok(Arc::clone(FINISHED.get_or_init(|| counter)))
}

/// A metrics recorder that counts finished instances only.
struct FinishedCounter(Arc<AtomicU64>);

impl Recorder for FinishedCounter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == "mainspring_instances_finished_total" {
            return Counter::from_arc(Arc::clone(&self.0));
        }
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
