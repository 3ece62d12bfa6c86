//! Spreading what is planned for one moment, without any chance in it.

use sha2::{Digest, Sha256};

/// How much later than planned an occurrence fires: from nothing up to, but never, `below`; all in microseconds.
/// Derived from the schedule and the occurrence, so that every node says the same, whenever it is asked.
pub(super) fn jitter(schedule: &str, occurrence: i64, below: i64) -> i64 {
    let mut hash = Sha256::new();
    hash.update(schedule.as_bytes());
    hash.update(b"|");
    hash.update(occurrence.to_be_bytes());
    let digest = hash.finalize();
    let number = digest
        .iter()
        .take(8)
        .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let scaled = (u128::from(number) * u128::from(below.max(0).unsigned_abs())) >> 64;
    i64::try_from(scaled).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_derived_and_spread() {
        assert_eq!(jitter("a", 1, 1000), jitter("a", 1, 1000));
        let spread: std::collections::BTreeSet<i64> = (0..100).map(|i| jitter("a", i, 1_000_000)).collect();
        assert!(spread.len() > 90);
        assert!(spread.iter().all(|jitter| (0..1_000_000).contains(jitter)));
        assert!(spread.first().unwrap() < &100_000 && spread.last().unwrap() > &900_000);
        let others = (0..100).filter(|i| jitter(&i.to_string(), 7, 1000) == jitter("a", 7, 1000));
        assert!(others.count() < 5);
        assert_eq!(jitter("a", 1, 0), 0);
        assert_eq!(jitter("a", 1, 1), 0);
        assert_eq!(jitter("a", 1, -5), 0);
    }
}
