//! Doors that wait for what becomes of a row of work.
//!
//! A door is told by the burst that consumed its row, if that ran on this node. If another node ran it, that node may
//! say so; in any case the door finds the row gone.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::Error;
use crate::execution::{InstanceState, StateMeta};
use crate::id::{InstanceId, WorkId};

/// What a door is told.
#[derive(Clone)]
pub(super) enum Tidings {
    /// The burst that consumed the row is committed.
    Committed {
        state: Box<InstanceState>,
        meta: StateMeta,
        /// Whether the row met what it was meant for.
        matched: bool,
    },
    /// Another node says that it has consumed the row: the door looks for itself.
    Elsewhere,
    /// Nothing knows the instance.
    NoInstance,
    /// Nobody can say what became of the row.
    Unknown,
}

/// Who waits for which row, on this node. Bounded by the doors that are open.
#[derive(Default)]
pub(super) struct Doors {
    waiting: Mutex<HashMap<WorkId, oneshot::Sender<Tidings>>>,
}

impl Doors {
    /// Waits for tidings of a row. Dropping the receiver forgets it when tidings come.
    pub(super) fn open(&self, work: WorkId) -> oneshot::Receiver<Tidings> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, door| !door.is_closed());
        waiting.insert(work, sender);
        receiver
    }

    /// Who waits for this row; they are told by whoever asks.
    pub(super) fn take(&self, work: WorkId) -> Option<oneshot::Sender<Tidings>> {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&work)
    }
}

/// The error of a door whose outcome nobody knows.
pub(super) fn unknown(instance: &str) -> Error {
    Error::unknown_outcome("the database went away while the workflow was committed; look the instance up")
        .instance(instance)
}

/// The error of a door whose row became a dead letter.
pub(super) fn given_up(instance: &InstanceId) -> Error {
    Error::given_up(
        "it failed too often, or killed too many processes, and became a dead letter: look at the dead letters of the \
         instance; replaying one tries it again",
    )
    .instance(instance.as_str())
}
