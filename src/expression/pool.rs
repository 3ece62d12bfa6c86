//! The bounded threads on which scripts run.
//!
//! A realm cannot leave its thread, so a session sits on one *lane*: a queue and the thread that serves it. Realms live
//! on the thread's own stack, keyed by session; everything shared is in [`Lane`]. A session that finds another thread on
//! its lane gets a new realm: between two scripts of a session a realm holds nothing of theirs.
//!
//! - **Nothing runs before it is needed.** A lane's thread starts with its first job. From then on it makes realms ahead while
//!   it has nothing else to do, [`ScriptOptions::prepared`] of them: a realm takes many times as long as most scripts. Each is
//!   for one session; none is used by another one.
//! - **Fair.** Definitions take turns on a lane, and a full queue makes only its own definition wait (`fair_queue`).
//! - **Quick scripts do not wait for slow ones.** A script that has run for 50 ms leaves its lane to a new thread and goes
//!   on among the slow ones, by turns (`slow`, `pacer`). One for which there is no place begins again later.
//! - **Bounded.** A lane's queue holds [`ScriptOptions::queue`] jobs of each definition; a permit is taken before the push and
//!   given back when the thread takes the job, so the one who finds it full waits in `evaluate`, and can give up there.
//! - **Exhausted is no fault.** Where there is no room left for a script the answer is [`ScriptErrorKind::Busy`], and the
//!   burst is handed back. So it is where a definition's scripts keep timing out (`breaker`).
//! - **Dropped is dropped.** A caller that goes away sets its job's flag: a waiting job is skipped, a running one
//!   interrupted. A session that goes away leaves its number in the lane's list; the thread frees the realm before it
//!   takes the next job. The list is no queue that could be full: it holds at most one number per live realm.
//! - **A thread that does not come back is left behind.** Some native loops of the engine never ask the interrupt
//!   handler. Who waits for a script watches the lane, and the slow ones as well; a thread that is [`GRACE`] past its
//!   limit loses its lane or its place. It ends when its loop does. There are at most eight of these.
//!
//! [`GRACE`]: super::pacer::GRACE

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::fair_queue::{FairQueue, Rooms};
use super::pacer::GRACE;
use super::script::{ScriptError, ScriptErrorKind, ScriptOptions, ScriptResult, ScriptScope};
use super::slow::{QUICK, Slow};
use super::ticket::Ticket;
use super::worker;

pub(super) type Answer = Result<ScriptResult, ScriptError>;

/// How often one who waits for a script watches the threads.
const WATCH: Duration = Duration::from_millis(100);

/// How long it may take to take away what a script left behind; its getters may run then.
pub(super) const SWEEP_LIMIT: Duration = Duration::from_millis(50);

/// How long a script waits for a slow place before its burst is handed back.
const PLACE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a burst is left alone for which there was no room, and one of a version whose breaker is open; jittered.
const DEFERRED: Duration = Duration::from_secs(2);
const BREAKER_PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Pool {
    lanes: Vec<Arc<Lane>>,
    slow: Arc<Slow>,
    next_session: AtomicU64,
}

/// A session's place in the pool.
pub(super) struct Seat {
    pool: Arc<Pool>,
    session: u64,
    lane: OnceLock<Arc<Lane>>,
}

pub(super) struct Lane {
    pub(super) options: Arc<ScriptOptions>,
    pub(super) slow: Arc<Slow>,
    rooms: Rooms,
    /// Sessions that sit here.
    sessions: AtomicUsize,
    /// Realms that its thread has made ahead.
    pub(super) prepared: AtomicUsize,
    /// Realms that a script had to wait for.
    pub(super) late: AtomicUsize,
    state: Mutex<State>,
    pub(super) wake: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) queue: FairQueue<Box<Job>>,
    /// Sessions whose realm is to be freed.
    pub(super) gone: VecDeque<u64>,
    /// Which thread serves this lane. One that finds another number here has been replaced.
    pub(super) generation: u64,
    pub(super) served: bool,
    pub(super) running: Option<Running>,
    pub(super) closed: bool,
}

