//! Reports the locks of this node when an operator asks any node for the locks of the cluster.
//!
//! The asking node sends a request over NOTIFY; each node writes a report of what its process knows (names, how long each
//! lock is held, waiters), which the asking node reads. Without a request nothing is written. Requests that arrive during a
//! report are answered together, so the cost is bounded.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;

use crate::db::{Channel, Notification};
use crate::id::InstanceId;
use crate::lock::{HeldLock, KeyView, LockKey, LockMode};
use crate::runtime::context::node_context::NodeContext;
use crate::store::lock::report::{self as store_report, LockReport};

/// Requests within this time are answered together.
const BATCH_TIME: Duration = Duration::from_millis(5);

/// The most keys in a report: those with the most waiters. A node holds about a thousand (its part of the server's lock
/// table), and may wait for any number.
const MOST: usize = 5_000;

/// Writes reports on request until the incarnation stops.
pub(super) async fn answer(node: Arc<NodeContext>) {
    let channel = node.notifications.notifier.name(Channel::LockReports).to_owned();
    let mut received = node.notifications.notifier.subscribe();
    loop {
        // Both are cancellation safe.
        let notification = tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            notification = received.recv() => notification,
        };
        match notification {
            Ok(Notification::Received { channel: on, .. }) if *on == *channel => {}
            // The asking node does not wait long, so a missed request is not made up for.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => continue,
            Err(broadcast::error::RecvError::Closed) => {
                // The owner of the connection ends this incarnation.
                node.lifecycle.stop.cancelled().await;
                return;
            }
        }
        tokio::time::sleep(BATCH_TIME).await;
        // This report answers all requests so far.
        received = received.resubscribe();
        let view = node.locks.session.view();
        let seen: HashSet<i64> = view.iter().map(|of| of.key.0).collect();
        // Locks that another session holds, which may be no node's.
        let elsewhere = node
            .locked_elsewhere()
            .into_iter()
            .filter(|(key, _)| !seen.contains(&key.0));
        let elsewhere = elsewhere.map(of_elsewhere).collect::<Vec<_>>();
        let session = view.into_iter().map(of_session).chain(elsewhere);
        let provided = node.locks.instances.held_by_provider().into_iter().map(of_provider);
        let mut reports: Vec<LockReport> = session.chain(provided).collect();
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

/// The poller tries this lock again and again, and does not wait for it.
fn of_elsewhere((key, instance): (LockKey, InstanceId)) -> LockReport {
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
