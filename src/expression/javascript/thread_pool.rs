//! The bounded threads on which scripts run.
//!
//! A realm cannot leave its thread. Realms live on the thread's own stack; shared state is in [`ScriptQueue`]. A session is
//! pinned to one queue, and its scripts share a realm with those of other sessions (`realm` says why that is safe).
//!
//! - **Threads start on demand.** A queue's thread starts with its first task. While it is idle and has no realm, it
//!   creates one in advance, which takes many times as long as most scripts.
//! - **Fair.** Definitions take turns on a queue, and a full queue blocks only its own definition (`fair_queue`).
//! - **Quick scripts do not wait for slow ones.** A script that has run for 50 ms leaves its queue to a new thread and
//!   goes on in time slices (`slow_scripts`, `interrupt`). If no slot is free it is preempted, and begins again later.
//! - **Bounded.** A queue holds [`ScriptOptions::queue`] tasks of each definition. `evaluate` takes a permit before the
//!   push, and waits for one where the queue is full; the thread releases it when it takes the task.
//! - **Overload is not a fault.** Without a free slot, or with an open breaker, the result is
//!   [`ScriptErrorKind::Busy`], and the burst is deferred.
//! - **Cancellation.** A dropped caller sets a flag in its task: a waiting task is skipped, a running one interrupted.
//! - **Threads that hang are abandoned.** Some native code never runs the interrupt handler. Callers that wait
//!   supervise the queue and the slow scripts: a thread that is [`GRACE`] past its limit loses its queue or its slot,
//!   and ends with its loop. At most eight such threads exist, and at most one per script: until it ends, bursts with
//!   that script are deferred.
//!
//! [`GRACE`]: super::interrupt::GRACE

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;

use super::brief_scripts::run_brief;
use super::script_queue::ScriptQueue;
use super::script_thread;
use super::slow_scripts::SlowScripts;
use super::task::{ScriptTask, TaskHandle};
use crate::expression::processor::SLOT_TIMEOUT;
use crate::expression::script::{EvaluationResult, ScriptError, ScriptErrorKind, ScriptScope, too_long_script};
use crate::expression::script_options::ScriptOptions;

/// How often a caller that waits for a script supervises the threads.
const SUPERVISE_INTERVAL: Duration = Duration::from_millis(100);

/// How long a burst that found no free slot is deferred; jittered.
const DEFERRAL: Duration = Duration::from_secs(2);

/// How long a burst whose version has an open breaker is deferred; jittered.
const BREAKER_DEFERRAL: Duration = Duration::from_secs(10);

pub(in crate::expression) struct ScriptPool {
    queues: Vec<Arc<ScriptQueue>>,
    pub(in crate::expression) slow: Arc<SlowScripts>,
}

/// A session, pinned to a queue at its first evaluation.
pub(in crate::expression) struct PoolSession {
    pub(in crate::expression) pool: Arc<ScriptPool>,
    queue: OnceLock<Arc<ScriptQueue>>,
}

impl ScriptPool {
    pub(in crate::expression) fn new(options: ScriptOptions) -> Self {
        let options = Arc::new(options);
        let slow = Arc::new(SlowScripts::new(Arc::clone(&options), script_thread::start_slow));
        let queue = |_| Arc::new(ScriptQueue::new(&options, &slow, script_thread::start));
        Self {
            queues: (0..options.threads.max(1)).map(queue).collect(),
            slow,
        }
    }

    /// Realms that a script had to wait for.
    #[cfg(test)]
    pub(in crate::expression) fn realms(&self) -> usize {
        let made = self.queues.iter().map(|queue| queue.on_demand.load(Ordering::Relaxed));
        made.sum()
    }

    #[cfg(test)]
    pub(in crate::expression) fn slow(&self) -> (usize, usize) {
        self.slow.counts()
    }

    pub(in crate::expression) fn open_session(pool: &Arc<Self>) -> PoolSession {
        PoolSession {
            pool: Arc::clone(pool),
            queue: OnceLock::new(),
        }
    }

    /// How long a burst must not begin because the breaker of its version is open and it was deferred before.
    pub(in crate::expression) fn deferral(&self, version: &str, instance: &str) -> Option<Duration> {
        let busy = || self.slow.long.running_of(version) > 0;
        let trial = self.slow.options.time_limit;
        let is_allowed = self.slow.long.breakers.allows(version, instance, trial, busy);
        (!is_allowed).then(|| jittered(BREAKER_DEFERRAL))
    }
}

fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.75..1.25))
}

