//! A thread that runs scripts: it serves a queue until its script turns out to be slow, and then slow scripts.
//!
//! A panic is caught around each task and logged; the thread drops its realms (sessions get new ones) and goes on. If the
//! thread itself ends, the next push starts another.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::interrupt::{InterruptHandler, StopReason};
use super::realm::{Evaluation, Realm};
use super::script_queue::{RESET_TIMEOUT, RunningTask, ScriptQueue};
use super::slow_scripts::SlowScripts;
use super::task::{ScriptTask, TaskHandle};
use crate::expression::script::{EvaluationResult, ScriptError, ScriptErrorKind, ScriptScope};
use crate::expression::script_options::ScriptOptions;

/// How long a thread is idle before it creates a realm in advance: the next script of a burst comes soon.
const IDLE_BEFORE_PREPARE: Duration = Duration::from_millis(2);

/// Stack beyond what scripts may use: for native frames of QuickJS and of this crate.
const NATIVE_STACK: usize = 2 << 20;

/// Starts the thread that serves a queue as this generation.
pub(super) fn start(queue: &Arc<ScriptQueue>, generation: u64) -> io::Result<()> {
    let queue = Arc::clone(queue);
    spawn("script", &Arc::clone(&queue.options), move || {
        let kept = KeptRealm::default();
        let shared = (Arc::clone(&queue), Rc::clone(&kept));
        let detach = move |handle: &Arc<TaskHandle>| {
            let is_detached = ScriptQueue::detach(&shared.0, generation, handle);
            if is_detached {
                // Other scripts get the realm of the queue's new thread.
                let realm = shared.1.borrow_mut().take();
                drop(realm);
            }
            is_detached
        };
        let interrupt = Rc::new(InterruptHandler::new(&queue.slow, Box::new(detach)));
        let mut thread = ScriptThread {
            queue,
            generation,
            interrupt,
            realm: kept,
            has_run: false,
            is_dirty: false,
        };
        if thread.serve_queue() {
            run_slow_scripts(&Arc::clone(&thread.queue.slow), &Rc::clone(&thread.interrupt), None);
        }
    })
}

/// Starts a thread for a script that has a slot.
pub(super) fn start_slow(slow: &Arc<SlowScripts>, task: Box<ScriptTask>) -> io::Result<()> {
    let slow = Arc::clone(slow);
    spawn("script-slow", &Arc::clone(&slow.options), move || {
        let interrupt = Rc::new(InterruptHandler::new(&slow, Box::new(|_| false)));
        run_slow_scripts(&slow, &interrupt, Some(task));
    })
}

fn spawn(name: &str, options: &ScriptOptions, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(options.stack_limit.saturating_add(NATIVE_STACK))
        .spawn(run)
        .map(drop)
}

/// The realm that the scripts of a thread use one after another.
type KeptRealm = Rc<RefCell<Option<Realm>>>;

/// The thread of a queue.
struct ScriptThread {
    queue: Arc<ScriptQueue>,
    generation: u64,
    interrupt: Rc<InterruptHandler>,
    realm: KeptRealm,
    has_run: bool,
    /// A script has run in the realm since its last reset.
    is_dirty: bool,
}

/// What the thread of a queue does next.
enum NextStep {
    Run(Box<ScriptTask>),
    /// Creates a realm in advance.
    Prepare,
}

/// How an evaluation ended.
enum RunResult {
    Finished(Box<EvaluationResult>),
    /// The script must begin again with this scope.
    Preempted(Box<ScriptScope>),
}

impl RunResult {
    fn finished(result: EvaluationResult) -> Self {
        Self::Finished(Box::new(result))
    }
}

impl ScriptThread {
    /// Runs scripts until the queue is closed or has another thread. Returns `true` when this thread has released the
    /// slot of a slow script and continues with the backlog.
    fn serve_queue(&mut self) -> bool {
        while let Some(mut task) = self.next() {
            drop(task.permit.take());
            let handle = Arc::clone(&task.handle);
            let ran = catch_unwind(AssertUnwindSafe(|| self.evaluate(&mut task)));
            let ran = ran.unwrap_or_else(|_| {
                let realm = self.realm.borrow_mut().take();
                drop(realm);
                panicked()
            });
            self.interrupt.end();
            let is_serving = self.set_running(None);
            let had_slot = !is_serving && self.queue.slow.release(&handle);
            finish_task(
                &self.queue,
                task,
                ran,
                self.interrupt.is_slow() || had_slot,
                self.interrupt.stop(),
            );
            if !is_serving {
                if !had_slot {
                    self.queue.slow.thread_returned(Some(&handle));
                }
                return had_slot;
            }
            if !self.reset() {
                self.queue.slow.thread_returned(None);
                return false;
            }
        }
        false
    }

