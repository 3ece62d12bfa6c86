//! The bounded queue of a commit writer, from which two lanes take.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

/// A lane starts a batch beside a busy one only for so many requests: to begin a batch costs the server as much as to write
/// five requests. Measured in docs/decisions.md.
pub(super) const SECOND_LANE_MIN: usize = 20;

/// A batch that is in flight for longer is no reason to wait: its connection may be lost.
const STALLED: Duration = Duration::from_millis(25);

/// Which of the two lanes takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    First,
    /// Takes only while the first is busy.
    Second,
}

/// While it is full, [`Self::push`] waits, and with it the lock and the memory of a burst: this is the back-pressure.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    slots: Semaphore,
    wake_first: Notify,
    wake_second: Notify,
    /// This many requests start a batch beside another one. `None` means no second lane.
    second_lane_min: Option<usize>,
    /// [`STALLED`].
    stalled: Duration,
}

struct State<T> {
    waiting: VecDeque<T>,
    closed: bool,
    /// Since when each lane writes a batch.
    first: Option<Instant>,
    second: Option<Instant>,
}

impl<T> State<T> {
    fn busy_since(&mut self, lane: Lane) -> &mut Option<Instant> {
        match lane {
            Lane::First => &mut self.first,
            Lane::Second => &mut self.second,
        }
    }

    /// Whether a lane should start a batch now rather than let it grow until the other lane is done.
    fn is_due(&self, lane: Lane, second_lane_min: Option<usize>, stalled: Duration) -> bool {
        let count = self.waiting.len();
        let other = match lane {
            Lane::First => self.second,
            Lane::Second => self.first,
        };
        match other {
            Some(since) => second_lane_min.is_some_and(|min| count >= min || count > 0 && since.elapsed() > stalled),
            None => lane == Lane::First && count > 0,
        }
    }
}

impl<T> Queue<T> {
    pub(super) fn new(capacity: usize, second_lane_min: Option<usize>) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                closed: false,
                first: None,
                second: None,
            }),
            slots: Semaphore::new(capacity),
            wake_first: Notify::new(),
            wake_second: Notify::new(),
            second_lane_min,
            stalled: STALLED,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_up(&self, lane: Lane) -> &Notify {
        match lane {
            Lane::First => &self.wake_first,
            Lane::Second => &self.wake_second,
        }
    }

    /// Adds an item once there is room; false if the queue is abandoned. Cancellation safe: dropped, it adds nothing.
    pub(super) async fn push(&self, item: T) -> bool {
        let Ok(permit) = self.slots.acquire().await else {
            return false;
        };
        permit.forget();
        let lane = {
            let mut state = self.state();
            if state.closed {
                return false;
            }
            state.waiting.push_back(item);
            let free = if state.first.is_none() {
                Lane::First
            } else {
                Lane::Second
            };
            // The first item starts the count of how long something waits.
            (state.waiting.len() == 1 || state.is_due(free, self.second_lane_min, self.stalled)).then_some(free)
        };
        if let Some(lane) = lane {
            self.wake_up(lane).notify_one();
        }
        true
    }

    /// Takes what waits, at most `max`; the lane counts as busy until [`Self::finish`].
    pub(super) fn take_ready(&self, lane: Lane, max: usize) -> Vec<T> {
        let (taken, leaves): (Vec<T>, bool) = {
            let mut state = self.state();
            let count = max.min(state.waiting.len());
            if count > 0 {
                *state.busy_since(lane) = Some(Instant::now());
            }
            (state.waiting.drain(..count).collect(), !state.waiting.is_empty())
        };
        self.slots.add_permits(taken.len());
        if leaves && lane == Lane::First {
            // What arrived while the first lane was idle has not woken the second.
            self.wake_second.notify_one();
        }
        taken
    }

    /// A lane begins a batch: its duration counts from now on.
    pub(super) fn begin(&self, lane: Lane) {
        *self.state().busy_since(lane) = Some(Instant::now());
    }

    /// A lane has written all that it took.
    pub(super) fn finish(&self, lane: Lane) {
        *self.state().busy_since(lane) = None;
        if lane == Lane::Second {
            self.wake_first.notify_one();
        }
    }

    /// Waits until the lane should take something; false once the queue is closed, whose rest is for the first lane.
    /// Cancellation safe.
    pub(super) async fn wait_for_turn(&self, lane: Lane) -> bool {
        loop {
            let waits = {
                let state = self.state();
                if state.closed {
                    return false;
                }
                if state.is_due(lane, self.second_lane_min, self.stalled) {
                    return true;
                }
                !state.waiting.is_empty() && self.second_lane_min.is_some()
            };
            let woken = self.wake_up(lane).notified();
            if waits {
                let _ = tokio::time::timeout(self.stalled, woken).await;
            } else {
                woken.await;
            }
        }
    }

    /// Refuses further items; what waits is still taken.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.wake_first.notify_one();
        self.wake_second.notify_one();
    }

    /// Drops what waits and refuses further items.
    fn abandon(&self) {
        self.close();
        self.slots.close();
        let waiting = std::mem::take(&mut self.state().waiting);
        drop(waiting);
    }
}

/// Abandons the queue when the first lane ends, in any way, so that no request waits for an answer that never comes.
pub(super) struct AbandonOnDrop<T>(pub(super) std::sync::Arc<Queue<T>>);

