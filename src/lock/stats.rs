//! Statistics of a provider, counted since it was opened.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Eight buckets for each power of two: a percentile is at most 12.5 % too high.
const STEPS_LOG2: u32 = 3;
/// Up to 2^42 ns, which is more than an hour.
const BUCKETS: usize = 43 << STEPS_LOG2;

/// A histogram of durations, without a mutex.
pub(crate) struct Histogram {
    buckets: Box<[AtomicU64]>,
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            total_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub(crate) fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(nanos).min(BUCKETS - 1)) {
            bucket.fetch_add(1, Relaxed);
        }
        self.total_ns.fetch_add(nanos, Relaxed);
        // Mostly it is not longer, and a read costs less than a write.
        if nanos > self.longest_ns.load(Relaxed) {
            self.longest_ns.fetch_max(nanos, Relaxed);
        }
    }

    pub(crate) fn snapshot(&self) -> Durations {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let count: u64 = counts.iter().sum();
        let at = |percent: u64| {
            let rank = (count * percent).div_ceil(100).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|in_bucket| {
                seen += in_bucket;
                seen >= rank
            });
            Duration::from_nanos(found.map_or(0, upper_bound))
        };
        Durations {
            count,
            mean: Duration::from_nanos(self.total_ns.load(Relaxed).checked_div(count).unwrap_or(0)),
            p50: at(50),
            p95: at(95),
            p99: at(99),
            max: Duration::from_nanos(self.longest_ns.load(Relaxed)),
        }
    }
}

fn bucket_of(nanos: u64) -> usize {
    let steps = 1u64 << STEPS_LOG2;
    if nanos < steps {
        return usize::try_from(nanos).unwrap_or(0);
    }
    let shift = nanos.ilog2() - STEPS_LOG2;
    let within = (nanos >> shift) - steps;
    let group = u64::from(shift + 1) << STEPS_LOG2;
    usize::try_from(group + within).unwrap_or(BUCKETS)
}

/// The largest number of nanoseconds in a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let steps = 1u64 << STEPS_LOG2;
    let bucket = bucket as u64;
    if bucket < steps {
        return bucket;
    }
    let shift = (bucket >> STEPS_LOG2) - 1;
    ((bucket % steps + steps + 1) << shift) - 1
}

/// Durations in summary. Each percentile is the upper end of its bucket, at most 12.5 % above the true one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Durations {
    /// How many were measured.
    pub count: u64,
    /// Their mean, exact.
    pub mean: Duration,
    /// Half were at most this long.
    pub p50: Duration,
    /// 95 % were at most this long.
    pub p95: Duration,
    /// 99 % were at most this long.
    pub p99: Duration,
    /// The longest, exact.
    pub max: Duration,
}

/// What a provider has counted since it was opened. The numbers are read one after another, not at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStats {
    /// From the request to the grant, of granted requests.
    pub acquire: Durations,
    /// From the grant to the release.
    pub hold: Durations,
    /// Requests that were granted. A request for several locks counts once.
    pub granted: u64,
    /// Requests that were not granted at once, because another request held one of the locks or waited for it.
    pub contended: u64,
    /// Tries that were refused.
    pub refused: u64,
    /// Requests that ended while they waited: timed out, or dropped.
    pub abandoned: u64,
    /// Requests and held locks that ended because the provider lost its connection.
    pub lost: u64,
    /// Locks that went from one holder to the next within the process, without a release in the backend.
    pub handed_over: u64,
    /// Locks (not requests) taken in the backend: in the database, or in the file system.
    pub taken: u64,
    /// Locks released there, and confirmed.
    pub freed: u64,
    /// Requests that had to wait because the budget of locks was used up.
    pub over_budget: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) acquire: Histogram,
    pub(super) hold: Histogram,
    pub(super) granted: AtomicU64,
    pub(super) contended: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) abandoned: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) handed_over: AtomicU64,
    pub(super) taken: AtomicU64,
    pub(super) freed: AtomicU64,
    pub(super) over_budget: AtomicU64,
}

impl Counters {
    pub(super) fn snapshot(&self) -> LockStats {
        LockStats {
            acquire: self.acquire.snapshot(),
            hold: self.hold.snapshot(),
            granted: self.granted.load(Relaxed),
            contended: self.contended.load(Relaxed),
            refused: self.refused.load(Relaxed),
            abandoned: self.abandoned.load(Relaxed),
            lost: self.lost.load(Relaxed),
            handed_over: self.handed_over.load(Relaxed),
            taken: self.taken.load(Relaxed),
            freed: self.freed.load(Relaxed),
            over_budget: self.over_budget.load(Relaxed),
        }
    }
}

/// Increments a counter.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        for bucket in 0..BUCKETS - 1 {
            assert_eq!(bucket_of(upper_bound(bucket)), bucket);
            assert_eq!(bucket_of(upper_bound(bucket) + 1), bucket + 1);
        }
        assert!(bucket_of(u64::MAX) >= BUCKETS);
    }

    #[test]
    fn percentiles_are_at_most_an_eighth_too_high() {
        let histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        histogram.record(Duration::MAX);
        let durations = histogram.snapshot();
        assert_eq!((durations.count, durations.max), (1001, Duration::from_nanos(u64::MAX)));
        for (found, exact) in [(durations.p50, 501), (durations.p95, 951), (durations.p99, 991)] {
            let exact = Duration::from_micros(exact);
            assert!(
                found >= exact && found <= exact.mul_f64(1.125),
                "{found:?} for {exact:?}"
            );
        }
        assert_eq!(Histogram::default().snapshot(), Durations::default());
    }
}
