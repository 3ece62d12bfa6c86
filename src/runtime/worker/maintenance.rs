//! Reconciles the claims that the database shows for this incarnation with those of its bursts, and releases orphaned ones:
//! those of a claim whose answer was lost, or of a task that failed.
//!
//! Vacuums the tables that all work passes through, after a number of bursts of this node. A busy cluster needs that more
//! often than the server's autovacuum runs, and an idle one not at all.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::release::release_claims;
use super::{follow, inbox_budget, inbox_match, requests, sampler};
use crate::Result;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{self, InstanceKey, Release};
use crate::store::commit::Claim;
use crate::store::{lock as store_lock, maintenance};

/// How often all claims are reconciled.
const INTERVAL: Duration = Duration::from_secs(10);

/// Between two reads of claims whose answer was lost.
const IN_DOUBT_INTERVAL: Duration = Duration::from_secs(1);

/// The least time between two vacuums.
const VACUUM_PAUSE: Duration = Duration::from_secs(2);

type ClaimKey = (InstanceKey, Claim);

/// Reconciles claims, vacuums, starts what the inbox keeps for published triggers, weighs what it keeps, reads
/// the ends of requests that other nodes have ended, follows pauses, freed locks and the keys of links, announces what is observed, and samples the cluster, until the incarnation stops.
pub(crate) async fn run(node: Arc<NodeContext>) {
    tokio::join!(
        reconcile(&node),
        vacuum(&node),
        inbox_match::run(&node),
        inbox_budget::run(&node),
        requests::collect(&node),
        follow::pause(&node),
        follow::observed(&node),
        follow::freed_locks(&node),
        follow::token_keys(&node),
        sampler::run(&node)
    );
}

async fn vacuum(node: &NodeContext) {
    let (trigger, stop) = (&node.claims.vacuum, &node.lifecycle.stop);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = trigger.due() => {}
        }
        trigger.reset();
        // If it is dropped halfway, the server ends it with the connection.
        let vacuumed = tokio::select! {
            () = stop.cancelled() => return,
            vacuumed = maintenance::vacuum(&node.database.connector) => vacuumed,
        };
        if let Err(error) = vacuumed {
            tracing::debug!(%error, "the vacuum failed; autovacuum does the rest");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(VACUUM_PAUSE) => {}
        }
    }
}

async fn reconcile(node: &NodeContext) {
    let mut candidates = HashSet::new();
    loop {
        // Both are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            in_doubt = node.claims.in_flight.next_in_doubt() => {
                tokio::select! {
                    () = node.lifecycle.stop.cancelled() => return,
                    () = release_in_doubt(node, &in_doubt) => {}
                }
                continue;
            }
            () = tokio::time::sleep(INTERVAL.mul_f64(rand::random_range(0.8..1.2))) => {}
        }
        match release_orphaned(node, &candidates).await {
            Ok(orphaned) => candidates = orphaned,
            Err(error) => tracing::debug!(%error, "claims could not be reconciled"),
        }
        log_foreign_locks(node).await;
    }
}

/// Releases claims of these instances that no burst has, as soon as the database answers. A claim must be orphaned in two
/// reads, as a claim that is under way may take another row of the instance.
async fn release_in_doubt(node: &NodeContext, in_doubt: &HashSet<InstanceKey>) {
    let mut before: Option<HashSet<ClaimKey>> = None;
    loop {
        tokio::time::sleep(IN_DOUBT_INTERVAL).await;
        let claimed = match claim::claimed_by(&node.database.pool, node.database.incarnation).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::debug!(%error, "claims in doubt cannot be read yet");
                continue;
            }
        };
        let is_orphaned =
            |(key, claim): &ClaimKey| in_doubt.contains(key) && !node.claims.in_flight.contains(key, claim);
        let orphaned: HashSet<_> = claimed.into_iter().filter(is_orphaned).collect();
        let Some(before) = before.replace(orphaned.clone()) else {
            continue;
        };
        for (key, claim) in before.intersection(&orphaned) {
            tracing::info!(instance = %key.1, "a claim whose answer was lost is released");
            release_claims(node, key, std::slice::from_ref(claim), Release::IMMEDIATE).await;
        }
        return;
    }
}

/// Logs sessions of no node that hold locks which polls found held elsewhere, or a lock by which nodes exclude each other.
async fn log_foreign_locks(node: &NodeContext) {
    let keys: Vec<i64> = node.locked_elsewhere().iter().map(|(key, _)| key.0).collect();
    store_lock::log_foreign_locks(&node.database.pool, &node.database.schema, &keys).await;
}

/// Releases the candidates that still are orphaned; returns the claims that are orphaned for the first time, the next
/// candidates. A claim is released once it is orphaned in two reads, one interval apart.
async fn release_orphaned(node: &NodeContext, candidates: &HashSet<ClaimKey>) -> Result<HashSet<ClaimKey>> {
    let mut orphaned = HashSet::new();
    for (key, claim) in claim::claimed_by(&node.database.pool, node.database.incarnation).await? {
        if node.claims.in_flight.contains(&key, &claim) {
            continue;
        }
        if candidates.contains(&(key.clone(), claim.clone())) {
            tracing::warn!(instance = %key.1, "a claim was orphaned: no burst of this node has it; it is released");
            release_claims(node, &key, &[claim], Release::IMMEDIATE).await;
        } else {
            orphaned.insert((key, claim));
        }
    }
    Ok(orphaned)
}
