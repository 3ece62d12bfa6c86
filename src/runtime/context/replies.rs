//! Callers of this node that wait for the result of a row of work.
//!
//! A burst of this node that consumes the row sends the reply. A burst of another node may notify this one; in any case
//! the caller reads the row from time to time and finds it consumed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::execution::{InstanceState, InstanceTimestamps};
use crate::id::{InstanceId, WorkId};

/// What became of a row of work, for the caller that waits for it.
#[derive(Clone)]
pub(crate) enum Reply {
    /// The burst that consumed the row is committed.
    Committed {
        state: Box<InstanceState>,
        timestamps: InstanceTimestamps,
        /// Whether the row met what it was meant for.
        matched: bool,
    },
    /// Another node has consumed the row: the caller reads the row.
    Elsewhere,
    /// The row met nothing, and was deleted.
    Unmatched,
    /// There is no such instance.
    NoInstance,
    /// The outcome of the commit is unknown.
    Unknown,
}

/// A reply that a caller waits for.
pub(crate) struct PendingReply {
    pub(crate) instance: InstanceId,
    pub(crate) work: WorkId,
    pub(crate) receiver: oneshot::Receiver<Reply>,
}

impl PendingReply {
    /// For a row for which another caller is registered: this one reads the row at once.
    pub(crate) fn elsewhere(instance: &InstanceId, work: WorkId) -> Self {
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(Reply::Elsewhere);
        Self {
            instance: instance.clone(),
            work,
            receiver,
        }
    }
}

/// The callers of this node by the row that each waits for. Bounded by the requests that are open.
#[derive(Default)]
pub(crate) struct ReplyRegistry {
    callers: Mutex<HashMap<WorkId, Caller>>,
}

/// With its instance: a crash of the server may lose a row that was not flushed, and give its number to another row.
struct Caller {
    instance: InstanceId,
    sender: oneshot::Sender<Reply>,
}

impl ReplyRegistry {
    /// Registers a caller for a row of an instance. Dropping the pending reply unregisters it later.
    pub(crate) fn register(&self, instance: &InstanceId, work: WorkId) -> PendingReply {
        let (sender, receiver) = oneshot::channel();
        let mut callers = self.callers();
        callers.retain(|_, caller| !caller.sender.is_closed());
        let caller = Caller {
            instance: instance.clone(),
            sender,
        };
        callers.insert(work, caller);
        PendingReply {
            instance: instance.clone(),
            work,
            receiver,
        }
    }

    /// Removes the caller of this row of this instance, for a reply to it.
    pub(crate) fn take(&self, instance: &InstanceId, work: WorkId) -> Option<oneshot::Sender<Reply>> {
        let mut callers = self.callers();
        callers.get(&work).filter(|caller| caller.instance == *instance)?;
        callers.remove(&work).map(|caller| caller.sender)
    }

    /// Another node has consumed the row of this number: its caller reads the row.
    pub(crate) fn reply_elsewhere(&self, work: WorkId) {
        let caller = self.callers().remove(&work);
        if let Some(Caller { sender, .. }) = caller {
            let _ = sender.send(Reply::Elsewhere);
        }
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<WorkId, Caller>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reused_row_number_replies_to_no_caller_of_another_instance() {
        let replies = ReplyRegistry::default();
        let (first, second) = (InstanceId::new("first"), InstanceId::new("second"));
        let mut pending = replies.register(&first, WorkId(7));
        assert!(replies.take(&second, WorkId(7)).is_none());
        assert!(pending.receiver.try_recv().is_err(), "it still waits");
        assert!(replies.take(&first, WorkId(7)).is_some());
        let pending = replies.register(&first, WorkId(8));
        replies.reply_elsewhere(WorkId(8));
        assert!(matches!(pending.receiver.await, Ok(Reply::Elsewhere)));
    }
}
