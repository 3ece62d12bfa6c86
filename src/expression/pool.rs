//! The bounded threads on which scripts run.
//!
//! A realm cannot leave its thread, so a session sits on one *lane*: a queue and the thread that serves it. Realms live
//! on the thread's own stack, keyed by session; everything shared is in [`Lane`].
//!
//! - **Nothing runs before it is needed.** A lane's thread starts with its first job. From then on it makes realms ahead while
//!   it has nothing else to do, [`ScriptOptions::prepared`] of them: a realm takes many times as long as most scripts. Each is
//!   for one session; none is used by another one.
//! - **Bounded.** A lane's queue holds [`ScriptOptions::queue`] jobs; a permit is taken before the push and given back
//!   when the thread takes the job, so the one who finds it full waits in `evaluate`, and can give up there.
//! - **Dropped is dropped.** A caller that goes away sets its job's flag: a waiting job is skipped, a running one
//!   interrupted. A session that goes away leaves its number in the lane's list; the thread frees the realm before it
//!   takes the next job. The list is no queue that could be full: it holds at most one number per live realm.
//! - **Answered, then swept.** What a script left on the global object is taken away when its caller has its answer.
//! - **A panic is seen.** It is caught around each job and logged; the lane's realms are dropped (sessions make new
//!   ones) and the thread goes on. Should the thread itself end, the next push starts another.
//! - **A thread that does not come back is left behind.** Some native loops of the engine never ask the interrupt
//!   handler. Whoever waits on a lane watches the job that runs on it; one that is [`GRACE`] past its limit loses its
//!   lane to a new thread, which inherits the queue. The old one ends when its loop does. There are at most
//!   [`MAX_STRAYS`] of these; with more, callers get [`ScriptErrorKind::Closed`] until one has ended.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::realm::Realm;
use super::script::{ScriptError, ScriptErrorKind, ScriptOptions, ScriptResult, ScriptScope};

type Answer = Result<ScriptResult, ScriptError>;

/// How long past its time limit a script may stay before its thread is given up. The engine looks up every few
/// thousand steps, which takes well under a millisecond; the rest is for a machine that is busy.
const GRACE: Duration = Duration::from_millis(500);

/// Threads of one pool that may be left behind in loops that nothing can interrupt.
const MAX_STRAYS: usize = 8;

/// How long a thread waits for a script before it makes a realm ahead: the next one of a burst comes soon.
const QUIET: Duration = Duration::from_millis(2);

/// How long it may take to take away what a script left behind; its getters may run then.
const SWEEP_LIMIT: Duration = Duration::from_millis(50);

/// Stack beyond what scripts may use: for the engine's native frames, and for ours.
const NATIVE_STACK: usize = 2 << 20;

pub(super) struct Pool {
    lanes: Vec<Arc<Lane>>,
    next_session: AtomicU64,
}

/// A session's place in the pool.
pub(super) struct Seat {
    pool: Arc<Pool>,
    session: u64,
    lane: OnceLock<Arc<Lane>>,
}

struct Lane {
    options: Arc<ScriptOptions>,
    /// Threads left behind, over all lanes.
    strays: Arc<AtomicUsize>,
    /// Room in the queue.
    room: Arc<Semaphore>,
    /// Sessions that sit here.
    sessions: AtomicUsize,
    /// Realms that its thread has made ahead.
    prepared: AtomicUsize,
    /// Realms that a script had to wait for.
    late: AtomicUsize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// Sessions whose realm is to be freed.
    gone: Vec<u64>,
    /// Which thread serves this lane. One that finds another number here has been replaced.
    generation: u64,
    served: bool,
    /// Since when a job runs.
    running: Option<Instant>,
    closed: bool,
}

struct Job {
    session: u64,
    script: String,
    scope: ScriptScope,
    cancelled: Arc<AtomicBool>,
    /// The generation of the thread that took it; 0 while it waits.
    taken_by: Arc<AtomicU64>,
    answer: oneshot::Sender<Answer>,
    room: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(options: ScriptOptions) -> Self {
        let options = Arc::new(options);
        let strays = Arc::new(AtomicUsize::new(0));
        let lane = |_| {
            Arc::new(Lane {
                options: Arc::clone(&options),
                strays: Arc::clone(&strays),
                room: Arc::new(Semaphore::new(options.queue.clamp(1, Semaphore::MAX_PERMITS))),
                sessions: AtomicUsize::new(0),
                prepared: AtomicUsize::new(0),
                late: AtomicUsize::new(0),
                state: Mutex::default(),
                wake: Condvar::new(),
            })
        };
        Self {
            lanes: (0..options.threads.max(1)).map(lane).collect(),
            next_session: AtomicU64::new(0),
        }
    }

    /// Realms that its threads have made ahead, and those that a script had to wait for.
    #[cfg(test)]
    pub(super) fn realms(&self) -> (usize, usize) {
        let sum = |of: fn(&Lane) -> &AtomicUsize| self.lanes.iter().map(|lane| of(lane).load(Ordering::Relaxed)).sum();
        (sum(|lane| &lane.prepared), sum(|lane| &lane.late))
    }

