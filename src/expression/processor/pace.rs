//! The turns of one script on a thread of its own, and its time limit.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_language::{Steps, Stopped};
use tokio_util::sync::CancellationToken;

use super::turns::{SLICE, Turn, Turns};
use super::yield_interval::YieldInterval;

/// The turns of one script. Its time limit counts what it runs, not what it waits.
#[derive(Debug)]
pub(super) struct Pace<'s> {
    turns: Arc<Turns>,
    language: &'static str,
    stop: &'s CancellationToken,
    limit: Duration,
    ran: Cell<Duration>,
    since: Cell<Instant>,
    /// None: it was stopped while it waited.
    turn: RefCell<Option<Turn>>,
    yields: YieldInterval,
}

impl<'s> Pace<'s> {
    /// Waits for the first turn. None: the script was stopped.
    pub(super) fn begin(
        turns: &Arc<Turns>,
        language: &'static str,
        stop: &'s CancellationToken,
        limit: Duration,
    ) -> Option<Self> {
        let turn = Turns::begin(turns, language, Duration::ZERO, || stop.is_cancelled())?;
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
}

impl Steps for Pace<'_> {
    /// Another script may run in between.
    fn check(&self) -> Result<(), Stopped> {
        if self.stop.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        let now = Instant::now();
        self.yields.check(now);
        let elapsed = now.saturating_duration_since(self.since.get());
        if self.ran.get() + elapsed >= self.limit {
            return Err(Stopped::OutOfTime);
        }
        if elapsed < SLICE || !self.turns.is_waited_for() {
            return Ok(());
        }
        self.ran.set(self.ran.get() + elapsed);
        drop(self.turn.take());
        let next = Turns::begin(&self.turns, self.language, self.ran.get(), || self.stop.is_cancelled());
        self.since.set(Instant::now());
        let goes_on = next.as_ref().map(|_| ()).ok_or(Stopped::Cancelled);
        self.turn.replace(next);
        goes_on
    }
}
