//! The interrupt handler of a script's thread: whether the script may go on.
//!
//! QuickJS calls it after some steps (`script_watch`), and the allocator calls it for each large block; usually the
//! check only compares times. After [`FIRST_SLICE`] the script leaves its queue to another thread and goes on as a slow
//! script; when a time slice is over, the thread waits here for the next one. The time limit counts the time that the
//! script ran, not the time that it waited.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::slow_scripts::{FIRST_SLICE, SlowScripts};
use super::task::TaskHandle;
use crate::expression::processor::{SLICE, ThreadPriority, YieldInterval};

/// How long past its limit a script may run before its thread is abandoned. Interrupt checks are well under a
/// millisecond apart; the rest allows for a busy machine.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// Longer than any step that does not belong to a script.
const UNBOUNDED: Duration = Duration::from_secs(3600);

/// Why a script was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    TimedOut,
    Cancelled,
    /// It is slow, and no slot is free: it begins again when one is.
    Preempted,
}

/// Gives the queue of the thread to another thread; returns `false` when no slot is free for the script.
pub(super) type Detach = Box<dyn Fn(&Arc<TaskHandle>) -> bool>;

/// The deadlines of what runs on a thread.
pub(super) struct InterruptHandler {
    slow: Arc<SlowScripts>,
    thread: ThreadPriority,
    detach: Detach,
    handle: RefCell<Option<Arc<TaskHandle>>>,
    is_slow: Cell<bool>,
    stop: Cell<Option<StopReason>>,
    /// The handler is running: what it frees may allocate.
    is_running: Cell<bool>,
    deadline: Cell<Instant>,
    /// The end of the time slice; before it only cancellation is checked.
    slice_end: Cell<Instant>,
    slice_start: Cell<Instant>,
    /// How long the script ran in earlier slices.
    ran_before: Cell<Duration>,
    yields: YieldInterval,
}

impl InterruptHandler {
    /// Must be called on the thread that the handler is for.
    pub(super) fn new(slow: &Arc<SlowScripts>, detach: Detach) -> Self {
        let now = Instant::now();
        Self {
            slow: Arc::clone(slow),
            thread: ThreadPriority::current(),
            detach,
            handle: RefCell::new(None),
            is_slow: Cell::new(false),
            stop: Cell::new(None),
            is_running: Cell::new(false),
            deadline: Cell::new(now),
            slice_end: Cell::new(now),
            slice_start: Cell::new(now),
            ran_before: Cell::new(Duration::ZERO),
            yields: YieldInterval::new(),
        }
    }

    /// Begins a script on a thread that serves a queue.
    pub(super) fn begin(&self, handle: &Arc<TaskHandle>) {
        self.is_slow.set(false);
        self.arm(handle, FIRST_SLICE);
    }

    /// Waits for the first time slice of a script that has a slot. Returns `false` when the script was cancelled.
    pub(super) fn begin_slow(&self, handle: &Arc<TaskHandle>) -> bool {
        self.is_slow.set(true);
        if !self.slow.wait_for_slice(handle, Duration::ZERO) {
            self.stop.set(Some(StopReason::Cancelled));
            return false;
        }
        self.arm(handle, SLICE);
        true
    }

    fn arm(&self, handle: &Arc<TaskHandle>, slice: Duration) {
        let (now, limit) = (Instant::now(), self.slow.options.time_limit);
        handle.set_thread(Some(self.thread));
        *self.handle.borrow_mut() = Some(Arc::clone(handle));
        self.stop.set(None);
        self.ran_before.set(Duration::ZERO);
        self.slice_start.set(now);
        self.deadline.set(now + limit);
        self.slice_end.set(now + slice.min(limit));
        handle.set_overdue_at(now + limit.saturating_add(GRACE));
    }

    /// From now on, for at most `limit`, the running code belongs to no task.
    pub(super) fn begin_reset(&self, limit: Duration) {
        self.handle.borrow_mut().take();
        self.stop.set(None);
        self.deadline.set(Instant::now() + limit);
        self.slice_end.set(self.deadline.get());
    }

    /// Begins a script on the thread of its caller, which no one supervises.
    pub(super) fn begin_brief(&self, limit: Duration) {
        self.is_slow.set(false);
        self.begin_reset(limit);
    }

    /// From now on no script runs, and no limit applies.
    pub(super) fn disarm(&self) {
        self.begin_reset(UNBOUNDED);
    }

    /// The script has ended.
    pub(super) fn end(&self) {
        if let Some(handle) = self.handle.borrow_mut().take() {
            handle.set_idle();
            handle.set_thread(None);
        }
    }

    pub(super) fn is_slow(&self) -> bool {
        self.is_slow.get()
    }

    /// Why the script was stopped, if it was.
    pub(super) fn stop(&self) -> Option<StopReason> {
        self.stop.get()
    }

    /// Whether the script must stop. Blocks while the script waits for a time slice.
    pub(super) fn should_stop(&self) -> bool {
        if self.stop.get().is_some() || self.is_running.get() {
            return self.stop.get().is_some();
        }
        let handle = self.handle.borrow();
        let now = Instant::now();
        let stop = match &*handle {
            Some(handle) if handle.is_cancelled() => Some(StopReason::Cancelled),
            _ if now < self.slice_end.get() => {
                self.yields.check(now);
                None
            }
            _ if now >= self.deadline.get() => Some(StopReason::TimedOut),
            Some(handle) => {
                self.is_running.set(true);
                let _ended = EndOnDrop(&self.is_running);
                self.next_slice(handle, now)
            }
            None => None,
        };
        self.stop.set(stop);
        stop.is_some()
    }

    fn next_slice(&self, handle: &Arc<TaskHandle>, now: Instant) -> Option<StopReason> {
        let ran = self.ran_before.get() + now.saturating_duration_since(self.slice_start.get());
        if !self.is_slow.get() {
            if !(self.detach)(handle) {
                return Some(StopReason::Preempted);
            }
            self.is_slow.set(true);
        }
        handle.set_idle();
        if !self.slow.wait_for_slice(handle, ran) {
            return Some(StopReason::Cancelled);
        }
        let (woken, left) = (Instant::now(), self.slow.options.time_limit.saturating_sub(ran));
        self.ran_before.set(ran);
        self.slice_start.set(woken);
        self.deadline.set(woken + left);
        self.slice_end.set(woken + SLICE.min(left));
        handle.set_overdue_at(woken + left.saturating_add(GRACE));
        None
    }
}

/// Clears a flag, also after a panic.
struct EndOnDrop<'a>(&'a Cell<bool>);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