    pub(super) fn seat(pool: &Arc<Self>) -> Seat {
        let session = pool.next_session.fetch_add(1, Ordering::Relaxed);
        Seat {
            pool: Arc::clone(pool),
            session,
            lane: OnceLock::new(),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for lane in &self.lanes {
            lane.lock().closed = true;
            lane.wake.notify_all();
        }
    }
}

impl Seat {
    pub(super) async fn evaluate(&self, script: &str, scope: ScriptScope) -> Answer {
        let lane = self.lane()?;
        let closed = |_| ScriptError::new(ScriptErrorKind::Closed, "the script engine has ended");
        let mut waiting = Box::pin(Arc::clone(&lane.room).acquire_owned());
        let room = loop {
            match tokio::time::timeout(lane.patience(), &mut waiting).await {
                Ok(room) => break room.map_err(closed)?,
                Err(_) => Lane::watch(lane)?,
            }
        };
        let (answer, mut receiver) = oneshot::channel();
        let cancelled = CancelOnDrop(Arc::new(AtomicBool::new(false)));
        let taken_by = Arc::new(AtomicU64::new(0));
        Lane::push(
            lane,
            Job {
                session: self.session,
                script: script.to_owned(),
                scope,
                cancelled: Arc::clone(&cancelled.0),
                taken_by: Arc::clone(&taken_by),
                answer,
                room,
            },
        )?;
        loop {
            match tokio::time::timeout(lane.patience(), &mut receiver).await {
                Ok(Ok(answer)) => return answer,
                // The job was dropped: its thread panicked, or was left behind in it.
                Ok(Err(_)) => {
                    return Err(ScriptError::new(
                        ScriptErrorKind::Closed,
                        "the script's thread was lost",
                    ));
                }
                Err(_) => Lane::watch(lane)?,
            }
            let taken_by = taken_by.load(Ordering::Relaxed);
            if taken_by != 0 && taken_by != lane.lock().generation {
                let limit = lane.options.time_limit;
                let message =
                    format!("the script ran longer than its limit of {limit:?}, where nothing can interrupt it");
                return Err(ScriptError::new(ScriptErrorKind::Timeout, message));
            }
        }
    }

    /// The lane with the fewest sessions, from now on.
    fn lane(&self) -> Result<&Arc<Lane>, ScriptError> {
        if let Some(lane) = self.lane.get() {
            return Ok(lane);
        }
        let least = self
            .pool
            .lanes
            .iter()
            .min_by_key(|lane| lane.sessions.load(Ordering::Relaxed));
        let least = least.ok_or_else(|| ScriptError::new(ScriptErrorKind::Closed, "there are no script threads"))?;
        Ok(self.lane.get_or_init(|| {
            least.sessions.fetch_add(1, Ordering::Relaxed);
            Arc::clone(least)
        }))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.get() {
            lane.sessions.fetch_sub(1, Ordering::Relaxed);
            let mut state = lane.lock();
            if state.served {
                state.gone.push(self.session);
                lane.wake.notify_all();
            }
        }
    }
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long to wait before looking after the lane's thread.
    fn patience(&self) -> Duration {
        self.options.time_limit.saturating_add(GRACE)
    }

    fn push(lane: &Arc<Self>, job: Job) -> Result<(), ScriptError> {
        let mut state = lane.lock();
        if !state.served {
            Self::serve(lane, &mut state)?;
        }
        state.queue.push_back(job);
        lane.wake.notify_all();
        Ok(())
    }

    /// Replaces the lane's thread if the job on it is overdue, or if it has ended with jobs in the queue.
    fn watch(lane: &Arc<Self>) -> Result<(), ScriptError> {
        let mut state = lane.lock();
        let overdue = state.running.is_some_and(|since| since.elapsed() >= lane.patience());
        if overdue {
            if lane.strays.load(Ordering::Relaxed) >= MAX_STRAYS {
                let message = "all threads for scripts hang in loops that cannot be interrupted";
                return Err(ScriptError::new(ScriptErrorKind::Closed, message));
            }
            tracing::error!("a script hangs where it cannot be interrupted; its thread is left behind");
            lane.strays.fetch_add(1, Ordering::Relaxed);
            state.served = false;
        }
        if !state.served && !state.queue.is_empty() || overdue {
            Self::serve(lane, &mut state)?;
        }
        Ok(())
    }

