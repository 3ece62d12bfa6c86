//! A queue of scripts and the thread that serves it.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::interrupt::GRACE;
use super::slow_scripts::{FIRST_SLICE, SlowScripts};
use super::task::{ScriptTask, TaskHandle};
use crate::expression::processor::{FairQueue, QueuePermits};
use crate::expression::script::{ScriptError, ScriptErrorKind};
use crate::expression::script_options::ScriptOptions;

/// How long the reset of a realm may take; no script can prolong it.
pub(super) const RESET_TIMEOUT: Duration = Duration::from_millis(50);

/// Starts the thread that serves a queue as this generation.
pub(super) type StartThread = fn(&Arc<ScriptQueue>, u64) -> io::Result<()>;

pub(super) struct ScriptQueue {
    pub(super) options: Arc<ScriptOptions>,
    pub(super) slow: Arc<SlowScripts>,
    pub(super) permits: QueuePermits,
    /// Sessions that are pinned to this queue.
    pub(super) sessions: AtomicUsize,
    /// Realms that a script had to wait for.
    pub(super) on_demand: AtomicUsize,
    start: StartThread,
    state: Mutex<QueueState>,
    pub(super) wake: Condvar,
}

#[derive(Default)]
pub(super) struct QueueState {
    pub(super) tasks: FairQueue<Box<ScriptTask>>,
    /// The number of the serving thread. A thread that finds another number here has been replaced.
    pub(super) generation: u64,
    pub(super) has_thread: bool,
    /// The thread waits for a task and must be woken. Waking is a system call even when nothing waits.
    pub(super) is_waiting: bool,
    pub(super) running: Option<RunningTask>,
    pub(super) closed: bool,
}

/// What runs on the queue's thread, and since when.
pub(super) struct RunningTask {
    /// `None` for the reset of a realm.
    pub(super) handle: Option<Arc<TaskHandle>>,
    pub(super) since: Instant,
}

impl ScriptQueue {
    pub(super) fn new(options: &Arc<ScriptOptions>, slow: &Arc<SlowScripts>, start: StartThread) -> Self {
        Self {
            options: Arc::clone(options),
            slow: Arc::clone(slow),
            permits: QueuePermits::new(options.queue),
            sessions: AtomicUsize::new(0),
            on_demand: AtomicUsize::new(0),
            start,
            state: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(queue: &Arc<Self>, task: Box<ScriptTask>) -> Result<(), ScriptError> {
        let mut state = queue.lock();
        if !state.has_thread {
            Self::start_thread(queue, &mut state)?;
        }
        let handle = Arc::clone(&task.handle);
        state.tasks.push(&handle.owner.definition, task);
        let is_waiting = std::mem::take(&mut state.is_waiting);
        // The thread takes the lock as soon as it is awake.
        drop(state);
        if is_waiting {
            queue.wake.notify_all();
        }
        Ok(())
    }

    /// Takes a slot for the script that runs on the queue's thread, and gives the queue to a new thread. Returns
    /// `false` when no slot is free.
    pub(super) fn detach(queue: &Arc<Self>, generation: u64, handle: &Arc<TaskHandle>) -> bool {
        let mut state = queue.lock();
        if state.generation != generation {
            return queue.slow.has_slot(handle);
        }
        Self::detach_running(queue, &mut state, handle)
    }

    fn detach_running(queue: &Arc<Self>, state: &mut QueueState, handle: &Arc<TaskHandle>) -> bool {
        if !queue.slow.take_slot(handle) {
            return false;
        }
        let has_thread = Self::start_thread(queue, state).is_ok();
        if !has_thread {
            queue.slow.release(handle);
        }
        has_thread
    }

    /// Replaces the queue's thread if what runs on it cannot be interrupted, or if it has ended with tasks in the queue.
    pub(super) fn supervise(queue: &Arc<Self>) -> Result<(), ScriptError> {
        let mut state = queue.lock();
        if let Some(RunningTask { handle, since }) = &state.running {
            let (handle, since) = (handle.clone(), *since);
            let is_overdue = match &handle {
                Some(handle) => handle.is_overdue(),
                None => since.elapsed() >= RESET_TIMEOUT + GRACE,
            };
            if is_overdue {
                queue.slow.abandon_thread(handle.as_ref())?;
                if let Err(error) = Self::start_thread(queue, &mut state) {
                    queue.slow.thread_returned(handle.as_ref());
                    return Err(error);
                }
            } else if let Some(handle) = handle
                && since.elapsed() >= FIRST_SLICE * 2
            {
                Self::detach_running(queue, &mut state, &handle);
            }
        }
        if !state.has_thread && !state.tasks.is_empty() {
            Self::start_thread(queue, &mut state)?;
        }
        Ok(())
    }

    /// Starts a thread for the queue, which waits until the caller releases the state.
    fn start_thread(queue: &Arc<Self>, state: &mut QueueState) -> Result<(), ScriptError> {
        let generation = state.generation + 1;
        if let Err(error) = (queue.start)(queue, generation) {
            let message = format!("no thread for scripts could be started: {error}");
            return Err(ScriptError::new(ScriptErrorKind::Busy, message));
        }
        state.generation = generation;
        state.has_thread = true;
        state.running = None;
        Ok(())
    }
}
