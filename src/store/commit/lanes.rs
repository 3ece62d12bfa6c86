//! Bursts on their way to the writer: a bounded queue that two lanes take from.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

/// With so many waiting while the other lane is busy, a lane has a batch that is worth its while. With fewer there would only
/// be two small batches instead of one, and each costs the server as much to begin as five bursts to write. (Measured with
/// two steps of 64 clients: 20 did a tenth more than 32, which let processors idle, and 12 took a tenth more of them.)
pub(super) const SECOND_LANE_MIN: usize = 20;

/// What is in flight for longer than that is no reason to wait for its end: its connection may be dead.
const LONG: Duration = Duration::from_millis(25);

/// Which of the two takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    First,
    /// Only while the first is busy.
    Second,
}

/// Full: whoever has something to hand in waits, and with it its burst's lock and memory, which is the back-pressure.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    room: Semaphore,
    arrived: Notify,
    many: Notify,
    /// So many are worth a batch beside another one. None: there is no second lane.
    from: Option<usize>,
    /// [`LONG`].
    long: Duration,
}

struct State<T> {
    waiting: VecDeque<T>,
    closed: bool,
    /// Since when the lanes write what they have taken.
    first: Option<Instant>,
    second: Option<Instant>,
}

impl<T> State<T> {
    fn of(&mut self, lane: Lane) -> &mut Option<Instant> {
        match lane {
            Lane::First => &mut self.first,
            Lane::Second => &mut self.second,
        }
    }

    /// Whether a lane should begin with what waits, rather than let it grow until the other one is done.
    fn is_worth(&self, lane: Lane, from: Option<usize>, long: Duration) -> bool {
        let count = self.waiting.len();
        let beside = match lane {
            Lane::First => self.second,
            Lane::Second => self.first,
        };
        match beside {
            Some(since) => from.is_some_and(|from| count >= from || count > 0 && since.elapsed() > long),
            None => lane == Lane::First && count > 0,
        }
    }
}

