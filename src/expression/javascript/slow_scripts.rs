//! Scripts that have run longer than [`FIRST_SLICE`]: each keeps its thread, and the threads run in time slices.
//!
//! - **Slots** bound the threads: [`ScriptOptions::slow_threads`], as far as [`ScriptOptions::total_memory`] has a heap
//!   for each. One definition gets at most a quarter of them, and a version whose breaker is open gets one.
//! - **Time slices** bound the processors: they are the turns of long scripts of all languages. A thread whose slice
//!   has ended is parked inside the interrupt handler.
//! - **The backlog** holds preempted scripts: they were interrupted because no slot was free, and begin again when one
//!   is. A script has no effects before its end, so the second run is not observable.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::task::{ScriptTask, TaskHandle};
use crate::expression::processor::{FairQueue, LongScripts, RunningScript, Turn, Turns};
use crate::expression::script::{ScriptError, ScriptErrorKind};
use crate::expression::script_options::ScriptOptions;

/// How long a script may run on a thread that serves a queue.
pub(super) const FIRST_SLICE: Duration = Duration::from_millis(50);

/// How many threads may hang in native loops that cannot be interrupted: with this many the node is of no more use.
const MAX_ABANDONED: usize = 8;

/// Starts a thread that runs a task which has a slot.
pub(super) type StartSlowThread = fn(&Arc<SlowScripts>, Box<ScriptTask>) -> io::Result<()>;

pub(in crate::expression) struct SlowScripts {
    pub(in crate::expression) options: Arc<ScriptOptions>,
    /// The long scripts of all languages, including these.
    pub(in crate::expression) long: Arc<LongScripts>,
    start: StartSlowThread,
    /// Threads that hang in native code, with their scripts; `None` for a thread that hangs outside a script.
    abandoned: Mutex<Vec<Option<Arc<TaskHandle>>>>,
    /// The maximum number of threads hang.
    pub(in crate::expression) exhausted: CancellationToken,
    state: Mutex<SlowState>,
}

#[derive(Default)]
struct SlowState {
    slots: Vec<Slot>,
    backlog: FairQueue<Box<ScriptTask>>,
}

struct Slot {
    handle: Arc<TaskHandle>,
    turn: Option<Turn>,
    _running: RunningScript,
}

impl SlowState {
    fn slot(&mut self, handle: &Arc<TaskHandle>) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.handle, handle))
    }

    fn remove(&mut self, handle: &Arc<TaskHandle>) -> bool {
        let before = self.slots.len();
        self.slots.retain(|slot| !Arc::ptr_eq(&slot.handle, handle));
        self.slots.len() < before
    }
}

