//! Where scripts go that have run longer than [`QUICK`]: each keeps its thread, and the threads take turns.
//!
//! - **Places** bound the threads: [`ScriptOptions::slow_threads`], of which one definition has a quarter at most, and a
//!   version whose circuit breaker is open has one.
//! - **Turns** bound the processors: half of them, at least one. A turn is [`SLICE`]; a thread whose turn is over is
//!   parked inside the interrupt handler. Turns go by halves to the one that has run least and to the one that has
//!   waited longest: what needs a moment more gets it soon, and what needs long is not forgotten.
//! - **The backlog** holds what found no place: it was interrupted, and begins again when one is free. A script changes
//!   nothing by itself, so that is not seen.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::breaker::Breakers;
use super::fair_queue::FairQueue;
use super::pool::Job;
use super::script::{ScriptError, ScriptErrorKind, ScriptOptions};
use super::ticket::Ticket;
use super::worker;

/// How long a script may keep a thread that serves others.
pub(super) const QUICK: Duration = Duration::from_millis(50);

/// One turn.
pub(super) const SLICE: Duration = Duration::from_millis(20);

/// How often a thread that waits for its turn looks by itself.
const RECHECK: Duration = Duration::from_millis(500);

/// Threads that may be left behind in loops that nothing can interrupt.
const MAX_STRAYS: usize = 8;

/// Between two warnings that there is no room for slow scripts.
const QUIET: Duration = Duration::from_secs(30);

pub(super) struct Slow {
    pub(super) options: Arc<ScriptOptions>,
    pub(super) breakers: Breakers,
    /// How many run at once.
    turns: usize,
    /// Threads left behind.
    strays: AtomicUsize,
    state: Mutex<State>,
    /// When it was last warned, in seconds since `began`.
    warned: AtomicU64,
    began: Instant,
}

#[derive(Default)]
struct State {
    places: Vec<Place>,
    backlog: FairQueue<Box<Job>>,
    /// Counts the ends of turns.
    tick: u64,
    least_is_next: bool,
}

struct Place {
    ticket: Arc<Ticket>,
    ran: Duration,
    turn: Turn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Has,
    /// Since that tick.
    WaitsSince(u64),
}

impl State {
    fn place(&mut self, ticket: &Arc<Ticket>) -> Option<&mut Place> {
        self.places.iter_mut().find(|place| Arc::ptr_eq(&place.ticket, ticket))
    }

    fn take_off(&mut self, ticket: &Arc<Ticket>) -> bool {
        let before = self.places.len();
        self.places.retain(|place| !Arc::ptr_eq(&place.ticket, ticket));
        self.places.len() < before
    }

    /// Gives out the turns that are free.
    fn grant(&mut self, turns: usize) {
        while self.places.iter().filter(|place| place.turn == Turn::Has).count() < turns {
            let least = self.least_is_next;
            let waiting = self.places.iter_mut().filter_map(|place| match place.turn {
                Turn::Has => None,
                Turn::WaitsSince(tick) => Some((if least { place.ran } else { Duration::ZERO }, tick, place)),
            });
            let Some((.., next)) = waiting.min_by_key(|(ran, tick, _)| (*ran, *tick)) else {
                return;
            };
            next.turn = Turn::Has;
            next.ticket.wake.notify_all();
            self.least_is_next = !least;
        }
    }

    fn wait_in_line(&mut self, ticket: &Arc<Ticket>, ran: Duration) {
        self.tick += 1;
        let tick = self.tick;
        if let Some(place) = self.place(ticket) {
            place.ran = ran;
            place.turn = Turn::WaitsSince(tick);
        }
    }
}

