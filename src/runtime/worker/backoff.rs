//! How long a burst that failed waits before it is retried.

use std::time::Duration;

use crate::store::maintenance;

/// The longest backoff before a burst that failed is retried.
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

// With its jitter.
const _: () = assert!(LONGEST_BACKOFF.as_secs() * 5 / 4 < maintenance::LONGEST_WAIT.as_secs());

/// The backoff after so many failures: doubled with each, and jittered.
pub(crate) fn backoff(failures: i32) -> Duration {
    let doubled = Duration::from_millis(100) * 2u32.saturating_pow(u32::try_from(failures).unwrap_or(0).min(16));
    doubled.min(LONGEST_BACKOFF).mul_f64(rand::random_range(0.75..1.25))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoffs_grow_to_a_bound_with_jitter() {
        for failures in 0..40 {
            let full = (Duration::from_millis(100) * 2u32.pow(failures.min(16))).min(LONGEST_BACKOFF);
            let backoffs: Vec<Duration> = (0..50).map(|_| backoff(failures.cast_signed())).collect();
            let within = full.mul_f64(0.75)..=full.mul_f64(1.25);
            assert!(
                backoffs.iter().all(|backoff| within.contains(backoff)),
                "{failures}: {backoffs:?}"
            );
            assert!(
                backoffs.iter().any(|backoff| *backoff != backoffs[0]),
                "{failures}: no jitter"
            );
        }
        assert_eq!(backoff(-1).as_secs(), 0);
    }
}
