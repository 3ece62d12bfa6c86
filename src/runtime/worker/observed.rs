//! Announces what is observed at this node, and reads the versions of that after each check-in.

use std::collections::HashMap;

use tokio::time::MissedTickBehavior;

use crate::Result;
use crate::id::{InstanceId, TenantId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::observed::ANNOUNCE_INTERVAL;
use crate::store::instance;
use crate::wake::WakeNotification;

/// Announces and reads, until the incarnation stops.
pub(crate) async fn follow(node: &NodeContext) {
    let observed = &node.observed;
    let mut reports = node.lifecycle.reports.clone();
    let mut announce = tokio::time::interval(ANNOUNCE_INTERVAL);
    announce.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // All are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = observed.added() => send(node, observed.unannounced()),
            _ = announce.tick() => send(node, observed.here()),
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                reports.borrow_and_update();
                let ids = observed.here();
                if ids.is_empty() {
                    continue;
                }
                match versions(node, &ids).await {
                    Ok(versions) => observed.compare(&ids, &versions),
                    Err(error) => tracing::debug!(%error, "the versions of observed instances cannot be read"),
                }
            }
        }
    }
}

fn send(node: &NodeContext, ids: Vec<InstanceId>) {
    if !ids.is_empty() {
        let notifications = ids.into_iter().map(WakeNotification::InstanceObserved);
        node.notifications.wake.notify(notifications);
    }
}

async fn versions(node: &NodeContext, ids: &[InstanceId]) -> Result<HashMap<InstanceId, i64>> {
    instance::versions(node.database.reads.by_key(), &TenantId::default(), ids).await
}
