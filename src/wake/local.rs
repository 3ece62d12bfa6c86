//! Hints between engines of one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;

use super::WakeTransport;
use super::hint::{Batch, Hint, Hints};

/// Messages that a slow reader may be behind before it hears `Look` instead.
const KEPT: usize = 256;

/// Where the members of a process meet.
#[derive(Clone)]
pub struct LocalHub {
    sender: broadcast::Sender<Batch>,
    members: Arc<AtomicU64>,
}

/// One member.
struct Member {
    sender: broadcast::Sender<Batch>,
    own: u64,
}

impl Default for LocalHub {
    fn default() -> Self {
        Self {
            sender: broadcast::channel(KEPT).0,
            members: Arc::new(AtomicU64::new(1)),
        }
    }
}

impl LocalHub {
    /// A new member, which hears all others.
    pub fn member(&self) -> impl WakeTransport + use<> {
        Member {
            sender: self.sender.clone(),
            own: self.members.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl WakeTransport for Member {
    fn send(&self, hints: Vec<Hint>) {
        // Nobody may be listening.
        let _ = self.sender.send((self.own, Arc::from(hints)));
    }

    fn listen(&self) -> Hints {
        Hints::new(self.sender.subscribe(), self.own)
    }
}