/// What runs on a lane, and since when.
pub(super) struct Running {
    /// None: what a script left is taken away.
    pub(super) ticket: Option<Arc<Ticket>>,
    pub(super) since: Instant,
}

pub(super) struct Job {
    pub(super) session: u64,
    pub(super) script: String,
    pub(super) scope: ScriptScope,
    pub(super) ticket: Arc<Ticket>,
    pub(super) answer: oneshot::Sender<Answer>,
    /// Given back when a thread takes it.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl Pool {
    pub(super) fn new(options: ScriptOptions) -> Self {
        let options = Arc::new(options);
        let slow = Arc::new(Slow::new(Arc::clone(&options)));
        let lane = |_| {
            Arc::new(Lane {
                options: Arc::clone(&options),
                slow: Arc::clone(&slow),
                rooms: Rooms::new(options.queue),
                sessions: AtomicUsize::new(0),
                prepared: AtomicUsize::new(0),
                late: AtomicUsize::new(0),
                state: Mutex::default(),
                wake: Condvar::new(),
            })
        };
        Self {
            lanes: (0..options.threads.max(1)).map(lane).collect(),
            slow,
            next_session: AtomicU64::new(0),
        }
    }

    /// Realms that its threads have made ahead, and those that a script had to wait for.
    #[cfg(test)]
    pub(super) fn realms(&self) -> (usize, usize) {
        let sum = |of: fn(&Lane) -> &AtomicUsize| self.lanes.iter().map(|lane| of(lane).load(Ordering::Relaxed)).sum();
        (sum(|lane| &lane.prepared), sum(|lane| &lane.late))
    }

    #[cfg(test)]
    pub(super) fn slow(&self) -> (usize, usize) {
        self.slow.counts()
    }

    pub(super) fn seat(pool: &Arc<Self>) -> Seat {
        let session = pool.next_session.fetch_add(1, Ordering::Relaxed);
        Seat {
            pool: Arc::clone(pool),
            session,
            lane: OnceLock::new(),
        }
    }

    /// For how long a burst must not begin: scripts of its version keep timing out, and its own was deferred for that.
    pub(super) fn deferral(&self, version: &str, instance: &str) -> Option<Duration> {
        let busy = || self.slow.of_version(version) > 0;
        let trial = self.slow.options.time_limit;
        let may = self.slow.breakers.may_begin(version, instance, trial, busy);
        (!may).then(|| jittered(BREAKER_PAUSE))
    }
}

fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.75..1.25))
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
        let ticket = Arc::new(Ticket::new(&scope.workflow));
        let mut waiting = Box::pin(lane.rooms.of(&ticket.definition).acquire_owned());
        let room = loop {
            match tokio::time::timeout(WATCH, &mut waiting).await {
                Ok(room) => break room.map_err(closed)?,
                Err(_) => Lane::watch(lane)?,
            }
        };
        let (answer, mut receiver) = oneshot::channel();
        let _cancelled = CancelOnDrop(&ticket, &lane.slow);
        let job = Job {
            session: self.session,
            script: script.to_owned(),
            scope,
            ticket: Arc::clone(&ticket),
            answer,
            room: Some(room),
        };
        Lane::push(lane, Box::new(job))?;
        loop {
            match tokio::time::timeout(WATCH, &mut receiver).await {
                Ok(Ok(answer)) => return answer,
                // The job was dropped: its thread panicked, or could not be started.
                Ok(Err(_)) => {
                    return Err(ScriptError::new(ScriptErrorKind::Busy, "the script's thread was lost"));
                }
                Err(_) => {}
            }
            // Before its thread is given up, which counts as rest.
            let is_overdue = ticket.is_overdue();
            let watched = Lane::watch(lane);
            Slow::watch(&lane.slow);
            if is_overdue {
                lane.slow.breakers.timed_out(&ticket);
                let limit = lane.options.time_limit;
                let message =
                    format!("the script ran longer than its limit of {limit:?}, where nothing can interrupt it");
                return Err(ScriptError::new(ScriptErrorKind::Timeout, message));
            }
            if !ticket.is_taken() {
                watched?;
            }
            if ticket.displaced_for() >= PLACE_TIMEOUT {
                return Err(lane.refuse(&ticket));
            }
        }
    }

    /// For how long a burst is to be left alone whose script found no room.
    pub(super) fn pause(&self, version: &str) -> Duration {
        let is_open = self.pool.slow.breakers.is_open(version);
        jittered(if is_open { BREAKER_PAUSE } else { DEFERRED })
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
                state.gone.push_back(self.session);
                lane.wake.notify_all();
            }
        }
    }
}

