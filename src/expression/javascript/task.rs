//! One evaluation of a script: the task that a thread takes from a queue, and the handle that its caller, its thread and
//! the pool share.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::expression::processor::{ScriptOwner, ThreadPriority};
use crate::expression::script::{EvaluationResult, ScriptScope, WorkflowFacts};

/// A script that waits for a thread, or runs on one.
pub(super) struct ScriptTask {
    pub(super) script: String,
    pub(super) scope: ScriptScope,
    pub(super) handle: Arc<TaskHandle>,
    pub(super) reply: oneshot::Sender<EvaluationResult>,
    /// A place in the queue; released when a thread takes the task.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// No point in time.
const NEVER: u64 = u64::MAX;

/// The state of a task.
pub(super) struct TaskHandle {
    pub(super) owner: ScriptOwner,
    /// A hash of the text.
    script: u64,
    created: Instant,
    cancelled: AtomicBool,
    /// A thread has taken it.
    taken: AtomicBool,
    /// The time from which it has run past its limit without an interrupt check, in microseconds since `created`.
    overdue: AtomicU64,
    /// The time since which it waits for a slot after it was preempted, likewise.
    preempted: AtomicU64,
    /// The priority of its thread while it is on one.
    thread: Mutex<Option<ThreadPriority>>,
}

impl TaskHandle {
    pub(super) fn new(facts: &WorkflowFacts, script: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        script.hash(&mut hasher);
        Self {
            owner: ScriptOwner::of(facts),
            script: hasher.finish(),
            created: Instant::now(),
            cancelled: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            overdue: AtomicU64::new(NEVER),
            preempted: AtomicU64::new(NEVER),
            thread: Mutex::default(),
        }
    }

    /// Whether both are the same text of the same version.
    pub(super) fn is_same_script(&self, other: &Self) -> bool {
        self.script == other.script && self.owner.version == other.owner.version
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.created).as_micros()).unwrap_or(NEVER)
    }

    /// Records that the caller has dropped its future.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    pub(super) fn set_taken(&self) {
        self.taken.store(true, Ordering::Relaxed);
        self.preempted.store(NEVER, Ordering::Relaxed);
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// Sets the thread that it is on from now on, if any.
    pub(super) fn set_thread(&self, thread: Option<ThreadPriority>) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }

    /// Lowers the priority of its thread, which does not end meanwhile.
    pub(super) fn lower_priority(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = *thread {
            thread.lower();
        }
    }

    /// Records that it runs and that the next interrupt check must come before `overdue`.
    pub(super) fn set_overdue_at(&self, overdue: Instant) {
        self.overdue.store(self.micros(overdue), Ordering::Relaxed);
    }

    /// Records that it does not run, so it cannot become overdue.
    pub(super) fn set_idle(&self) {
        self.overdue.store(NEVER, Ordering::Relaxed);
    }

    /// Whether it runs in native code that cannot be interrupted.
    pub(super) fn is_overdue(&self) -> bool {
        self.micros(Instant::now()) >= self.overdue.load(Ordering::Relaxed)
    }

    pub(super) fn set_preempted(&self) {
        self.preempted.store(self.micros(Instant::now()), Ordering::Relaxed);
    }

    /// How long it has waited for a slot since it was preempted.
    pub(super) fn preempted_for(&self) -> Duration {
        let since = self.preempted.load(Ordering::Relaxed);
        Duration::from_micros(self.micros(Instant::now()).saturating_sub(since))
    }
}
