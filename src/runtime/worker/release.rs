//! Releases claims that a burst does not consume.

use std::time::{Duration, Instant};

use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{self, ClaimedRow, InstanceKey, Release};
use crate::store::commit::Claim;
use crate::store::maintenance;

/// The longest backoff before a burst that failed is retried.
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

// With its jitter.
const _: () = assert!(LONGEST_BACKOFF.as_secs() * 5 / 4 < maintenance::LONGEST_WAIT.as_secs());

/// Releases claims of a burst that may have begun: no other row of its instance is claimed before them.
pub(crate) async fn release_claims(node: &NodeContext, key: &InstanceKey, claims: &[Claim], how: Release<'_>) {
    release_as(node, key, claims, &vec![true; claims.len()], how).await;
}

/// Releases claims of a burst that has not begun: the rows are what they were before.
pub(super) async fn give_back(node: &NodeContext, key: &InstanceKey, rows: &[ClaimedRow], how: Release<'_>) {
    let (claims, begun): (Vec<Claim>, Vec<bool>) = rows.iter().map(|row| (row.claim.clone(), row.had_begun)).unzip();
    release_as(node, key, &claims, &begun, how).await;
}

/// Releases claims, each with whether a burst with it may have begun, and polls again when the pause is over. A release that
/// fails is repeated by the reconciliation.
pub(super) async fn release_as(
    node: &NodeContext,
    key: &InstanceKey,
    claims: &[Claim],
    begun: &[bool],
    how: Release<'_>,
) {
    let (pool, incarnation) = (&node.database.pool, node.database.incarnation);
    if let Err(error) = claim::release_as(pool, incarnation, key, claims, begun, how).await {
        tracing::warn!(instance = %key.1, %error, "claims could not be released; they are reconciled later");
    }
    if !how.pause.is_zero() {
        node.row_due(Instant::now() + how.pause);
        return;
    }
    node.claims.wake_timer.wake_now();
    if node.lifecycle.is_draining() {
        node.notifications.wake.work_ready(&key.1);
    }
}

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
