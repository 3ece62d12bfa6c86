//! Turns of the threads with long scripts: few run at once, each for a slice of time.
//!
//! All languages share the turns of an engine, so that the other threads of the node have half of the processors, whatever
//! its workflows are written in. The languages take turns: ten long templates delay a long script by one of them. Within one,
//! turns go alternately to the script that has run least and to the one that has waited longest: a script that is nearly done
//! ends soon, and no long one starves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a script runs before another one does.
pub(in crate::expression) const SLICE: Duration = Duration::from_millis(20);

/// How often a thread that waits checks without being woken whether its result is still awaited.
const RECHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The turns of an engine's long scripts.
#[derive(Debug)]
pub(in crate::expression) struct Turns {
    most: usize,
    state: Mutex<TurnState>,
}

#[derive(Debug, Default)]
struct TurnState {
    running: usize,
    /// The first to ask comes first.
    waiting: Vec<Arc<Waiter>>,
    /// All turns so far, and for each language the last of them and how many it had.
    turns: u64,
    had: HashMap<&'static str, (u64, u64)>,
}

/// A thread that waits for a turn.
#[derive(Debug)]
struct Waiter {
    language: &'static str,
    /// How long its script has run.
    ran: Duration,
    /// Written under the lock of the state.
    has_turn: AtomicBool,
    wake: Condvar,
}

/// The turn of a script; it ends when dropped.
#[derive(Debug)]
pub(in crate::expression) struct Turn(Arc<Turns>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running -= 1;
        state.grant(self.0.most);
    }
}

impl TurnState {
    /// Gives free turns to threads that wait.
    fn grant(&mut self, most: usize) {
        while self.running < most
            && let Some(next) = self.take_next()
        {
            self.running += 1;
            next.has_turn.store(true, Ordering::Relaxed);
            next.wake.notify_one();
        }
    }

    /// The next one of the language whose last turn is longest ago.
    fn take_next(&mut self) -> Option<Arc<Waiter>> {
        let last = |waiter: &&Arc<Waiter>| self.had.get(waiter.language).map(|(last, _)| *last);
        let language = self.waiting.iter().min_by_key(last)?.language;
        self.turns += 1;
        let (last, count) = self.had.entry(language).or_default();
        (*last, *count) = (self.turns, *count + 1);
        let mut own = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, waiter)| waiter.language == language);
        let (place, _) = match *count % 2 {
            0 => own.min_by_key(|(_, waiter)| waiter.ran)?,
            _ => own.next()?,
        };
        Some(self.waiting.remove(place))
    }
}

impl Turns {
    /// So many scripts run at once.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of a script that has run for so long. None: it was stopped meanwhile.
    pub(in crate::expression) fn begin(
        turns: &Arc<Self>,
        language: &'static str,
        ran: Duration,
        is_stopped: impl Fn() -> bool,
    ) -> Option<Turn> {
        let waiter = Arc::new(Waiter {
            language,
            ran,
            has_turn: AtomicBool::new(false),
            wake: Condvar::new(),
        });
        let mut state = turns.lock();
        state.waiting.push(Arc::clone(&waiter));
        state.grant(turns.most);
        loop {
            if waiter.has_turn.load(Ordering::Relaxed) {
                return Some(Turn(Arc::clone(turns)));
            }
            if is_stopped() {
                state.waiting.retain(|other| !Arc::ptr_eq(other, &waiter));
                return None;
            }
            let waited = waiter.wake.wait_timeout(state, RECHECK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.lock().waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// The names of scripts in the order of their turns, all but the last of which wait behind one in Liquid.
    fn order(scripts: &[(&'static str, &'static str, u64)]) -> Vec<&'static str> {
        let turns = Arc::new(Turns::new(1));
        let first = Turns::begin(&turns, "Liquid", Duration::ZERO, || false).unwrap();
        let is_stopped = AtomicBool::new(false);
        let (sender, order) = mpsc::channel();
        thread::scope(|scope| {
            for (waiting, (name, language, ran)) in scripts.iter().enumerate() {
                let (turns, sender, is_stopped) = (&turns, sender.clone(), &is_stopped);
                scope.spawn(move || {
                    let stops = || *name == "stopped" && is_stopped.load(Ordering::Relaxed);
                    let turn = Turns::begin(turns, language, Duration::from_millis(*ran), stops);
                    sender.send(if turn.is_some() { *name } else { "none" }).unwrap();
                });
                while turns.lock().waiting.len() <= waiting {
                    thread::yield_now();
                }
            }
            is_stopped.store(true, Ordering::Relaxed);
            while scripts.iter().any(|(name, ..)| *name == "stopped") && turns.lock().waiting.len() == scripts.len() {
                thread::yield_now();
            }
            drop(first);
        });
        assert!(!turns.is_waited_for());
        assert_eq!(turns.lock().running, 0);
        order.try_iter().collect()
    }

    #[test]
    fn languages_take_turns_and_a_stopped_script_leaves() {
        let scripts = [
            ("one", "Liquid", 0),
            ("two", "Liquid", 0),
            ("three", "CSharp", 0),
            ("stopped", "JavaScript", 0),
        ];
        assert_eq!(order(&scripts), ["none", "three", "one", "two"]);
    }

    #[test]
    fn a_short_script_passes_long_ones_and_none_of_them_starves() {
        let scripts = [
            ("long", "L", 900),
            ("longer", "L", 950),
            ("short", "L", 5),
            ("shorter", "L", 1),
        ];
        assert_eq!(order(&scripts), ["long", "shorter", "longer", "short"]);
    }
}
