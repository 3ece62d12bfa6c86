//! Wake notifications between the engines of one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;

use crate::db::SUBSCRIBER_QUEUE;
use crate::id;
use crate::wake::{Message, WakeNotification, WakeSubscription, WakeTransport};

/// Connects the engines of one process, each of which is a [`member`](Self::member). Clones share their members.
#[derive(Clone)]
pub struct LocalWake {
    sender: broadcast::Sender<Message>,
    /// The number of the next member; 0 stands for another process.
    next: Arc<AtomicU64>,
}

/// One member.
struct Member {
    sender: broadcast::Sender<Message>,
    own: u64,
}

impl Default for LocalWake {
    fn default() -> Self {
        Self {
            sender: broadcast::channel(SUBSCRIBER_QUEUE).0,
            next: Arc::new(AtomicU64::new(1)),
        }
    }
}

impl LocalWake {
    /// A new member, which receives what all others send.
    pub fn member(&self) -> impl WakeTransport + use<> {
        Member {
            sender: self.sender.clone(),
            own: self.next.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl WakeTransport for Member {
    fn notify(&self, notifications: Vec<WakeNotification>) {
        // Fails without subscribers.
        let _ = self.sender.send((self.own, Arc::from(notifications)));
    }

    fn domain(&self) -> Option<String> {
        Some(format!("local {}", id::this_process()))
    }

    fn subscribe(&self) -> WakeSubscription {
        WakeSubscription::of_queue(self.sender.subscribe(), self.own)
    }
}