impl<T> Drop for AbandonOnDrop<T> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// CloseOnDrop the queue when the last handle of the writer is dropped.
pub(super) struct CloseOnDrop<T>(pub(super) std::sync::Arc<Queue<T>>);

impl<T> Drop for CloseOnDrop<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    async fn soon<F: Future>(future: F) -> Option<F::Output> {
        tokio::time::timeout(Duration::from_millis(1), future).await.ok()
    }

    /// A queue in which no batch counts as stalled.
    async fn filled(count: usize) -> Queue<usize> {
        let queue = Queue {
            stalled: Duration::from_secs(600),
            ..Queue::new(SECOND_LANE_MIN * 4, Some(SECOND_LANE_MIN))
        };
        for n in 0..count {
            assert!(queue.push(n).await);
        }
        queue
    }

    #[tokio::test]
    async fn the_first_lane_takes_anything_and_the_second_a_long_queue_beside_it() {
        let queue = filled(1).await;
        assert_eq!(
            soon(queue.wait_for_turn(Lane::Second)).await,
            None,
            "no lane writes yet"
        );
        assert_eq!(soon(queue.wait_for_turn(Lane::First)).await, Some(true));
        assert_eq!(queue.take_ready(Lane::First, usize::MAX), [0]);
        for n in 1..SECOND_LANE_MIN {
            assert!(queue.push(n).await);
        }
        assert_eq!(soon(queue.wait_for_turn(Lane::Second)).await, None);
        assert!(queue.push(SECOND_LANE_MIN).await);
        assert_eq!(soon(queue.wait_for_turn(Lane::Second)).await, Some(true));
        assert_eq!(queue.take_ready(Lane::Second, 2), [1, 2]);
        queue.finish(Lane::First);
        assert_eq!(
            soon(queue.wait_for_turn(Lane::First)).await,
            None,
            "it grows until the second is done"
        );
        queue.finish(Lane::Second);
        assert_eq!(soon(queue.wait_for_turn(Lane::First)).await, Some(true));
        assert_eq!(queue.take_ready(Lane::First, usize::MAX).len(), SECOND_LANE_MIN - 2);
        assert_eq!(soon(queue.wait_for_turn(Lane::First)).await, None);
    }

    #[tokio::test]
    async fn what_the_first_lane_leaves_wakes_the_second() {
        let queue = filled(SECOND_LANE_MIN + 1).await;
        assert_eq!(soon(queue.wake_second.notified()).await, None, "the first one is free");
        assert_eq!(queue.take_ready(Lane::First, 1), [0]);
        assert_eq!(soon(queue.wake_second.notified()).await, Some(()));
        assert_eq!(soon(queue.wait_for_turn(Lane::Second)).await, Some(true));
    }

    #[tokio::test]
    async fn a_stalled_batch_does_not_delay_the_other_lane() {
        for (stuck, free) in [(Lane::First, Lane::Second), (Lane::Second, Lane::First)] {
            let mut queue = filled(1).await;
            assert_eq!(queue.take_ready(stuck, 1), [0]);
            assert!(queue.push(1).await);
            assert_eq!(soon(queue.wait_for_turn(free)).await, None);
            queue.stalled = Duration::from_millis(1);
            assert!(queue.wait_for_turn(free).await);
            // The next batch is another one.
            queue.stalled = Duration::from_secs(600);
            let before = *queue.state().busy_since(stuck);
            while Some(Instant::now()) <= before {}
            queue.begin(stuck);
            assert!(*queue.state().busy_since(stuck) > before);
        }
        let alone = Queue {
            stalled: Duration::from_millis(1),
            ..Queue::new(2, None)
        };
        assert!(alone.push(0).await);
        assert_eq!(alone.take_ready(Lane::First, 1), [0]);
        assert!(alone.push(1).await);
        let waited = tokio::time::timeout(Duration::from_millis(20), alone.wait_for_turn(Lane::Second)).await;
        assert!(waited.is_err(), "there is no second lane");
    }

    #[tokio::test]
    async fn an_abandoned_queue_drops_and_refuses_items() {
        let queue = Arc::new(Queue::new(1, None));
        let item = Arc::new(());
        assert!(queue.push(Arc::clone(&item)).await);
        let waits = tokio::spawn({
            let (queue, item) = (Arc::clone(&queue), Arc::clone(&item));
            async move { queue.push(item).await }
        });
        tokio::task::yield_now().await;
        drop(AbandonOnDrop(Arc::clone(&queue)));
        assert!(!waits.await.unwrap(), "a sender that waits for room is refused");
        assert!(!queue.push(Arc::clone(&item)).await);
        assert_eq!(Arc::strong_count(&item), 1, "what waited is dropped");
    }

    #[tokio::test]
    async fn a_full_queue_makes_senders_wait_and_a_closed_one_is_emptied() {
        let queue = Arc::new(Queue::new(1, Some(SECOND_LANE_MIN)));
        assert!(queue.push(1).await);
        assert_eq!(soon(queue.push(2)).await, None, "it was not added");
        assert_eq!(queue.take_ready(Lane::First, 9), [1]);
        queue.finish(Lane::First);
        assert!(queue.push(3).await);
        drop(CloseOnDrop(Arc::clone(&queue)));
        assert!(!queue.wait_for_turn(Lane::Second).await && !queue.wait_for_turn(Lane::First).await);
        assert_eq!(queue.take_ready(Lane::First, 9), [3]);
        assert!(queue.take_ready(Lane::First, 9).is_empty());
    }
}
