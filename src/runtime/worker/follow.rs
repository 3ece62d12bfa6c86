//! Follows what other nodes need or report (pauses of the cluster, observed instances, freed locks, and the keys of links) until
//! the incarnation stops.

use futures_util::StreamExt;
use tokio::time::MissedTickBehavior;

use crate::id::InstanceKey;
use crate::runtime::context::locks::instances_of;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::observed::ANNOUNCE_INTERVAL;
use crate::runtime::context::token_keys::REFRESH_INTERVAL;
use crate::store::{instance, pause as store};
use crate::wake::WakeNotification;

/// Notes pauses and resumes of the cluster: by check-in, and sooner by the notification of the node that made them.
pub(crate) async fn pause(node: &NodeContext) {
    let mut reports = node.lifecycle.reports.clone();
    loop {
        // All are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = node.pause.outdated() => {
                match store::read(&node.database.pool).await {
                    Ok(row) => node.pause_known(row.pause),
                    Err(error) => tracing::debug!(%error, "the pause cannot be read; the next check-in reports it"),
                }
            }
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                let pause = reports.borrow_and_update().check_in.pause;
                node.pause_known(pause);
            }
        }
    }
}

/// Polls for instances whose locks other nodes release, as far as the lock provider notifies of it.
pub(crate) async fn freed_locks(node: &NodeContext) {
    let mut freed = node.locks.instances.freed();
    loop {
        // Both are cancellation safe.
        let name = tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            name = freed.next() => name,
        };
        // A provider that notifies no more is tried again in time, as one that never did.
        let Some(name) = name else { return };
        let in_flight = &node.claims.in_flight;
        if instances_of(&name).filter(|key| in_flight.show(key)).count() > 0 {
            node.claims.wake_timer.wake_now();
        }
    }
}

/// Reads the keys of links before one that another node has added signs.
pub(crate) async fn token_keys(node: &NodeContext) {
    let mut failures = 0_u32;
    loop {
        match node.token_keys.refresh(&node.database.pool).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures = failures.saturating_add(1);
                match failures {
                    1 => tracing::debug!(%error, "the keys of links cannot be read; those that are known stay in use"),
                    _ => {
                        tracing::warn!(%error, failures, "the keys of links cannot be read; soon this node signs none")
                    }
                }
            }
        }
        // Both are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = tokio::time::sleep(REFRESH_INTERVAL.mul_f64(rand::random_range(0.8..1.2))) => {}
        }
    }
}

/// Announces what is observed at this node, and reads the versions of that after each check-in.
pub(crate) async fn observed(node: &NodeContext) {
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
                let keys = observed.here();
                if keys.is_empty() {
                    continue;
                }
                match instance::versions(node.database.reads.by_key(), &keys).await {
                    Ok(versions) => observed.compare(&keys, &versions),
                    Err(error) => tracing::debug!(%error, "the versions of observed instances cannot be read"),
                }
            }
        }
    }
}

fn send(node: &NodeContext, keys: Vec<InstanceKey>) {
    if !keys.is_empty() {
        let observed = |(tenant, id)| WakeNotification::InstanceObserved(tenant, id);
        node.notifications.wake.notify(keys.into_iter().map(observed));
    }
}