impl Drop for ScriptPool {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.lock().closed = true;
            queue.wake.notify_all();
        }
    }
}

impl PoolSession {
    /// Runs a script on the session's queue. Cancellation safe: dropping the future cancels the task.
    pub(in crate::expression) async fn evaluate(&self, script: &str, scope: ScriptScope) -> EvaluationResult {
        if let Some(problem) = too_long_script(script) {
            return Err(ScriptError::new(ScriptErrorKind::Syntax, problem));
        }
        let scope = match run_brief(&self.pool.slow, script, scope) {
            Ok(evaluated) => {
                // As after a script of the pool, the thread first serves what has been ready for longer.
                tokio::task::yield_now().await;
                return Ok(evaluated);
            }
            Err(scope) => *scope,
        };
        let queue = self.queue()?;
        let closed = |_| ScriptError::new(ScriptErrorKind::Closed, "the script engine has ended");
        let handle = Arc::new(TaskHandle::new(&scope.workflow, script));
        if queue.slow.is_hanging(&handle) {
            return Err(queue.slow.long.defer(&handle.owner));
        }
        let mut acquiring = pin!(queue.permits.of(&handle.owner.definition).acquire_owned());
        let permit = loop {
            match tokio::time::timeout(SUPERVISE_INTERVAL, &mut acquiring).await {
                Ok(permit) => break permit.map_err(closed)?,
                Err(_) => ScriptQueue::supervise(queue)?,
            }
        };
        let (reply, mut receiver) = oneshot::channel();
        let _cancelled = CancelOnDrop(&handle);
        let task = ScriptTask {
            script: script.to_owned(),
            scope,
            handle: Arc::clone(&handle),
            reply,
            permit: Some(permit),
        };
        ScriptQueue::push(queue, Box::new(task))?;
        loop {
            match tokio::time::timeout(SUPERVISE_INTERVAL, &mut receiver).await {
                Ok(Ok(result)) => return result,
                // The task was dropped: its thread panicked, or could not be started.
                Ok(Err(_)) => {
                    return Err(ScriptError::new(ScriptErrorKind::Busy, "the script's thread has ended"));
                }
                Err(_) => {}
            }
            // Before the thread is abandoned, which makes the task idle.
            let is_overdue = handle.is_overdue();
            let supervised = ScriptQueue::supervise(queue);
            SlowScripts::abandon_overdue(&queue.slow);
            if is_overdue {
                queue.slow.long.breakers.timed_out(&handle.owner);
                let limit = queue.options.time_limit;
                let message =
                    format!("the script ran longer than its limit of {limit:?}, in code that cannot be interrupted");
                return Err(ScriptError::new(ScriptErrorKind::Timeout, message));
            }
            if !handle.is_taken() {
                supervised?;
            }
            if handle.preempted_for() >= SLOT_TIMEOUT {
                return Err(queue.slow.long.defer(&handle.owner));
            }
        }
    }

    /// Awaits a future that waits for the turn of a script. A script that hangs in native code holds its turn until the
    /// waiting callers abandon it. As cancellation safe as the awaited future.
    pub(in crate::expression) async fn supervising<T>(&self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        loop {
            match tokio::time::timeout(SUPERVISE_INTERVAL, &mut waiting).await {
                Ok(result) => return result,
                Err(_) => SlowScripts::abandon_overdue(&self.pool.slow),
            }
        }
    }

    /// How long the burst must be deferred after a [`ScriptErrorKind::Busy`].
    pub(in crate::expression) fn pause(&self, version: &str) -> Duration {
        let is_open = self.pool.slow.long.breakers.is_open(version);
        jittered(if is_open { BREAKER_DEFERRAL } else { DEFERRAL })
    }

    /// Returns the session's queue; the first call chooses the one with the fewest sessions.
    fn queue(&self) -> Result<&Arc<ScriptQueue>, ScriptError> {
        if let Some(queue) = self.queue.get() {
            return Ok(queue);
        }
        let least = self
            .pool
            .queues
            .iter()
            .min_by_key(|queue| queue.sessions.load(Ordering::Relaxed));
        let least = least.ok_or_else(|| ScriptError::new(ScriptErrorKind::Closed, "there are no script threads"))?;
        Ok(self.queue.get_or_init(|| {
            least.sessions.fetch_add(1, Ordering::Relaxed);
            Arc::clone(least)
        }))
    }
}

impl Drop for PoolSession {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.get() {
            queue.sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

struct CancelOnDrop<'a>(&'a TaskHandle);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
