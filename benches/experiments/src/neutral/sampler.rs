//! Samples at the boundaries of the wall clock, so that those of all systems and replicas are of the same moments.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mainspring::internals::Failure;
use tokio::time::sleep;

use crate::histogram::Percentiles;
use crate::measures::{Latencies, Measures};
use crate::records::{self, Sample};
use crate::settings::Settings;

/// Emits samples until the process ends.
pub(crate) async fn run(settings: Arc<Settings>, measures: Arc<Measures>) -> Result<(), Failure> {
    let mut last = Counts::of(&measures);
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        sleep(until_boundary(now, settings.sample_every)).await;
        let counts = Counts::of(&measures);
        records::samples(&settings, &samples(&settings, &measures, &last, &counts))?;
        last = counts;
    }
}

/// The counters at one moment.
struct Counts {
    at: Instant,
    enqueued: u64,
    completed: u64,
}

impl Counts {
    fn of(measures: &Measures) -> Self {
        Self {
            at: Instant::now(),
            enqueued: measures.enqueued.load(Relaxed),
            completed: measures.completed(),
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn samples(settings: &Settings, measures: &Measures, last: &Counts, counts: &Counts) -> Vec<Sample> {
    let seconds = counts.at.duration_since(last.at).as_secs_f64().max(0.001);
    let period = settings.sample_every.as_secs_f64();
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let mut samples = Vec::new();
    let mut add = |metric: &str, value: f64, window: f64| {
        samples.push(Sample {
            metric: metric.to_owned(),
            value,
            window,
        });
    };
    add("completion_rate", rate(counts.completed, last.completed), period);
    if settings.is_producer {
        add("enqueue_rate", rate(counts.enqueued, last.enqueued), period);
    }
    if settings.is_observer() {
        let (queued, running) = (
            measures.queued.load(Relaxed) as f64,
            measures.running.load(Relaxed) as f64,
        );
        add("queue_depth", queued, 0.0);
        add("running_depth", running, 0.0);
        add("total_backlog", queued + running, 0.0);
        add("producer_target_rate", measures.target_rate.load(Relaxed) as f64, 0.0);
    }
    // The pickup has two names in the harness.
    let latencies: [(&str, &Latencies); 5] = [
        ("producer_call", &measures.calls),
        ("producer", &measures.jobs),
        ("subscriber", &measures.claims),
        ("claim", &measures.claims),
        ("end_to_end", &measures.ends),
    ];
    let window = settings.latency_window.as_secs_f64();
    for (name, latencies) in latencies {
        // Without a job in the window there is no latency; a zero would be read as a very low one.
        if let Some(Percentiles { p50, p95, p99 }) = latencies.percentiles() {
            add(&format!("{name}_p50_ms"), p50, window);
            add(&format!("{name}_p95_ms"), p95, window);
            add(&format!("{name}_p99_ms"), p99, window);
        }
    }
    samples
}

/// The time until the next whole multiple of the period.
fn until_boundary(now: Duration, period: Duration) -> Duration {
    let passed = now.as_nanos().checked_rem(period.as_nanos()).unwrap_or_default();
    period.saturating_sub(Duration::from_nanos(u64::try_from(passed).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_is_a_multiple_of_the_period() {
        let until = |milliseconds| until_boundary(Duration::from_millis(milliseconds), Duration::from_secs(5));
        assert_eq!(until(7_250), Duration::from_millis(2_750));
        assert_eq!(until(4_999), Duration::from_millis(1));
        assert_eq!(until(10_000), Duration::from_secs(5));
    }
}
