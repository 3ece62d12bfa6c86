//! Releases claims that a burst does not consume.

use std::time::Instant;

use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{self, ClaimedRow, InstanceKey, Release};
use crate::store::commit::Claim;

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
