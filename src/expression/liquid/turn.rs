//! Turns of the threads that render long templates: few run at once, each for a slice of time, in the order of asking.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::expression::yield_interval::YieldInterval;

/// How long a rendering runs before another one does.
const SLICE: Duration = Duration::from_millis(20);

/// How often a thread that waits checks whether its result is still awaited.
const RECHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The queue of the threads.
#[derive(Debug)]
pub(super) struct Turns {
    most: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    waiting: VecDeque<u64>,
    last_ticket: u64,
}

impl Turns {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            queue: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn. False: it was stopped.
    fn begin(&self, stop: &AtomicBool) -> bool {
        let mut queue = self.queue();
        queue.last_ticket += 1;
        let ticket = queue.last_ticket;
        queue.waiting.push_back(ticket);
        loop {
            if stop.load(Ordering::Relaxed) {
                queue.waiting.retain(|other| *other != ticket);
                self.changed.notify_all();
                return false;
            }
            if queue.running < self.most && queue.waiting.front() == Some(&ticket) {
                queue.waiting.pop_front();
                queue.running += 1;
                self.changed.notify_all();
                return true;
            }
            let waited = self.changed.wait_timeout(queue, RECHECK_INTERVAL);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn end(&self) {
        self.queue().running -= 1;
        self.changed.notify_all();
    }

    fn is_waited_for(&self) -> bool {
        !self.queue().waiting.is_empty()
    }
}

/// The turns of one rendering. Its time limit counts what it runs, not what it waits.
#[derive(Debug)]
pub(super) struct Pace<'s> {
    turns: &'s Turns,
    stop: &'s AtomicBool,
    limit: Duration,
    ran: Cell<Duration>,
    since: Cell<Instant>,
    has_turn: Cell<bool>,
    yields: YieldInterval,
}

/// Whether a rendering may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Going {
    On,
    OutOfTime,
    Stopped,
}

impl<'s> Pace<'s> {
    /// Waits for the first turn. None: the rendering was stopped.
    pub(super) fn begin(turns: &'s Arc<Turns>, stop: &'s AtomicBool, limit: Duration) -> Option<Self> {
        turns.begin(stop).then(|| Self {
            turns,
            stop,
            limit,
            ran: Cell::default(),
            since: Cell::new(Instant::now()),
            has_turn: Cell::new(true),
            yields: YieldInterval::new(),
        })
    }

    /// Whether the rendering may go on; another one may run in between.
    pub(super) fn check(&self) -> Going {
        if self.stop.load(Ordering::Relaxed) {
            return Going::Stopped;
        }
        let now = Instant::now();
        self.yields.check(now);
        let elapsed = now.saturating_duration_since(self.since.get());
        if self.ran.get() + elapsed >= self.limit {
            return Going::OutOfTime;
        }
        if elapsed < SLICE || !self.turns.is_waited_for() {
            return Going::On;
        }
        self.ran.set(self.ran.get() + elapsed);
        self.turns.end();
        self.has_turn.set(self.turns.begin(self.stop));
        self.since.set(Instant::now());
        if self.has_turn.get() { Going::On } else { Going::Stopped }
    }
}

impl Drop for Pace<'_> {
    fn drop(&mut self) {
        if self.has_turn.get() {
            self.turns.end();
        }
    }
}
