//! What nodes tell each other.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::id::{InstanceId, WorkId};

/// A hint of another node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Work may wait: look for yourself.
    Look,
    /// A schedule may be due sooner: look for yourself.
    Schedules,
    /// Work waits for this instance.
    Waits(InstanceId),
    /// A door of the sender waits for the end of this row of work: whoever consumes it may say [`Hint::Done`].
    Awaited(WorkId),
    /// This row of work was consumed.
    Done(WorkId),
    /// This instance was cancelled or deleted: a burst that runs it has lost.
    Lost(InstanceId),
    /// An instance has ended that kept others of its schedule from starting: an occurrence may wait for that.
    Freed,
}

/// What came in one message, and who sent it; 0 is nobody of ours.
pub(super) type Batch = (u64, Arc<[Hint]>);

/// Hints as they come in.
pub struct Hints {
    receiver: broadcast::Receiver<Batch>,
    own: u64,
}

impl Hints {
    /// Hears all but what `own` sends.
    pub(super) fn new(receiver: broadcast::Receiver<Batch>, own: u64) -> Self {
        Self { receiver, own }
    }

    /// The hints that came next; none when the transport has ended. Whoever is too slow for its queue hears
    /// [`Hint::Look`] in place of what was dropped. Cancellation safe.
    pub async fn recv(&mut self) -> Option<Arc<[Hint]>> {
        loop {
            match self.receiver.recv().await {
                Ok((sender, _)) if sender == self.own => {}
                Ok((_, hints)) => return Some(hints),
                Err(broadcast::error::RecvError::Lagged(_)) => return Some(Arc::from([Hint::Look])),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