struct CancelOnDrop<'a>(&'a Ticket, &'a Slow);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.0.cancel() {
            self.1.nudge(self.0);
        }
    }
}

impl Lane {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(lane: &Arc<Self>, job: Box<Job>) -> Result<(), ScriptError> {
        let mut state = lane.lock();
        if !state.served {
            Self::serve(lane, &mut state)?;
        }
        let ticket = Arc::clone(&job.ticket);
        state.queue.push(&ticket.definition, job);
        lane.wake.notify_all();
        Ok(())
    }

    /// There is no room for a script: its burst is to be handed back.
    pub(super) fn refuse(&self, ticket: &Ticket) -> ScriptError {
        self.slow.breakers.remember(ticket);
        self.slow.warn();
        let message = "there is no room for another slow script now";
        ScriptError::new(ScriptErrorKind::Busy, message)
    }

    /// Gives the lane to a new thread, and a slow place to the script that runs on it. False: there is none.
    pub(super) fn hand_over(lane: &Arc<Self>, generation: u64, ticket: &Arc<Ticket>) -> bool {
        let mut state = lane.lock();
        if state.generation != generation {
            return lane.slow.has_place(ticket);
        }
        Self::replace_slow(lane, &mut state, ticket)
    }

    fn replace_slow(lane: &Arc<Self>, state: &mut State, ticket: &Arc<Ticket>) -> bool {
        if !lane.slow.take_place(ticket) {
            return false;
        }
        let served = Self::serve(lane, state).is_ok();
        if !served {
            lane.slow.leave(ticket);
        }
        served
    }

    /// Replaces the lane's thread if what runs on it asks nothing, or if it has ended with jobs in the queue.
    fn watch(lane: &Arc<Self>) -> Result<(), ScriptError> {
        let mut state = lane.lock();
        if let Some(Running { ticket, since }) = &state.running {
            let (ticket, since) = (ticket.clone(), *since);
            let is_overdue = match &ticket {
                Some(ticket) => ticket.is_overdue(),
                None => since.elapsed() >= SWEEP_LIMIT + GRACE,
            };
            if is_overdue {
                lane.slow.leave_behind()?;
                if let Err(error) = Self::serve(lane, &mut state) {
                    lane.slow.comes_back();
                    return Err(error);
                }
            } else if let Some(ticket) = ticket
                && since.elapsed() >= QUICK * 2
            {
                Self::replace_slow(lane, &mut state, &ticket);
            }
        }
        if !state.served && !state.queue.is_empty() {
            Self::serve(lane, &mut state)?;
        }
        Ok(())
    }

    /// Starts a thread for the lane, which waits until the caller lets go of the state.
    fn serve(lane: &Arc<Self>, state: &mut State) -> Result<(), ScriptError> {
        let generation = state.generation + 1;
        if let Err(error) = worker::start(lane, generation) {
            let message = format!("no thread for scripts could be started: {error}");
            return Err(ScriptError::new(ScriptErrorKind::Busy, message));
        }
        state.generation = generation;
        state.served = true;
        state.running = None;
        state.gone.clear();
        lane.prepared.store(0, Ordering::Relaxed);
        Ok(())
    }
}
