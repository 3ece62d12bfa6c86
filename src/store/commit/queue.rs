//! Bursts on their way to the writer: a bounded queue that two lanes take from.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};

/// With so many waiting while the first lane is busy, the second one has a batch that is worth its while. With fewer it would
/// only make two small batches of one, and each costs the server as much to begin as ten bursts to write.
pub(super) const MANY: usize = 24;

/// Full: whoever has something to hand in waits, and with it its burst's lock and memory, which is the back-pressure.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    room: Semaphore,
    arrived: Notify,
    many: Notify,
    /// From so many on the second lane helps.
    from: usize,
}

struct State<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new(capacity: usize, from: usize) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                closed: false,
            }),
            room: Semaphore::new(capacity),
            arrived: Notify::new(),
            many: Notify::new(),
            from,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands something in, once there is room. Dropped before, it was not. False: nobody takes anything any more.
    pub(super) async fn push(&self, item: T) -> bool {
        let Ok(permit) = self.room.acquire().await else {
            return false;
        };
        permit.forget();
        let count = {
            let mut state = self.state();
            if state.closed {
                return false;
            }
            state.waiting.push_back(item);
            state.waiting.len()
        };
        self.arrived.notify_one();
        if count >= self.from {
            self.many.notify_one();
        }
        true
    }

    /// What waits, at most `most`.
    pub(super) fn take_ready(&self, most: usize) -> Vec<T> {
        let taken: Vec<T> = {
            let mut state = self.state();
            let count = most.min(state.waiting.len());
            state.waiting.drain(..count).collect()
        };
        self.room.add_permits(taken.len());
        taken
    }

    /// Waits for something, for the first lane; nothing once the queue is closed and empty. Cancellation safe.
    pub(super) async fn take(&self, most: usize) -> Vec<T> {
        loop {
            let closed = self.state().closed;
            let taken = self.take_ready(most);
            if closed || !taken.is_empty() {
                return taken;
            }
            self.arrived.notified().await;
        }
    }

    /// Waits until the second lane is of use; false once the queue is closed, whose rest is for the first lane. Cancellation
    /// safe.
    pub(super) async fn is_long(&self) -> bool {
        loop {
            {
                let state = self.state();
                if state.closed {
                    return false;
                }
                if state.waiting.len() >= self.from {
                    return true;
                }
            }
            self.many.notified().await;
        }
    }

    /// Nobody hands in anything any more.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.arrived.notify_one();
        self.many.notify_one();
    }

    /// Nobody takes anything any more: what waits is dropped, and whoever hands in is refused.
    fn abandon(&self) {
        self.close();
        self.room.close();
        let waiting = std::mem::take(&mut self.state().waiting);
        drop(waiting);
    }
}

/// Abandons the queue when the first lane ends, however it does: nobody must wait for an answer that nobody will give.
pub(super) struct Abandons<T>(pub(super) std::sync::Arc<Queue<T>>);

impl<T> Drop for Abandons<T> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Closes the queue when the last handle of the writer is dropped.
pub(super) struct Closes<T>(pub(super) std::sync::Arc<Queue<T>>);

impl<T> Drop for Closes<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    async fn soon<F: Future>(future: F) -> Option<F::Output> {
        tokio::time::timeout(Duration::from_millis(1), future).await.ok()
    }

    #[tokio::test]
    async fn the_second_lane_is_called_when_many_wait() {
        let queue = Queue::new(MANY * 2, MANY);
        for n in 0..MANY - 1 {
            assert!(queue.push(n).await);
        }
        assert_eq!(soon(queue.is_long()).await, None);
        assert!(queue.push(MANY - 1).await);
        assert_eq!(soon(queue.is_long()).await, Some(true));
        assert_eq!(queue.take(2).await, [0, 1]);
        assert_eq!(soon(queue.is_long()).await, None);
        assert_eq!(queue.take_ready(usize::MAX).len(), MANY - 2);
        assert_eq!(soon(queue.take(1)).await, None);
    }

    #[tokio::test]
    async fn what_nobody_takes_is_dropped_and_refused() {
        let queue = Arc::new(Queue::new(1, MANY));
        let item = Arc::new(());
        assert!(queue.push(Arc::clone(&item)).await);
        let waits = tokio::spawn({
            let (queue, item) = (Arc::clone(&queue), Arc::clone(&item));
            async move { queue.push(item).await }
        });
        tokio::task::yield_now().await;
        drop(Abandons(Arc::clone(&queue)));
        assert!(!waits.await.unwrap(), "whoever waits for room is told");
        assert!(!queue.push(Arc::clone(&item)).await);
        assert_eq!(Arc::strong_count(&item), 1, "what waited is dropped");
    }

    #[tokio::test]
    async fn a_full_queue_makes_wait_and_a_closed_one_is_emptied() {
        let queue = Arc::new(Queue::new(1, MANY));
        assert!(queue.push(1).await);
        assert_eq!(soon(queue.push(2)).await, None, "it was not handed in");
        assert_eq!(queue.take(9).await, [1]);
        assert!(queue.push(3).await);
        drop(Closes(Arc::clone(&queue)));
        assert!(!queue.is_long().await);
        assert_eq!(queue.take(9).await, [3]);
        assert!(queue.take(9).await.is_empty());
    }
}
