//! The sample of the cluster that this node serves.

use std::sync::{Mutex, PoisonError};
#[cfg(test)]
use std::time::Duration;
use std::time::Instant;

use crate::metric;
use crate::store::cluster_sample::ClusterSample;

/// The last sample that was read, by its time. It outlives the incarnation that has read it, and grows old with the outage.
#[derive(Debug, Default)]
pub(crate) struct KnownSample(Mutex<Option<Instant>>);

impl KnownSample {
    /// Serves a sample that has just arrived: sets the metrics that the table has.
    pub(crate) fn set(&self, sample: &ClusterSample) {
        for (name, number) in &sample.numbers {
            let (name, label) = match name.split_once('/') {
                Some((name, label)) => (name, Some(label)),
                None => (name.as_str(), None),
            };
            if let Some(metric) = metric::find(&format!("mainspring_cluster_{name}")) {
                metric.set(label, *number);
            }
        }
        metrics::gauge!("mainspring_cluster_sample_duration_seconds").set(sample.took);
        let taken = Instant::now().checked_sub(sample.age);
        if taken.is_some() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = taken;
        }
        self.report_age();
    }

    /// Sets how old the sample is by now.
    pub(crate) fn report_age(&self) {
        let taken = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = taken {
            metrics::gauge!("mainspring_cluster_sample_age_seconds").set(taken.elapsed());
        }
    }

    /// How old it is; `None` if none was read.
    #[cfg(test)]
    pub(crate) fn age(&self) -> Option<Duration> {
        self.0.lock().unwrap().map(|taken| taken.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::metrics::Recorded;

    #[test]
    fn what_the_table_lacks_is_not_served() {
        let (recorded, known) = (Recorded::default(), KnownSample::default());
        let numbers = [
            ("instances", 7.0),
            ("nodes/live", 3.0),
            ("nodes/of-a-later-version", 1.0),
            ("nodes", 4.0),
            ("instances/x", 4.0),
            ("of_a_later_version", 1.0),
            ("table_bytes/work", 8192.0),
            ("deadlocks_total", 2.0),
        ];
        let sample = ClusterSample {
            age: Duration::from_secs(4),
            took: Duration::from_millis(3),
            numbers: numbers.map(|(name, number)| (name.to_owned(), number)).into(),
        };
        metrics::with_local_recorder(&recorded, || known.set(&sample));
        assert_eq!(recorded.gauge("mainspring_cluster_instances"), 7.0);
        assert_eq!(recorded.gauge("mainspring_cluster_nodes"), 3.0);
        assert_eq!(recorded.gauge("mainspring_cluster_table_bytes"), 8192.0);
        assert_eq!(recorded.gauge("mainspring_cluster_sample_duration_seconds"), 0.003);
        assert!(recorded.gauge("mainspring_cluster_sample_age_seconds") >= 4.0);
        assert_eq!(
            recorded.counters(),
            [("mainspring_cluster_deadlocks_total".to_owned(), 2)]
        );
        assert!(known.age().is_some_and(|age| age >= sample.age));
    }

    #[test]
    fn a_sample_that_was_never_read_has_no_age() {
        let (recorded, known) = (Recorded::default(), KnownSample::default());
        metrics::with_local_recorder(&recorded, || known.report_age());
        assert!(known.age().is_none() && recorded.gauges().is_empty());
        let sample = ClusterSample {
            age: Duration::ZERO,
            took: Duration::ZERO,
            numbers: BTreeMap::new(),
        };
        metrics::with_local_recorder(&recorded, || known.set(&sample));
        assert!(
            recorded
                .gauges()
                .contains(&"mainspring_cluster_sample_age_seconds".to_owned())
        );
    }
}