    /// Resets the realm after a script. Returns `false` when this thread was abandoned meanwhile.
    fn reset(&mut self) -> bool {
        if !std::mem::take(&mut self.is_dirty) {
            return true;
        }
        let Some(realm) = self.realm.borrow_mut().take() else {
            return true;
        };
        // Supervised as a script is.
        self.set_running(Some(RunningTask {
            handle: None,
            since: Instant::now(),
        }));
        self.interrupt.begin_reset(RESET_TIMEOUT);
        let was_reset = catch_unwind(AssertUnwindSafe(|| realm.reset()));
        if was_reset.unwrap_or(false) {
            *self.realm.borrow_mut() = Some(realm);
        }
        self.set_running(None)
    }

    /// Records what runs here, for supervision. Returns `false` when another thread serves the queue.
    fn set_running(&self, running: Option<RunningTask>) -> bool {
        let mut state = self.queue.lock();
        let is_serving = state.generation == self.generation;
        if is_serving {
            state.running = running;
        }
        is_serving
    }

    /// Returns the next task that is not cancelled, or `None` when this thread must end.
    fn next(&mut self) -> Option<Box<ScriptTask>> {
        loop {
            match self.next_step()? {
                NextStep::Run(task) => return Some(task),
                NextStep::Prepare => match catch_unwind(AssertUnwindSafe(|| self.make_realm())) {
                    Ok(Ok(realm)) => *self.realm.borrow_mut() = Some(realm),
                    failed => {
                        // A script that needs a realm receives the error.
                        let error = failed.ok().and_then(Result::err);
                        tracing::debug!(?error, "no realm could be made ahead");
                        self.has_run = false;
                    }
                },
            }
        }
    }

