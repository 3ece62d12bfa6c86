//! Invalidates cached definitions when other nodes change them.

use std::sync::Arc;

use crate::log::bounded_info;
use crate::runtime::context::node_context::NodeContext;
use crate::signal::{CacheNotification, CacheSubscription};

/// Evicts what other nodes change, until the incarnation stops.
pub(super) async fn receive(node: Arc<NodeContext>, mut notifications: CacheSubscription) {
    let definitions = &node.caches.definitions;
    let mut reports = node.lifecycle.reports.clone();
    loop {
        // All three are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            notification = notifications.recv() => {
                let Some(notification) = notification else { return };
                definitions.invalidate(&notification);
                #[cfg(feature = "http")]
                node.caches.routes.invalidate(&notification);
                node.schedules.timer.wake_now();
                match notification {
                    CacheNotification::Changed(change) => bounded_info!(
                        definition = %change.definition,
                        revision = change.revision,
                        "Received cache invalidation event for workflow definition {}",
                        change.definition
                    ),
                    CacheNotification::Invalidate => {
                        tracing::info!("cache invalidation events may have been missed; the cache is empty");
                    }
                }
            }
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                let revision = reports.borrow_and_update().check_in.revision;
                #[cfg(feature = "http")]
                node.caches.routes.verify(revision);
                if definitions.verify(revision) {
                    tracing::debug!(revision, "a check-in has a revision without a notification; the cache is empty");
                }
            }
        }
    }
}
