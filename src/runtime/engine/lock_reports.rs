//! What a node tells of its locks when an operator looks, at whichever node.
//!
//! Who looks asks over NOTIFY; each node writes down what its process knows (names, for how long, who stands in line),
//! and whoever asked reads it. Nobody looks: nothing is written. Questions that come while one is answered are answered
//! together, so the cost is bounded however many look.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;

use crate::db::{Channel, Notification};
use crate::id::InstanceId;
use crate::lock::{HeldLock, KeyView, LockKey, LockMode};
use crate::runtime::context::node_context::NodeContext;
use crate::store::lock::report::{self as store_report, LockReport};

/// A node that is asked by many answers once in this time.
const TOGETHER: Duration = Duration::from_millis(5);

/// The most keys that a node tells of: those longest waited for. A node holds a thousand or so (its part of the server's
/// table), and one may wait for any number.
const MOST: usize = 5_000;

/// Answers until the node stops.
pub(crate) async fn answer(node: Arc<NodeContext>) {
    let channel = node.notifications.notifier.name(Channel::LockReports).to_owned();
    let mut heard = node.notifications.notifier.subscribe();
    loop {
        // Both are cancellation safe.
        let notice = tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            notice = heard.recv() => notice,
        };
        match notice {
            Ok(Notification::Received { channel: on, .. }) if *on == *channel => {}
            // Whoever asks does not wait for long, so what was missed is not made up for.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => continue,
            Err(broadcast::error::RecvError::Closed) => {
                // The owner of the connection ends this node.
                node.lifecycle.stop.cancelled().await;
                return;
            }
        }
        tokio::time::sleep(TOGETHER).await;
        // All that was asked so far is answered by this.
        heard = heard.resubscribe();
        let view = node.locks.session.view();
        let seen: HashSet<i64> = view.iter().map(|of| of.key.0).collect();
        // In whose way another session stands: no node has it, perhaps.
        let missed = node
            .locked_elsewhere()
            .into_iter()
            .filter(|(key, _)| !seen.contains(&key.0));
        let missed = missed.map(of_missed).collect::<Vec<_>>();
        let session = view.into_iter().map(of_session).chain(missed);
        let brought = node.locks.instances.held_by_provider().into_iter().map(of_provider);
        let mut reports: Vec<LockReport> = session.chain(brought).collect();
        reports.sort_by_key(|report| std::cmp::Reverse((report.waiters, report.held_ms)));
        reports.truncate(MOST);
        if let Err(error) = store_report::write_report(&node.database.pool, node.database.incarnation, &reports).await {
            tracing::debug!(%error, "locks could not be reported");
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn of_provider(lock: HeldLock) -> LockReport {
    LockReport {
        key: None,
        shared: lock.mode == LockMode::Shared,
        name: Some(lock.name.to_string()),
        held_ms: Some(millis(lock.held_for)),
        held: true,
        waiters: u64::try_from(lock.waiters).unwrap_or(u64::MAX),
    }
}

/// ClaimLimit tries this lock again and again, and does not stand in line for it.
fn of_missed((key, instance): (LockKey, InstanceId)) -> LockReport {
    LockReport {
        key: Some(key.0),
        shared: false,
        name: Some(format!("instance:{instance}")),
        held_ms: None,
        held: false,
        waiters: 0,
    }
}

fn of_session(view: KeyView) -> LockReport {
    LockReport {
        key: Some(view.key.0),
        shared: false,
        name: view.name.map(|name| name.to_string()),
        held_ms: view.held_for.map(millis),
        held: view.held,
        waiters: u64::try_from(view.waiters).unwrap_or(u64::MAX),
    }
}
