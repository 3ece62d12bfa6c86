//! Keeps the list of versions that this node cannot run, and leaves their instances to the other nodes.
//!
//! # Invariants
//!
//! - A burst asks its compiled program, the only authority; claims that need an unknown activity are released without a
//!   failure, and other nodes are notified. A stale list costs a round trip, never a fault.
//! - The list is read when the revision has changed, not per poll; polls leave its versions out. A node that knows all
//!   activities has no cost from this.
//! - The types of a version are recorded once, by any node that knows all of them. Until then every node tries it.

use std::sync::Arc;
use std::time::Duration;

use super::release::give_back;
use crate::Result;
use crate::failpoint;
use crate::id::{TenantId, VersionId};
use crate::runtime::context::node_context::NodeContext;
use crate::signal::CacheSubscription;
use crate::store::activity_type;
use crate::store::claim::{ClaimedRow, InstanceKey, Release};
use crate::store::commit::Claim;
use crate::wake::WakeNotification;

/// The least time from one read of the list to the next: publishes may come in bulk.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// The pause after a read that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Reads which versions this node does not support, and reports the missing activity types in its row.
pub(crate) async fn refresh(node: &NodeContext) -> Result<()> {
    let (pool, unsupported) = (&node.database.pool, &node.claims.unsupported);
    let listed = activity_type::unsupported_versions(pool, unsupported.known_types()).await?;
    if let Some(missing) = unsupported.set_listed(listed) {
        activity_type::report_missing(pool, node.database.incarnation, &missing).await?;
        if missing.is_empty() {
            tracing::info!("this node knows all activities of published versions");
        } else {
            tracing::warn!(
                ?missing,
                "activities of published versions are missing at this node; it leaves those versions to other nodes"
            );
        }
        unsupported.set_reported(missing);
        // This node may support more than before.
        node.claims.wake_timer.wake_now();
    }
    Ok(())
}

/// Records the activity types of versions that no node has recorded yet, where this node knows them all.
async fn survey(node: &NodeContext) -> Result<()> {
    failpoint::hit("survey.begins").await?;
    let pool = &node.database.pool;
    let mut behind = (TenantId::default(), VersionId::default());
    loop {
        let page = activity_type::unsurveyed_versions(pool, &behind).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(());
        };
        for key in page {
            let programs = &node.caches.programs;
            let types = match programs.get(pool, &node.interpreter, &key.0, &key.1).await {
                Ok(program) => {
                    let missing = program.missing_activity_types();
                    if !missing.is_empty() {
                        // Which types an unknown activity contains is unknown as well.
                        node.claims.unsupported.add_found(key, missing);
                        continue;
                    }
                    program.activity_types()
                }
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    tracing::warn!(version = %key.1, %error, "a published version cannot be compiled");
                    Vec::new()
                }
            };
            activity_type::record(pool, &key, &types).await?;
        }
        behind = last;
    }
}

/// Releases the claims of an instance whose version this node does not support, and notifies the others, which also receive
/// for which rows callers of this node wait.
pub(super) async fn leave_to_others(
    node: &NodeContext,
    key: &InstanceKey,
    version: &VersionId,
    missing: Vec<String>,
    rows: &[ClaimedRow],
) {
    tracing::info!(instance = %key.1, %version, ?missing, "activities are missing at this node; the instance is left to other nodes");
    let version = (key.0.clone(), version.clone());
    node.claims.unsupported.add_found(version, missing);
    let claims: Vec<Claim> = rows.iter().map(|row| row.claim.clone()).collect();
    node.claims.defer([key.clone()]);
    give_back(node, key, rows, Release::IMMEDIATE).await;
    let ready = WakeNotification::WorkReady(key.1.clone());
    let awaited = claims.iter().filter_map(|claim| match claim {
        Claim::Work(work, _) => Some(WakeNotification::ReplyAwaited(*work)),
        Claim::Timer(..) => None,
    });
    node.notifications.wake.notify(std::iter::once(ready).chain(awaited));
}

/// Keeps the list, until the incarnation stops.
pub(crate) async fn keep_list(node: Arc<NodeContext>, mut signals: CacheSubscription) {
    let lifecycle = &node.lifecycle;
    let mut reports = lifecycle.reports.clone();
    let mut revision = None;
    loop {
        let read = async {
            survey(&node).await?;
            refresh(&node).await
        };
        let pause = match read.await {
            Ok(()) => LEAST_PAUSE,
            Err(error) => {
                tracing::warn!(%error, "the versions that this node does not support could not be read");
                revision = None;
                RETRY
            }
        };
        tokio::select! {
            () = lifecycle.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if pause == RETRY {
            continue;
        }
        // All are cancellation safe.
        loop {
            tokio::select! {
                () = lifecycle.stop.cancelled() => return,
                () = node.claims.unsupported.next_found() => break,
                notification = signals.recv() => match notification {
                    Some(_) => break,
                    None => return,
                },
                changed = reports.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let seen = reports.borrow_and_update().check_in.revision;
                    if revision.replace(seen) != Some(seen) {
                        break;
                    }
                }
            }
        }
    }
}
