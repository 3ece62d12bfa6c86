//! Doors that wait for what becomes of a row of work.
//!
//! A door is told by the burst that consumed its row, if that ran on this node. If another node ran it, that node may
//! say so; in any case the door finds the row gone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::Error;
use crate::execution::{InstanceState, InstanceTimestamps};
use crate::id::{InstanceId, WorkId};

/// What a door is told.
#[derive(Clone)]
pub(crate) enum Tidings {
    /// The burst that consumed the row is committed.
    Committed {
        state: Box<InstanceState>,
        meta: InstanceTimestamps,
        /// Whether the row met what it was meant for.
        matched: bool,
    },
    /// Another node says that it has consumed the row: the door looks for itself.
    Elsewhere,
    /// The row met nothing, and was deleted.
    Unmet,
    /// Nothing knows the instance.
    NoInstance,
    /// Nobody can say what became of the row.
    Unknown,
}

/// Who waits for which row, on this node. Bounded by the doors that are open.
#[derive(Default)]
pub(crate) struct Doors {
    waiting: Mutex<HashMap<WorkId, Waiting>>,
}

/// A crash of the server may take a row that was not flushed, and give its number to a row of another instance.
struct Waiting {
    instance: InstanceId,
    door: oneshot::Sender<Tidings>,
}

impl Doors {
    /// Waits for tidings of a row of an instance. Dropping the receiver forgets it when tidings come.
    pub(crate) fn open(&self, instance: &InstanceId, work: WorkId) -> oneshot::Receiver<Tidings> {
        let (door, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.retain(|_, waiting| !waiting.door.is_closed());
        let instance = instance.clone();
        waiting.insert(work, Waiting { instance, door });
        receiver
    }

    /// Who waits for this row of this instance; they are told by whoever asks.
    pub(crate) fn take(&self, instance: &InstanceId, work: WorkId) -> Option<oneshot::Sender<Tidings>> {
        let mut waiting = self.waiting();
        waiting.get(&work).filter(|waiting| waiting.instance == *instance)?;
        waiting.remove(&work).map(|waiting| waiting.door)
    }

    /// Sends whoever waits for the row of this number to look for themselves.
    pub(crate) fn look(&self, work: WorkId) {
        let waiting = self.waiting().remove(&work);
        if let Some(Waiting { door, .. }) = waiting {
            let _ = door.send(Tidings::Elsewhere);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<WorkId, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a door whose outcome nobody knows.
pub(crate) fn unknown(instance: &str) -> Error {
    Error::unknown_outcome("the database went away while the workflow was committed; look the instance up")
        .instance(instance)
}

/// The error of a door whose start left no trace.
pub(crate) fn lost(instance: &InstanceId) -> Error {
    Error::unknown_outcome(
        "nothing shows what became of the start: it was deleted, or the database crashed before it was flushed; look the \
         instance up before trying again",
    )
    .instance(instance.as_str())
}

/// The error of a door whose row became a dead letter.
pub(crate) fn given_up(instance: &InstanceId) -> Error {
    Error::dead_lettered(
        "it failed too often, or killed too many processes, and became a dead letter: look at the dead letters of the \
         instance; replaying one tries it again",
    )
    .instance(instance.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_number_that_is_given_out_again_answers_no_door_of_another_instance() {
        let doors = Doors::default();
        let (first, second) = (InstanceId::new("first"), InstanceId::new("second"));
        let mut waits = doors.open(&first, WorkId(7));
        assert!(doors.take(&second, WorkId(7)).is_none());
        assert!(waits.try_recv().is_err(), "it still waits");
        assert!(doors.take(&first, WorkId(7)).is_some());
        let waits = doors.open(&first, WorkId(8));
        doors.look(WorkId(8));
        assert!(matches!(waits.await, Ok(Tidings::Elsewhere)));
    }
}
