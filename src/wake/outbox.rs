//! What waits to be sent: every hint once, bounded, for one flusher.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::hint::Hint;

/// The most hints that wait. More than these (some twenty messages) are not worth naming: all become one `Look`.
pub(super) const CAPACITY: usize = 4096;

#[derive(Default)]
pub(super) struct Outbox {
    waiting: Mutex<HashSet<Hint>>,
    filled: Notify,
}

impl Outbox {
    /// Adds hints; those that wait already are not added again.
    pub(super) fn add(&self, hints: impl IntoIterator<Item = Hint>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend(hints);
        if waiting.len() > CAPACITY {
            waiting.clear();
            waiting.insert(Hint::Look);
        }
        if !waiting.is_empty() {
            self.filled.notify_one();
        }
    }

    /// Waits until there is something, and takes all of it. One caller. Cancellation safe.
    pub(super) async fn take(&self) -> Vec<Hint> {
        loop {
            let taken: Vec<Hint> = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.drain().collect()
            };
            if !taken.is_empty() {
                return taken;
            }
            self.filled.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{InstanceId, WorkId};

    #[tokio::test]
    async fn a_hint_that_waits_is_not_added_again() {
        let outbox = Outbox::default();
        outbox.add([Hint::Done(WorkId(1)), Hint::Done(WorkId(1))]);
        outbox.add([Hint::Done(WorkId(1))]);
        assert_eq!(outbox.take().await, [Hint::Done(WorkId(1))]);
        let nothing = tokio::time::timeout(std::time::Duration::from_millis(1), outbox.take());
        assert!(nothing.await.is_err());
    }

    #[tokio::test]
    async fn what_is_too_much_to_name_becomes_a_look() {
        let outbox = Outbox::default();
        let hint = |n: usize| Hint::Waits(InstanceId::new(n.to_string()));
        outbox.add((0..CAPACITY).map(hint));
        assert_eq!(outbox.take().await.len(), CAPACITY);
        outbox.add((0..=CAPACITY).map(hint));
        assert_eq!(outbox.take().await, [Hint::Look]);
    }
}
