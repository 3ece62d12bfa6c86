//! The notifications that wait to be sent by one sender: each once, and bounded.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::wake::WakeNotification;

/// The most notifications that wait. More (some twenty messages) become one `Poll`.
pub(super) const CAPACITY: usize = 4096;

#[derive(Default)]
pub(super) struct Outbox {
    waiting: Mutex<HashSet<WakeNotification>>,
    filled: Notify,
}

impl Outbox {
    /// Adds notifications, except those that wait already.
    pub(super) fn add(&self, notifications: impl IntoIterator<Item = WakeNotification>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend(notifications);
        if waiting.len() > CAPACITY {
            waiting.clear();
            waiting.insert(WakeNotification::Poll);
        }
        if !waiting.is_empty() {
            self.filled.notify_one();
        }
    }

    /// Waits until there is something, and takes all of it. One caller. Cancellation safe.
    pub(super) async fn take(&self) -> Vec<WakeNotification> {
        loop {
            let taken: Vec<WakeNotification> = {
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
    async fn a_waiting_notification_is_not_added_again() {
        let outbox = Outbox::default();
        let done = || WakeNotification::WorkDone(WorkId(1));
        outbox.add([done(), done()]);
        outbox.add([done()]);
        assert_eq!(outbox.take().await, [done()]);
        let nothing = tokio::time::timeout(std::time::Duration::from_millis(1), outbox.take());
        assert!(nothing.await.is_err());
    }

    #[tokio::test]
    async fn too_many_notifications_become_a_poll() {
        let outbox = Outbox::default();
        let notification = |n: usize| WakeNotification::WorkReady(InstanceId::new(n.to_string()));
        outbox.add((0..CAPACITY).map(notification));
        assert_eq!(outbox.take().await.len(), CAPACITY);
        outbox.add((0..=CAPACITY).map(notification));
        assert_eq!(outbox.take().await, [WakeNotification::Poll]);
    }
}
