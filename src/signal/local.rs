//! Signals between engines of one process.

use tokio::sync::broadcast;

use super::{CacheSignal, Change, Heard, Signals};

/// Signals that a slow reader may be behind before it hears `Unsure` instead.
const KEPT: usize = 256;

/// Where the engines of a process meet: clones of one are members of one cluster.
#[derive(Clone)]
pub struct LocalSignal(broadcast::Sender<Heard>);

impl Default for LocalSignal {
    fn default() -> Self {
        Self(broadcast::channel(KEPT).0)
    }
}

impl CacheSignal for LocalSignal {
    fn announce(&self, change: Change) {
        // Nobody may be listening.
        let _ = self.0.send(Heard::Changed(change));
    }

    fn listen(&self) -> Signals {
        Signals::new(self.0.subscribe())
    }
}