impl<T> Queue<T> {
    pub(super) fn new(capacity: usize, from: Option<usize>) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                closed: false,
                first: None,
                second: None,
            }),
            room: Semaphore::new(capacity),
            arrived: Notify::new(),
            many: Notify::new(),
            from,
            long: LONG,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bell(&self, lane: Lane) -> &Notify {
        match lane {
            Lane::First => &self.arrived,
            Lane::Second => &self.many,
        }
    }

    /// Hands something in, once there is room. Dropped before, it was not. False: nobody takes anything any more.
    pub(super) async fn push(&self, item: T) -> bool {
        let Ok(permit) = self.room.acquire().await else {
            return false;
        };
        permit.forget();
        let call = {
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
            // With the first it begins to count how long something waits.
            (state.waiting.len() == 1 || state.is_worth(free, self.from, self.long)).then_some(free)
        };
        if let Some(lane) = call {
            self.bell(lane).notify_one();
        }
        true
    }

    /// What waits, at most `most`; the lane counts as busy until [`Self::written`].
    pub(super) fn take_ready(&self, lane: Lane, most: usize) -> Vec<T> {
        let (taken, leaves): (Vec<T>, bool) = {
            let mut state = self.state();
            let count = most.min(state.waiting.len());
            if count > 0 {
                *state.of(lane) = Some(Instant::now());
            }
            (state.waiting.drain(..count).collect(), !state.waiting.is_empty())
        };
        self.room.add_permits(taken.len());
        if leaves && lane == Lane::First {
            // What came while the first was idle has called nobody else.
            self.many.notify_one();
        }
        taken
    }

    /// A lane begins with a batch of what it has taken: how long that takes counts from now on.
    pub(super) fn begins(&self, lane: Lane) {
        *self.state().of(lane) = Some(Instant::now());
    }

    /// A lane has written all that it took.
    pub(super) fn written(&self, lane: Lane) {
        *self.state().of(lane) = None;
        if lane == Lane::Second {
            self.arrived.notify_one();
        }
    }

    /// Waits until it is the lane's lane to take something; false once the queue is closed, whose rest is for the first lane.
    /// Cancellation safe.
    pub(super) async fn is_due(&self, lane: Lane) -> bool {
        loop {
            let waits = {
                let state = self.state();
                if state.closed {
                    return false;
                }
                if state.is_worth(lane, self.from, self.long) {
                    return true;
                }
                !state.waiting.is_empty() && self.from.is_some()
            };
            let rung = self.bell(lane).notified();
            if waits {
                let _ = tokio::time::timeout(self.long, rung).await;
            } else {
                rung.await;
            }
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

/// AbandonOnDrop the queue when the first lane ends, however it does: nobody must wait for an answer that nobody will give.
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

    /// With patience for a batch that outlasts the test.
    async fn filled(count: usize) -> Queue<usize> {
        let queue = Queue {
            long: Duration::from_secs(600),
            ..Queue::new(SECOND_LANE_MIN * 4, Some(SECOND_LANE_MIN))
        };
        for n in 0..count {
            assert!(queue.push(n).await);
        }
        queue
    }

    #[tokio::test]
    async fn the_first_lane_takes_what_there_is_and_the_second_much_beside_it() {
        let queue = filled(1).await;
        assert_eq!(soon(queue.is_due(Lane::Second)).await, None, "nobody writes yet");
        assert_eq!(soon(queue.is_due(Lane::First)).await, Some(true));
        assert_eq!(queue.take_ready(Lane::First, usize::MAX), [0]);
        for n in 1..SECOND_LANE_MIN {
            assert!(queue.push(n).await);
        }
        assert_eq!(soon(queue.is_due(Lane::Second)).await, None);
        assert!(queue.push(SECOND_LANE_MIN).await);
        assert_eq!(soon(queue.is_due(Lane::Second)).await, Some(true));
        assert_eq!(queue.take_ready(Lane::Second, 2), [1, 2]);
        queue.written(Lane::First);
        assert_eq!(
            soon(queue.is_due(Lane::First)).await,
            None,
            "it grows until the second is done"
        );
        queue.written(Lane::Second);
        assert_eq!(soon(queue.is_due(Lane::First)).await, Some(true));
        assert_eq!(queue.take_ready(Lane::First, usize::MAX).len(), SECOND_LANE_MIN - 2);
        assert_eq!(soon(queue.is_due(Lane::First)).await, None);
    }

    #[tokio::test]
    async fn what_the_first_lane_leaves_calls_the_second() {
        let queue = filled(SECOND_LANE_MIN + 1).await;
        assert_eq!(soon(queue.many.notified()).await, None, "the first one is free");
        assert_eq!(queue.take_ready(Lane::First, 1), [0]);
        assert_eq!(soon(queue.many.notified()).await, Some(()));
        assert_eq!(soon(queue.is_due(Lane::Second)).await, Some(true));
    }

    #[tokio::test]
    async fn nobody_waits_long_for_a_batch_that_does_not_come_to_its_end() {
        for (stuck, free) in [(Lane::First, Lane::Second), (Lane::Second, Lane::First)] {
            let mut queue = filled(1).await;
            assert_eq!(queue.take_ready(stuck, 1), [0]);
            assert!(queue.push(1).await);
            assert_eq!(soon(queue.is_due(free)).await, None);
            queue.long = Duration::from_millis(1);
            assert!(queue.is_due(free).await);
            // The next batch is another one.
            queue.long = Duration::from_secs(600);
            let before = *queue.state().of(stuck);
            while Some(Instant::now()) <= before {}
            queue.begins(stuck);
            assert!(*queue.state().of(stuck) > before);
        }
        let alone = Queue {
            long: Duration::from_millis(1),
            ..Queue::new(2, None)
        };
        assert!(alone.push(0).await);
        assert_eq!(alone.take_ready(Lane::First, 1), [0]);
        assert!(alone.push(1).await);
        let waited = tokio::time::timeout(Duration::from_millis(20), alone.is_due(Lane::Second)).await;
        assert!(waited.is_err(), "there is no second lane");
    }

    #[tokio::test]
    async fn what_nobody_takes_is_dropped_and_refused() {
        let queue = Arc::new(Queue::new(1, None));
        let item = Arc::new(());
        assert!(queue.push(Arc::clone(&item)).await);
        let waits = tokio::spawn({
            let (queue, item) = (Arc::clone(&queue), Arc::clone(&item));
            async move { queue.push(item).await }
        });
        tokio::task::yield_now().await;
        drop(AbandonOnDrop(Arc::clone(&queue)));
        assert!(!waits.await.unwrap(), "whoever waits for room is told");
        assert!(!queue.push(Arc::clone(&item)).await);
        assert_eq!(Arc::strong_count(&item), 1, "what waited is dropped");
    }

    #[tokio::test]
    async fn a_full_queue_makes_wait_and_a_closed_one_is_emptied() {
        let queue = Arc::new(Queue::new(1, Some(SECOND_LANE_MIN)));
        assert!(queue.push(1).await);
        assert_eq!(soon(queue.push(2)).await, None, "it was not handed in");
        assert_eq!(queue.take_ready(Lane::First, 9), [1]);
        queue.written(Lane::First);
        assert!(queue.push(3).await);
        drop(CloseOnDrop(Arc::clone(&queue)));
        assert!(!queue.is_due(Lane::Second).await && !queue.is_due(Lane::First).await);
        assert_eq!(queue.take_ready(Lane::First, 9), [3]);
        assert!(queue.take_ready(Lane::First, 9).is_empty());
    }
}