impl Slow {
    pub(super) fn new(options: Arc<ScriptOptions>) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            options,
            breakers: Breakers::default(),
            turns: (processors / 2).max(1),
            strays: AtomicUsize::new(0),
            state: Mutex::default(),
            warned: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, state: &State, ticket: &Ticket) -> bool {
        let places = self.options.slow_threads.max(1);
        let share = (places / 4).max(1);
        let of = |same: &dyn Fn(&Ticket) -> bool| state.places.iter().filter(|place| same(&place.ticket)).count();
        state.places.len() < places
            && of(&|other| other.definition == ticket.definition) < share
            && (!self.breakers.is_open(&ticket.version) || of(&|other| other.version == ticket.version) == 0)
    }

    /// Takes a place for a script that runs on a thread of the quick lane; its thread is to wait for a turn next.
    pub(super) fn take_place(&self, ticket: &Arc<Ticket>) -> bool {
        let mut state = self.lock();
        if !self.has_room(&state, ticket) {
            return false;
        }
        metrics::counter!("mainspring_slow_scripts_total").increment(1);
        self.occupy(&mut state, ticket, QUICK);
        true
    }

    fn occupy(&self, state: &mut State, ticket: &Arc<Ticket>, ran: Duration) {
        ticket.become_slow();
        state.places.push(Place {
            ticket: Arc::clone(ticket),
            ran,
            turn: Turn::WaitsSince(0),
        });
        state.wait_in_line(ticket, ran);
        state.grant(self.turns);
    }

    pub(super) fn has_place(&self, ticket: &Arc<Ticket>) -> bool {
        self.lock().place(ticket).is_some()
    }

    /// Parks the thread until it is its turn. False: its caller has gone, or has given it up.
    pub(super) fn wait_turn(&self, ticket: &Arc<Ticket>) -> bool {
        let mut state = self.lock();
        loop {
            if ticket.is_cancelled() {
                return false;
            }
            match state.place(ticket).map(|place| place.turn) {
                None => return false,
                Some(Turn::Has) => return true,
                Some(Turn::WaitsSince(_)) => {
                    let waited = ticket.wake.wait_timeout(state, RECHECK);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// The turn is over: parks the thread until the next one.
    pub(super) fn end_turn(&self, ticket: &Arc<Ticket>, ran: Duration) -> bool {
        let mut state = self.lock();
        state.wait_in_line(ticket, ran);
        state.grant(self.turns);
        drop(state);
        self.wait_turn(ticket)
    }

    /// Whoever waited for the script has gone.
    pub(super) fn nudge(&self, ticket: &Ticket) {
        let _state = self.lock();
        ticket.wake.notify_all();
    }

    /// Frees the place of a script; whether it had one.
    pub(super) fn leave(&self, ticket: &Arc<Ticket>) -> bool {
        let mut state = self.lock();
        let had = state.take_off(ticket);
        state.grant(self.turns);
        had
    }

    /// Keeps a script until there is a place. Given back: there is no room, or it must not wait here.
    pub(super) fn keep(&self, job: Box<Job>) -> Result<(), Box<Job>> {
        if self.breakers.is_open(&job.ticket.version) {
            return Err(job);
        }
        let mut state = self.lock();
        if state.backlog.len() >= self.options.queue {
            state.backlog.retain(|job| !job.ticket.is_cancelled());
            if state.backlog.len() >= self.options.queue {
                return Err(job);
            }
        }
        job.ticket.displace();
        let definition = job.ticket.definition.clone();
        state.backlog.push(&definition, job);
        Ok(())
    }

    /// A script of the backlog for which there is a place, which it has from now on.
    pub(super) fn next(&self) -> Option<Box<Job>> {
        let mut state = self.lock();
        loop {
            let mut backlog = std::mem::take(&mut state.backlog);
            let found = backlog.pop_where(|job| job.ticket.is_cancelled() || self.has_room(&state, &job.ticket));
            state.backlog = backlog;
            let job = found?;
            if !job.ticket.is_cancelled() {
                self.occupy(&mut state, &job.ticket, Duration::ZERO);
                job.ticket.take();
                return Some(job);
            }
        }
    }

    /// Starts threads for what is in the backlog and has a place now.
    pub(super) fn serve_backlog(slow: &Arc<Self>) {
        while !slow.lock().backlog.is_empty()
            && let Some(job) = slow.next()
        {
            let ticket = Arc::clone(&job.ticket);
            // Should no thread start, the job is dropped with its closure, and its caller is answered so.
            if let Err(error) = worker::start_slow(slow, job) {
                tracing::error!(%error, "no thread for a slow script could be started");
                slow.leave(&ticket);
                return;
            }
        }
    }

    /// Gives up threads whose scripts have run past their limit and ask nothing.
    pub(super) fn watch(slow: &Arc<Self>) {
        let mut state = slow.lock();
        // One that asks nothing runs without a turn as well; one that waits for its turn is never overdue.
        let is_overdue = |place: &&Place| place.ticket.is_overdue();
        while let Some(ticket) = state
            .places
            .iter()
            .find(is_overdue)
            .map(|place| Arc::clone(&place.ticket))
        {
            if slow.leave_behind().is_err() {
                return;
            }
            state.take_off(&ticket);
            state.grant(slow.turns);
        }
        drop(state);
        Self::serve_backlog(slow);
    }

    /// A thread may be left behind, in a loop that nothing interrupts.
    pub(super) fn leave_behind(&self) -> Result<(), ScriptError> {
        let more = |strays| (strays < MAX_STRAYS).then_some(strays + 1);
        if self
            .strays
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .is_err()
        {
            let message = "all threads for scripts hang in loops that cannot be interrupted";
            return Err(ScriptError::new(ScriptErrorKind::Busy, message));
        }
        tracing::error!("a script hangs where it cannot be interrupted; its thread is left behind");
        Ok(())
    }

    /// One that was left behind has come back.
    pub(super) fn comes_back(&self) {
        self.strays.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many slow scripts of a version run.
    pub(super) fn of_version(&self, version: &str) -> usize {
        let state = self.lock();
        state
            .places
            .iter()
            .filter(|place| place.ticket.version == version)
            .count()
    }

    /// Places taken, and scripts that wait for one.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.places.len(), state.backlog.len())
    }

    /// Says now and then that bursts are deferred.
    pub(super) fn warn(&self) {
        metrics::counter!("mainspring_scripts_deferred_total").increment(1);
        let now = self.began.elapsed().as_secs() + QUIET.as_secs();
        let last = self.warned.load(Ordering::Relaxed);
        if now >= last + QUIET.as_secs()
            && self
                .warned
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let slow = self.lock().places.len();
            tracing::warn!(
                slow,
                "there is no room for more slow scripts; bursts that need them are deferred"
            );
        }
    }
}
