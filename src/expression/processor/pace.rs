//! The turns of one script on a thread of its own, and its time limit.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::turns::{SLICE, Turn, TurnLanguage, Turns};
use super::yield_interval::YieldInterval;

/// The turns of one script. Its time limit counts what it runs, not what it waits.
#[derive(Debug)]
pub(crate) struct Pace<'s> {
    turns: Arc<Turns>,
    language: TurnLanguage,
    stop: &'s AtomicBool,
    limit: Duration,
    ran: Cell<Duration>,
    since: Cell<Instant>,
    /// None: it was stopped while it waited.
    turn: RefCell<Option<Turn>>,
    yields: YieldInterval,
}

/// Whether a script may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expression) enum Going {
    On,
    OutOfTime,
    Stopped,
}

impl<'s> Pace<'s> {
    /// Waits for the first turn. None: the script was stopped.
    pub(crate) fn begin(
        turns: &Arc<Turns>,
        language: TurnLanguage,
        stop: &'s AtomicBool,
        limit: Duration,
    ) -> Option<Self> {
        let turn = Turns::begin(turns, language, || stop.load(Ordering::Relaxed))?;
        Some(Self {
            turns: Arc::clone(turns),
            language,
            stop,
            limit,
            ran: Cell::default(),
            since: Cell::new(Instant::now()),
            turn: RefCell::new(Some(turn)),
            yields: YieldInterval::new(),
        })
    }

    /// Whether the script may go on; another one may run in between.
    pub(in crate::expression) fn check(&self) -> Going {
        if self.stop.load(Ordering::Relaxed) {
            return Going::Stopped;
        }
        let now = Instant::now();
        self.yields.check(now);
        let elapsed = now.saturating_duration_since(self.since.get());
        if self.ran.get() + elapsed >= self.limit {
            return Going::OutOfTime;
        }
        if elapsed < SLICE || !self.turns.is_waited_for() {
            return Going::On;
        }
        self.ran.set(self.ran.get() + elapsed);
        drop(self.turn.take());
        let next = Turns::begin(&self.turns, self.language, || self.stop.load(Ordering::Relaxed));
        self.since.set(Instant::now());
        let going = if next.is_some() { Going::On } else { Going::Stopped };
        self.turn.replace(next);
        going
    }
}