    fn serve(lane: &Arc<Self>, state: &mut State) -> Result<(), ScriptError> {
        state.generation += 1;
        state.running = None;
        state.gone.clear();
        let generation = state.generation;
        let mine = Arc::clone(lane);
        let started = thread::Builder::new()
            .name("script".to_owned())
            .stack_size(lane.options.stack_limit.saturating_add(NATIVE_STACK))
            .spawn(move || {
                Worker {
                    lane: mine,
                    generation,
                    realms: HashMap::new(),
                    prepared: Vec::new(),
                    has_run: false,
                }
                .run()
            });
        match started {
            Ok(_) => {
                state.served = true;
                Ok(())
            }
            Err(error) => {
                let message = format!("no thread for scripts could be started: {error}");
                Err(ScriptError::new(ScriptErrorKind::Closed, message))
            }
        }
    }
}

/// A lane's thread.
struct Worker {
    lane: Arc<Lane>,
    generation: u64,
    realms: HashMap<u64, Realm>,
    /// Made ahead, and used by nobody yet.
    prepared: Vec<Realm>,
    has_run: bool,
}

/// What a lane's thread does next.
enum Step {
    Run(Box<Job>),
    Free(u64),
    Prepare,
}

impl Worker {
    fn run(mut self) {
        while let Some(job) = self.next() {
            let Job {
                session,
                script,
                scope,
                cancelled,
                answer,
                room,
                ..
            } = job;
            drop(room);
            let outcome = catch_unwind(AssertUnwindSafe(|| self.evaluate(session, &script, scope, &cancelled)));
            let outcome = outcome.unwrap_or_else(|_| {
                tracing::error!("evaluating a script panicked; its thread starts over");
                self.realms.clear();
                self.prepared.clear();
                Err(ScriptError::new(
                    ScriptErrorKind::Closed,
                    "evaluating the script failed inside the engine",
                ))
            });
            // Nobody may be waiting any more.
            self.runs(None);
            let _ = answer.send(outcome);
            if let Some(realm) = self.realms.remove(&session) {
                // Watched as a script is: it may hang as well.
                self.runs(Some(Instant::now()));
                let swept = catch_unwind(AssertUnwindSafe(|| realm.sweep(Instant::now() + SWEEP_LIMIT)));
                if swept.unwrap_or(false) {
                    self.realms.insert(session, realm);
                }
                self.runs(None);
            }
        }
    }

    /// Says since when something runs here that may hang.
    fn runs(&self, since: Option<Instant>) {
        let mut state = self.lane.lock();
        if state.generation == self.generation {
            state.running = since;
        }
    }

    /// The next job that somebody still waits for; none if this thread is to end.
    fn next(&mut self) -> Option<Job> {
        loop {
            match self.step()? {
                Step::Run(job) => return Some(*job),
                Step::Free(session) => drop(self.realms.remove(&session)),
                Step::Prepare => match catch_unwind(AssertUnwindSafe(|| Realm::new(&self.lane.options))) {
                    Ok(Ok(realm)) => {
                        self.prepared.push(realm);
                        self.lane.prepared.store(self.prepared.len(), Ordering::Relaxed);
                    }
                    failed => {
                        // Whoever needs one is told.
                        let error = failed.ok().and_then(Result::err);
                        tracing::debug!(?error, "no realm could be made ahead");
                        self.has_run = false;
                    }
                },
            }
        }
    }

    /// One thing at a time: whatever comes meanwhile waits for no more than that.
    fn step(&mut self) -> Option<Step> {
        let wants_more = self.has_run && self.prepared.len() < self.lane.options.prepared;
        let mut state = self.lane.lock();
        loop {
            if state.generation != self.generation {
                return None;
            }
            if let Some(session) = state.gone.pop() {
                return Some(Step::Free(session));
            }
            while let Some(job) = state.queue.pop_front() {
                if !job.cancelled.load(Ordering::Relaxed) {
                    job.taken_by.store(self.generation, Ordering::Relaxed);
                    state.running = Some(Instant::now());
                    return Some(Step::Run(Box::new(job)));
                }
            }
            if state.closed {
                return None;
            }
            if !wants_more {
                state = self.lane.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.lane.wake.wait_timeout(state, QUIET);
            let (next, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            let is_quiet = state.queue.is_empty() && state.gone.is_empty() && !state.closed;
            if waited.timed_out() && is_quiet && state.generation == self.generation {
                return Some(Step::Prepare);
            }
        }
    }

    fn evaluate(&mut self, session: u64, script: &str, scope: ScriptScope, cancelled: &Arc<AtomicBool>) -> Answer {
        let options = &self.lane.options;
        self.has_run = true;
        let realm = match self.realms.remove(&session) {
            Some(realm) => realm,
            None => {
                let ahead = self.prepared.pop();
                let made = if ahead.is_some() { "ahead" } else { "late" };
                metrics::counter!("mainspring_script_realms_total", "made" => made).increment(1);
                if let Some(realm) = ahead {
                    self.lane.prepared.store(self.prepared.len(), Ordering::Relaxed);
                    realm
                } else {
                    self.lane.late.fetch_add(1, Ordering::Relaxed);
                    Realm::new(options)?
                }
            }
        };
        let deadline = Instant::now() + options.time_limit;
        let evaluation = realm.evaluate(script, scope, options, deadline, cancelled);
        // A realm that is not put back is freed here: it is spent, or a panic came by.
        if !evaluation.spent {
            self.realms.insert(session, realm);
        }
        evaluation.result
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.lane.lock();
        if state.generation == self.generation {
            state.served = false;
            state.running = None;
        } else {
            self.lane.strays.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
