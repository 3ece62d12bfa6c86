//! A thread that runs scripts: it serves a lane until its script turns out to be slow, and slow ones from then on.
//!
//! **A panic is seen.** It is caught around each job and logged; the thread's realms are dropped (sessions get new ones)
//! and it goes on. Should the thread itself end, the next push starts another.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::pacer::{Pacer, Stop};
use super::pool::{Answer, Job, Lane, Running, SWEEP_LIMIT};
use super::realm::Realm;
use super::script::{ScriptError, ScriptErrorKind, ScriptOptions, ScriptScope};
use super::slow::Slow;
use super::ticket::Ticket;

/// How long a thread waits for a script before it makes a realm ahead: the next one of a burst comes soon.
const QUIET: Duration = Duration::from_millis(2);

/// Stack beyond what scripts may use: for the engine's native frames, and for ours.
const NATIVE_STACK: usize = 2 << 20;

/// Starts the thread that serves a lane as this generation.
pub(super) fn start(lane: &Arc<Lane>, generation: u64) -> io::Result<()> {
    let lane = Arc::clone(lane);
    spawn("script", &Arc::clone(&lane.options), move || {
        let shelf = Rc::<RefCell<Shelf>>::default();
        let mine = (Arc::clone(&lane), Rc::clone(&shelf));
        let hand_over = move |ticket: &Arc<Ticket>| {
            let handed = Lane::hand_over(&mine.0, generation, ticket);
            if handed {
                // Sessions find no realm here any more.
                let others = std::mem::take(&mut *mine.1.borrow_mut());
                drop(others);
            }
            handed
        };
        let pacer = Rc::new(Pacer::new(&lane.slow, Box::new(hand_over)));
        let mut worker = Worker {
            lane,
            generation,
            pacer,
            shelf,
            has_run: false,
        };
        if worker.serve_lane() {
            serve_slow(&Arc::clone(&worker.lane.slow), &Rc::clone(&worker.pacer), None);
        }
    })
}

/// Starts a thread for a script that has a slow place.
pub(super) fn start_slow(slow: &Arc<Slow>, job: Box<Job>) -> io::Result<()> {
    let slow = Arc::clone(slow);
    spawn("script-slow", &Arc::clone(&slow.options), move || {
        let pacer = Rc::new(Pacer::new(&slow, Box::new(|_| false)));
        serve_slow(&slow, &pacer, Some(job));
    })
}

fn spawn(name: &str, options: &ScriptOptions, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(options.stack_limit.saturating_add(NATIVE_STACK))
        .spawn(run)
        .map(drop)
}

/// Realms of a thread.
#[derive(Default)]
struct Shelf {
    realms: HashMap<u64, Realm>,
    /// Made ahead, and not used yet.
    prepared: Vec<Realm>,
}

/// A lane's thread.
struct Worker {
    lane: Arc<Lane>,
    generation: u64,
    pacer: Rc<Pacer>,
    shelf: Rc<RefCell<Shelf>>,
    has_run: bool,
}

/// What a lane's thread does next.
enum Step {
    Run(Box<Job>),
    Free(u64),
    Prepare,
}

/// How an evaluation ended.
enum Ran {
    Answered(Box<Answer>),
    /// It is to begin again, with this.
    Displaced(Box<ScriptScope>),
}

impl Ran {
    fn answered(answer: Answer) -> Self {
        Self::Answered(Box::new(answer))
    }
}

impl Worker {
    /// Runs scripts until the lane ends or has another thread. True: this one has a slow place less to give back, and
    /// may serve what waits for one.
    fn serve_lane(&mut self) -> bool {
        while let Some(mut job) = self.next() {
            drop(job.room.take());
            let (session, ticket) = (job.session, Arc::clone(&job.ticket));
            let ran = catch_unwind(AssertUnwindSafe(|| self.evaluate(&mut job)));
            let ran = ran.unwrap_or_else(|_| {
                *self.shelf.borrow_mut() = Shelf::default();
                panicked()
            });
            self.pacer.end();
            let is_mine = self.runs(None);
            let had_place = !is_mine && self.lane.slow.leave(&ticket);
            finish(
                &self.lane,
                job,
                ran,
                self.pacer.is_slow() || had_place,
                self.pacer.stop(),
            );
            if !is_mine {
                if !had_place {
                    self.lane.slow.comes_back();
                }
                return had_place;
            }
            if !self.sweep(session) {
                self.lane.slow.comes_back();
                return false;
            }
        }
        false
    }

    /// Takes away what the script of a session has left. False: this thread was left behind meanwhile.
    fn sweep(&mut self, session: u64) -> bool {
        let Some(realm) = self.shelf.borrow_mut().realms.remove(&session) else {
            return true;
        };
        // Watched as a script is: it may hang as well.
        self.runs(Some(Running {
            ticket: None,
            since: Instant::now(),
        }));
        self.pacer.begin_sweep(SWEEP_LIMIT);
        let swept = catch_unwind(AssertUnwindSafe(|| realm.sweep()));
        if swept.unwrap_or(false) {
            self.shelf.borrow_mut().realms.insert(session, realm);
        }
        self.runs(None)
    }

    /// Says what runs here that may hang. False: another thread serves the lane.
    fn runs(&self, running: Option<Running>) -> bool {
        let mut state = self.lane.lock();
        let is_mine = state.generation == self.generation;
        if is_mine {
            state.running = running;
        }
        is_mine
    }

