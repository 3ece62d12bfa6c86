//! Percentiles of the last seconds in bounded memory: a ring of histograms, each of a part of the window.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Below twice this many microseconds a bucket has one value; above, each power of two has this many buckets: an error of at
/// most a thousandth, so three significant figures.
const BUCKETS: u64 = 1_024;

/// Longer latencies count as this many microseconds, which are more than an hour.
const LONGEST: u64 = (1 << 32) - 1;

/// The parts of a window.
const PARTS: u32 = 10;

/// The latencies of the last seconds.
pub(crate) struct Window {
    part: Duration,
    /// When each part began, the oldest first.
    parts: VecDeque<(Instant, Histogram)>,
}

/// What the harness reports of a window, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

impl Window {
    pub(crate) fn new(length: Duration) -> Self {
        Self {
            part: length / PARTS,
            parts: VecDeque::new(),
        }
    }

    pub(crate) fn record(&mut self, now: Instant, latency: Duration, count: u64) {
        self.forget(now);
        let is_current = |began: Instant| now.saturating_duration_since(began) < self.part;
        if !self.parts.back().is_some_and(|(began, _)| is_current(*began)) {
            self.parts.push_back((now, Histogram::default()));
        }
        if let Some((_, histogram)) = self.parts.back_mut() {
            let microseconds = u64::try_from(latency.as_micros()).unwrap_or(LONGEST);
            histogram.record(microseconds, count);
        }
    }

    /// None if nothing was recorded.
    pub(crate) fn percentiles(&mut self, now: Instant) -> Option<Percentiles> {
        self.forget(now);
        let mut all = Histogram::default();
        for (_, part) in &self.parts {
            all.add(part);
        }
        Some(Percentiles {
            p50: all.percentile(0.50)?,
            p95: all.percentile(0.95)?,
            p99: all.percentile(0.99)?,
        })
    }

    /// A part that began before the window is gone as a whole.
    fn forget(&mut self, now: Instant) {
        let length = self.part * PARTS;
        while (self.parts.front()).is_some_and(|(began, _)| now.saturating_duration_since(*began) > length) {
            self.parts.pop_front();
        }
    }
}

/// Counts of microseconds, which grow with the longest one.
#[derive(Default)]
struct Histogram(Vec<u64>);

impl Histogram {
    fn record(&mut self, microseconds: u64, count: u64) {
        let bucket = bucket_of(microseconds.min(LONGEST));
        if bucket >= self.0.len() {
            self.0.resize(bucket + 1, 0);
        }
        if let Some(recorded) = self.0.get_mut(bucket) {
            *recorded += count;
        }
    }

    fn add(&mut self, other: &Self) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (recorded, count) in self.0.iter_mut().zip(&other.0) {
            *recorded += count;
        }
    }

    /// In milliseconds.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    fn percentile(&self, quantile: f64) -> Option<f64> {
        let total: u64 = self.0.iter().sum();
        let rank = ((total as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(value_of(bucket) as f64 / 1_000.0)
    }
}

fn bucket_of(microseconds: u64) -> usize {
    let shift = u64::from((microseconds / BUCKETS).max(1).ilog2());
    usize::try_from(shift * BUCKETS + (microseconds >> shift)).unwrap_or(usize::MAX)
}

/// The least value of a bucket.
fn value_of(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).unwrap_or(u64::MAX);
    let shift = (bucket / BUCKETS).saturating_sub(1);
    (bucket - shift * BUCKETS) << shift
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_within_a_thousandth_of_its_values() {
        let values = (0..5_000).chain((0..32).map(|power| (1 << power) + 7)).chain([LONGEST]);
        for value in values {
            let low = value_of(bucket_of(value));
            assert!(low <= value && value - low <= value / 1_000, "{value} counts as {low}");
        }
    }

    #[test]
    fn buckets_grow_with_values() {
        let buckets: Vec<usize> = (0..100_000).map(bucket_of).collect();
        assert!(buckets.is_sorted());
    }

    #[test]
    fn percentiles_are_of_the_window() {
        let (began, mut window) = (Instant::now(), Window::new(Duration::from_secs(10)));
        assert_eq!(window.percentiles(began), None);
        window.record(began, Duration::from_secs(1), 1_000);
        let later = began + Duration::from_secs(11);
        for milliseconds in 1..=100 {
            window.record(later, Duration::from_millis(milliseconds), 1);
        }
        let found = window.percentiles(later).unwrap();
        for (value, wanted) in [(found.p50, 50.0), (found.p95, 95.0), (found.p99, 99.0)] {
            assert!((wanted * 0.999..=wanted).contains(&value), "{value} is not {wanted}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let (began, mut window) = (Instant::now(), Window::new(Duration::from_secs(10)));
        for second in 0..1_000 {
            window.record(began + Duration::from_secs(second), Duration::MAX, 1);
        }
        assert!(window.parts.len() <= 11);
        assert!(window.parts.iter().all(|(_, part)| part.0.len() <= 24 * 1_024));
    }
}