impl SlowScripts {
    pub(super) fn new(options: Arc<ScriptOptions>, start: StartSlowThread) -> Self {
        Self {
            long: Arc::new(LongScripts::new(&options)),
            options,
            start,
            abandoned: Mutex::default(),
            exhausted: CancellationToken::new(),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a script, if one is free and the breaker of its version admits it.
    fn free_slot(&self, state: &SlowState, handle: &Arc<TaskHandle>) -> Option<Slot> {
        let per_definition = (self.options.slow_threads / 4).max(1);
        let heaps = self.options.slow_heaps(self.abandoned().len());
        let slots = self.options.slow_threads.min(heaps).max(1);
        let count = |same: &dyn Fn(&TaskHandle) -> bool| state.slots.iter().filter(|slot| same(&slot.handle)).count();
        let is_free = state.slots.len() < slots
            && count(&|other| other.owner.definition == handle.owner.definition) < per_definition;
        Some(Slot {
            handle: Arc::clone(handle),
            turn: None,
            _running: is_free.then(|| LongScripts::admit(&self.long, &handle.owner))??,
        })
    }

    /// Takes a slot for a script that runs on a queue's thread; the thread must then wait for a time slice.
    pub(super) fn take_slot(&self, handle: &Arc<TaskHandle>) -> bool {
        let mut state = self.lock();
        let Some(slot) = self.free_slot(&state, handle) else {
            return false;
        };
        metrics::counter!("mainspring_slow_scripts_total").increment(1);
        state.slots.push(slot);
        true
    }

    pub(super) fn has_slot(&self, handle: &Arc<TaskHandle>) -> bool {
        self.lock().slot(handle).is_some()
    }

    /// Ends the time slice, if any, of a script that has run for `ran`, and parks the thread until the next one.
    /// Returns `false` when the script was cancelled or its thread was abandoned.
    pub(super) fn wait_for_slice(&self, handle: &Arc<TaskHandle>, ran: Duration) -> bool {
        let set_turn = |turn| self.lock().slot(handle).map(|slot| slot.turn = turn).is_some();
        if !set_turn(None) {
            return false;
        }
        let turn = Turns::begin(&self.long.turns, "JavaScript", ran, || handle.is_cancelled());
        turn.is_some() && set_turn(turn)
    }

    /// Releases the slot of a script; returns whether it had one.
    pub(super) fn release(&self, handle: &Arc<TaskHandle>) -> bool {
        self.lock().remove(handle)
    }

    /// Queues a preempted script in the backlog. Returns `Err` when the backlog is full or the version's breaker is
    /// open.
    pub(super) fn enqueue(&self, task: Box<ScriptTask>) -> Result<(), Box<ScriptTask>> {
        if self.long.breakers.is_open(&task.handle.owner.version) {
            return Err(task);
        }
        let mut state = self.lock();
        if state.backlog.len() >= self.options.queue {
            state.backlog.retain(|task| !task.handle.is_cancelled());
            if state.backlog.len() >= self.options.queue {
                return Err(task);
            }
        }
        task.handle.set_preempted();
        let definition = task.handle.owner.definition.clone();
        state.backlog.push(&definition, task);
        Ok(())
    }

    /// Takes a script from the backlog for which a slot is free, and the slot for it.
    pub(super) fn next_from_backlog(&self) -> Option<Box<ScriptTask>> {
        let mut state = self.lock();
        loop {
            let mut backlog = std::mem::take(&mut state.backlog);
            let mut slot = None;
            let found = backlog.pop_where(|task| {
                slot = self.free_slot(&state, &task.handle);
                slot.is_some() || task.handle.is_cancelled()
            });
            state.backlog = backlog;
            let task = found?;
            if let Some(slot) = slot
                && !task.handle.is_cancelled()
            {
                state.slots.push(slot);
                task.handle.set_taken();
                return Some(task);
            }
        }
    }

    /// Starts threads for the scripts of the backlog for which a slot is free.
    pub(super) fn start_backlog(slow: &Arc<Self>) {
        while !slow.lock().backlog.is_empty()
            && let Some(task) = slow.next_from_backlog()
        {
            let handle = Arc::clone(&task.handle);
            // If no thread starts, the task is dropped with its closure, and its caller receives Busy.
            if let Err(error) = (slow.start)(slow, task) {
                tracing::error!(%error, "no thread for a slow script could be started");
                slow.release(&handle);
                return;
            }
        }
    }

    /// Abandons threads whose scripts have run past their limit in code that cannot be interrupted.
    pub(super) fn abandon_overdue(slow: &Arc<Self>) {
        let mut state = slow.lock();
        // A script that waits for a time slice is idle, and so never overdue.
        let is_overdue = |slot: &&Slot| slot.handle.is_overdue();
        while let Some(handle) = state.slots.iter().find(is_overdue).map(|slot| Arc::clone(&slot.handle)) {
            if slow.abandon_thread(Some(&handle)).is_err() {
                return;
            }
            state.remove(&handle);
        }
        drop(state);
        Self::start_backlog(slow);
    }

    /// Counts a thread that hangs in a native loop, and lowers its priority: it ends with the loop.
    ///
    /// # Errors
    /// [`ScriptErrorKind::Busy`] when the maximum number of threads hang.
    pub(super) fn abandon_thread(&self, handle: Option<&Arc<TaskHandle>>) -> Result<(), ScriptError> {
        let mut abandoned = self.abandoned();
        if abandoned.len() >= MAX_ABANDONED {
            let message = "all threads for scripts hang in loops that cannot be interrupted";
            return Err(ScriptError::new(ScriptErrorKind::Busy, message));
        }
        abandoned.push(handle.cloned());
        if abandoned.len() >= MAX_ABANDONED {
            self.exhausted.cancel();
        }
        if let Some(handle) = handle {
            handle.lower_priority();
        }
        let version = handle.map_or("", |handle| &handle.owner.version);
        tracing::error!(
            version = %version.escape_debug(),
            "a script hangs in code that cannot be interrupted; its thread is abandoned"
        );
        Ok(())
    }

    /// Records that an abandoned thread has ended its loop.
    pub(super) fn thread_returned(&self, handle: Option<&Arc<TaskHandle>>) {
        let mut abandoned = self.abandoned();
        let place = abandoned.iter().position(|other| match (other, handle) {
            (Some(other), Some(handle)) => Arc::ptr_eq(other, handle),
            (None, None) => true,
            _ => false,
        });
        if let Some(place) = place {
            abandoned.swap_remove(place);
        }
    }

    /// Whether a thread hangs in this script: another run of it would take the next thread.
    pub(super) fn is_hanging(&self, handle: &TaskHandle) -> bool {
        let abandoned = self.abandoned();
        abandoned.iter().flatten().any(|other| other.is_same_script(handle))
    }

    fn abandoned(&self) -> MutexGuard<'_, Vec<Option<Arc<TaskHandle>>>> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(in crate::expression) fn hanging(&self) -> usize {
        self.abandoned().len()
    }

    /// Slots taken, and scripts in the backlog.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.slots.len(), state.backlog.len())
    }
}
