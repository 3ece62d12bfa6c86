//! Cache notifications between the engines of one process.

use tokio::sync::broadcast;

use crate::db::SUBSCRIBER_QUEUE;
use crate::id;
use crate::signal::{CacheNotification, CacheSignal, CacheSubscription, DefinitionChange};

/// Connects the engines of one process: clones of one value are members of one cluster.
#[derive(Clone)]
pub struct LocalSignal(broadcast::Sender<CacheNotification>);

impl Default for LocalSignal {
    fn default() -> Self {
        Self(broadcast::channel(SUBSCRIBER_QUEUE).0)
    }
}

impl CacheSignal for LocalSignal {
    fn notify(&self, change: DefinitionChange) {
        // Fails without subscribers.
        let _ = self.0.send(CacheNotification::Changed(change));
    }

    fn domain(&self) -> Option<String> {
        Some(format!("local {}", id::this_process()))
    }

    fn subscribe(&self) -> CacheSubscription {
        CacheSubscription::of_queue(self.0.subscribe())
    }
}