    /// Returns one step at a time, so that a new task waits for at most one.
    fn next_step(&mut self) -> Option<NextStep> {
        let is_wanted = self.has_run && self.realm.borrow().is_none();
        let mut state = self.queue.lock();
        loop {
            if state.generation != self.generation {
                return None;
            }
            state.is_waiting = false;
            while let Some(task) = state.tasks.pop_where(|_| true) {
                if !task.handle.is_cancelled() {
                    task.handle.set_taken();
                    state.running = Some(RunningTask {
                        handle: Some(Arc::clone(&task.handle)),
                        since: Instant::now(),
                    });
                    return Some(NextStep::Run(task));
                }
            }
            if state.closed {
                return None;
            }
            state.is_waiting = true;
            if !is_wanted {
                state = self.queue.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.queue.wake.wait_timeout(state, IDLE_BEFORE_PREPARE);
            let (next, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            let is_quiet = state.tasks.is_empty() && !state.closed;
            if waited.timed_out() && is_quiet && state.generation == self.generation {
                return Some(NextStep::Prepare);
            }
        }
    }

    fn evaluate(&mut self, task: &mut ScriptTask) -> RunResult {
        self.has_run = true;
        let ran = self.run(task);
        self.run_result(ran)
    }

    fn run(&mut self, task: &mut ScriptTask) -> Result<Evaluation, ScriptError> {
        let realm = self.take_realm()?;
        self.interrupt.begin(&task.handle);
        let evaluation = realm.evaluate(&task.script, std::mem::take(&mut task.scope), &self.queue.options);
        // A realm that is not put back is freed: it is spent, or its thread now runs slow scripts.
        if !evaluation.is_spent && !self.interrupt.is_slow() {
            *self.realm.borrow_mut() = Some(realm);
            self.is_dirty = true;
        }
        Ok(evaluation)
    }

    fn run_result(&self, ran: Result<Evaluation, ScriptError>) -> RunResult {
        match ran {
            Err(error) => RunResult::finished(Err(error)),
            Ok(evaluation) => match self.interrupt.stop() {
                Some(StopReason::Preempted) => RunResult::Preempted(Box::new(evaluation.scope)),
                _ => RunResult::finished(evaluation.result),
            },
        }
    }

    fn take_realm(&self) -> Result<Realm, ScriptError> {
        let kept = self.realm.borrow_mut().take();
        let made = if kept.is_some() { "reused" } else { "on_demand" };
        metrics::counter!("mainspring_script_realms_total", "made" => made).increment(1);
        match kept {
            Some(realm) => Ok(realm),
            None => {
                self.queue.on_demand.fetch_add(1, Ordering::Relaxed);
                self.make_realm()
            }
        }
    }

    fn make_realm(&self) -> Result<Realm, ScriptError> {
        self.interrupt.disarm();
        Realm::new(&self.queue.options, &self.interrupt)
    }
}

impl Drop for ScriptThread {
    fn drop(&mut self) {
        // The realm refers to the interrupt handler, whose closure refers to it.
        let realm = self.realm.borrow_mut().take();
        drop(realm);
        let mut state = self.queue.lock();
        if state.generation == self.generation {
            state.has_thread = false;
            state.running = None;
        }
    }
}

fn panicked() -> RunResult {
    tracing::error!("evaluating a script panicked; its thread drops its realms");
    RunResult::finished(Err(ScriptError::new(
        ScriptErrorKind::Closed,
        "evaluating the script failed inside the engine",
    )))
}

/// Releases the slot, then sends the result or puts a preempted script into the backlog.
fn finish_task(
    queue: &ScriptQueue,
    mut task: Box<ScriptTask>,
    ran: RunResult,
    was_slow: bool,
    stop: Option<StopReason>,
) {
    match ran {
        RunResult::Finished(result) => send_reply(&queue.slow, task, *result, was_slow, stop),
        RunResult::Preempted(scope) => {
            task.scope = *scope;
            let handle = Arc::clone(&task.handle);
            if let Err(task) = queue.slow.enqueue(task) {
                let _ = task.reply.send(Err(queue.slow.long.defer(&handle.owner)));
            }
        }
    }
    SlowScripts::start_backlog(&queue.slow);
}

fn send_reply(
    slow: &SlowScripts,
    task: Box<ScriptTask>,
    result: EvaluationResult,
    was_slow: bool,
    stop: Option<StopReason>,
) {
    if stop == Some(StopReason::TimedOut) {
        slow.long.breakers.timed_out(&task.handle.owner);
    } else if was_slow && stop.is_none() {
        slow.long.breakers.succeeded(&task.handle.owner);
    }
    // A dropped caller is no error.
    let _ = task.reply.send(result);
}

/// Runs scripts that have a slot, one after another, until no script of the backlog can have one.
fn run_slow_scripts(slow: &Arc<SlowScripts>, interrupt: &Rc<InterruptHandler>, first: Option<Box<ScriptTask>>) {
    let mut next = first.or_else(|| slow.next_from_backlog());
    while let Some(mut task) = next {
        let ran = catch_unwind(AssertUnwindSafe(|| evaluate_slow(slow, interrupt, &mut task)));
        let result = match ran.unwrap_or_else(|_| panicked()) {
            RunResult::Finished(result) => *result,
            RunResult::Preempted(_) => Err(ScriptError::new(ScriptErrorKind::Busy, "the script was preempted")),
        };
        interrupt.end();
        let handle = Arc::clone(&task.handle);
        if !slow.release(&handle) {
            slow.thread_returned(Some(&handle));
            return;
        }
        send_reply(slow, task, result, true, interrupt.stop());
        next = slow.next_from_backlog();
    }
}

fn evaluate_slow(slow: &SlowScripts, interrupt: &Rc<InterruptHandler>, task: &mut ScriptTask) -> RunResult {
    if !interrupt.begin_slow(&task.handle) {
        return RunResult::finished(Err(ScriptError::new(
            ScriptErrorKind::Closed,
            "the script was cancelled",
        )));
    }
    let realm = match Realm::new(&slow.options, interrupt) {
        Ok(realm) => realm,
        Err(error) => return RunResult::finished(Err(error)),
    };
    let scope = std::mem::take(&mut task.scope);
    RunResult::finished(realm.evaluate(&task.script, scope, &slow.options).result)
}
