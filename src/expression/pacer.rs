//! What a script's thread asks again and again: whether the script may go on.
//!
//! The interrupt handler comes here. Most often the answer is a comparison of times. When the script has run for
//! [`QUICK`], it leaves its lane to another thread and goes on among the slow ones; when its turn there is over, its
//! thread waits here for the next one. The time limit counts the time in which it ran, not the time that it waited.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::slow::{QUICK, SLICE, Slow};
use super::ticket::Ticket;

/// How long past its limit a script may stay before its thread is given up. The engine asks every few thousand steps,
/// which takes well under a millisecond; the rest is for a machine that is busy.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// Longer than anything takes here.
const UNBOUNDED: Duration = Duration::from_secs(3600);

/// Why a script was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    TimedOut,
    Cancelled,
    /// It is slow, and there is no place for it: it begins again when there is one.
    Displaced,
}

pub(super) type HandOver = Box<dyn Fn(&Arc<Ticket>) -> bool>;

/// The clock of a thread.
pub(super) struct Pacer {
    slow: Arc<Slow>,
    /// Gives the lane to another thread; false: there is no slow place for the script.
    hand_over: HandOver,
    ticket: RefCell<Option<Arc<Ticket>>>,
    is_slow: Cell<bool>,
    stop: Cell<Option<Stop>>,
    deadline: Cell<Instant>,
    /// When there is more to ask than whether the caller is still there.
    next: Cell<Instant>,
    /// Since when it runs this time, and for how long it ran before.
    since: Cell<Instant>,
    before: Cell<Duration>,
}

impl Pacer {
    pub(super) fn new(slow: &Arc<Slow>, hand_over: HandOver) -> Self {
        let now = Instant::now();
        Self {
            slow: Arc::clone(slow),
            hand_over,
            ticket: RefCell::new(None),
            is_slow: Cell::new(false),
            stop: Cell::new(None),
            deadline: Cell::new(now),
            next: Cell::new(now),
            since: Cell::new(now),
            before: Cell::new(Duration::ZERO),
        }
    }

    /// A script begins, on a thread of the quick lane.
    pub(super) fn begin(&self, ticket: &Arc<Ticket>) {
        self.is_slow.set(false);
        self.set_off(ticket, QUICK);
    }

    /// A script begins that has a slow place, when it is its turn. False: it is not wanted any more.
    pub(super) fn begin_slow(&self, ticket: &Arc<Ticket>) -> bool {
        self.is_slow.set(true);
        if !self.slow.wait_turn(ticket) {
            self.stop.set(Some(Stop::Cancelled));
            return false;
        }
        self.set_off(ticket, SLICE);
        true
    }

    fn set_off(&self, ticket: &Arc<Ticket>, slice: Duration) {
        let (now, limit) = (Instant::now(), self.slow.options.time_limit);
        *self.ticket.borrow_mut() = Some(Arc::clone(ticket));
        self.stop.set(None);
        self.before.set(Duration::ZERO);
        self.since.set(now);
        self.deadline.set(now + limit);
        self.next.set(now + slice.min(limit));
        ticket.runs_until(now + limit.saturating_add(GRACE));
    }

    /// Nothing but `limit` counts from now on: what runs next belongs to no caller.
    pub(super) fn begin_sweep(&self, limit: Duration) {
        self.ticket.borrow_mut().take();
        self.stop.set(None);
        self.deadline.set(Instant::now() + limit);
        self.next.set(self.deadline.get());
    }

    /// No script runs: what is done next takes its time.
    pub(super) fn pause(&self) {
        self.begin_sweep(UNBOUNDED);
    }

    /// The script has ended.
    pub(super) fn end(&self) {
        if let Some(ticket) = self.ticket.borrow_mut().take() {
            ticket.rests();
        }
    }

    pub(super) fn is_slow(&self) -> bool {
        self.is_slow.get()
    }

    /// Why it was stopped, if it was.
    pub(super) fn stop(&self) -> Option<Stop> {
        self.stop.get()
    }

    /// Whether the script must stop. The thread may wait here.
    pub(super) fn over(&self) -> bool {
        if self.stop.get().is_some() {
            return true;
        }
        let ticket = self.ticket.borrow();
        let now = Instant::now();
        let stop = match &*ticket {
            Some(ticket) if ticket.is_cancelled() => Some(Stop::Cancelled),
            _ if now < self.next.get() => None,
            _ if now >= self.deadline.get() => Some(Stop::TimedOut),
            Some(ticket) => self.take_turns(ticket, now),
            None => None,
        };
        self.stop.set(stop);
        stop.is_some()
    }

    fn take_turns(&self, ticket: &Arc<Ticket>, now: Instant) -> Option<Stop> {
        let ran = self.before.get() + now.saturating_duration_since(self.since.get());
        let goes_on = if self.is_slow.get() {
            ticket.rests();
            self.slow.end_turn(ticket, ran)
        } else if (self.hand_over)(ticket) {
            self.is_slow.set(true);
            ticket.rests();
            self.slow.wait_turn(ticket)
        } else {
            return Some(Stop::Displaced);
        };
        if !goes_on {
            return Some(Stop::Cancelled);
        }
        let (woken, left) = (Instant::now(), self.slow.options.time_limit.saturating_sub(ran));
        self.before.set(ran);
        self.since.set(woken);
        self.deadline.set(woken + left);
        self.next.set(woken + SLICE.min(left));
        ticket.runs_until(woken + left.saturating_add(GRACE));
        None
    }
}