    /// The next job whose caller still waits for it; none if this thread is to end.
    fn next(&mut self) -> Option<Box<Job>> {
        loop {
            match self.step()? {
                Step::Run(job) => return Some(job),
                Step::Free(session) => {
                    let realm = self.shelf.borrow_mut().realms.remove(&session);
                    drop(realm);
                }
                Step::Prepare => match catch_unwind(AssertUnwindSafe(|| self.make())) {
                    Ok(Ok(realm)) => {
                        let mut shelf = self.shelf.borrow_mut();
                        shelf.prepared.push(realm);
                        self.lane.prepared.store(shelf.prepared.len(), Ordering::Relaxed);
                    }
                    failed => {
                        // The one that needs one is answered so.
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
        let wants_more = self.has_run && self.shelf.borrow().prepared.len() < self.lane.options.prepared;
        let mut state = self.lane.lock();
        loop {
            if state.generation != self.generation {
                return None;
            }
            if let Some(session) = state.gone.pop_front() {
                return Some(Step::Free(session));
            }
            while let Some(job) = state.queue.pop_where(|_| true) {
                if !job.ticket.is_cancelled() {
                    job.ticket.take();
                    state.running = Some(Running {
                        ticket: Some(Arc::clone(&job.ticket)),
                        since: Instant::now(),
                    });
                    return Some(Step::Run(job));
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

    fn evaluate(&mut self, job: &mut Job) -> Ran {
        self.has_run = true;
        let realm = match self.realm(job.session) {
            Ok(realm) => realm,
            Err(error) => return Ran::answered(Err(error)),
        };
        self.pacer.begin(&job.ticket);
        let evaluation = realm.evaluate(&job.script, std::mem::take(&mut job.scope), &self.lane.options);
        // A realm that is not put back is freed here: it is spent, its thread is slow now, or a panic came by.
        if !evaluation.spent && !self.pacer.is_slow() {
            self.shelf.borrow_mut().realms.insert(job.session, realm);
        }
        match self.pacer.stop() {
            Some(Stop::Displaced) => Ran::Displaced(Box::new(evaluation.scope)),
            _ => Ran::answered(evaluation.result),
        }
    }

    fn realm(&self, session: u64) -> Result<Realm, ScriptError> {
        let mut shelf = self.shelf.borrow_mut();
        if let Some(realm) = shelf.realms.remove(&session) {
            return Ok(realm);
        }
        let ahead = shelf.prepared.pop();
        let made = if ahead.is_some() { "ahead" } else { "late" };
        metrics::counter!("mainspring_script_realms_total", "made" => made).increment(1);
        if let Some(realm) = ahead {
            self.lane.prepared.store(shelf.prepared.len(), Ordering::Relaxed);
            return Ok(realm);
        }
        drop(shelf);
        self.lane.late.fetch_add(1, Ordering::Relaxed);
        self.make()
    }

    fn make(&self) -> Result<Realm, ScriptError> {
        self.pacer.pause();
        Realm::new(&self.lane.options, &self.pacer)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Realms know the pacer, which knows them.
        let realms = std::mem::take(&mut *self.shelf.borrow_mut());
        drop(realms);
        let mut state = self.lane.lock();
        if state.generation == self.generation {
            state.served = false;
            state.running = None;
        }
    }
}

fn panicked() -> Ran {
    tracing::error!("evaluating a script panicked; its thread starts over");
    Ran::answered(Err(ScriptError::new(
        ScriptErrorKind::Closed,
        "evaluating the script failed inside the engine",
    )))
}

/// Answers, or keeps the script for another time. Its place is free.
fn finish(lane: &Lane, mut job: Box<Job>, ran: Ran, was_slow: bool, stop: Option<Stop>) {
    match ran {
        Ran::Answered(answer) => conclude(&lane.slow, job, *answer, was_slow, stop),
        Ran::Displaced(scope) => {
            job.scope = *scope;
            let ticket = Arc::clone(&job.ticket);
            if let Err(job) = lane.slow.keep(job) {
                let _ = job.answer.send(Err(lane.refuse(&ticket)));
            }
        }
    }
    Slow::serve_backlog(&lane.slow);
}

fn conclude(slow: &Slow, job: Box<Job>, answer: Answer, was_slow: bool, stop: Option<Stop>) {
    if stop == Some(Stop::TimedOut) {
        slow.breakers.timed_out(&job.ticket);
    } else if was_slow && stop.is_none() {
        slow.breakers.ended(&job.ticket);
    }
    // The caller may have gone.
    let _ = job.answer.send(answer);
}

/// Runs scripts that have slow places, one after another, until none waits for one.
fn serve_slow(slow: &Arc<Slow>, pacer: &Rc<Pacer>, first: Option<Box<Job>>) {
    let mut next = first.or_else(|| slow.next());
    while let Some(mut job) = next {
        let ran = catch_unwind(AssertUnwindSafe(|| evaluate_slow(slow, pacer, &mut job)));
        let answer = match ran.unwrap_or_else(|_| panicked()) {
            Ran::Answered(answer) => *answer,
            Ran::Displaced(_) => Err(ScriptError::new(ScriptErrorKind::Busy, "the script found no place")),
        };
        pacer.end();
        if !slow.leave(&job.ticket) {
            slow.comes_back();
            return;
        }
        conclude(slow, job, answer, true, pacer.stop());
        next = slow.next();
    }
}

fn evaluate_slow(slow: &Slow, pacer: &Rc<Pacer>, job: &mut Job) -> Ran {
    if !pacer.begin_slow(&job.ticket) {
        return Ran::answered(Err(ScriptError::new(
            ScriptErrorKind::Closed,
            "the script was cancelled",
        )));
    }
    let realm = match Realm::new(&slow.options, pacer) {
        Ok(realm) => realm,
        Err(error) => return Ran::answered(Err(error)),
    };
    let scope = std::mem::take(&mut job.scope);
    Ran::answered(realm.evaluate(&job.script, scope, &slow.options).result)
}
