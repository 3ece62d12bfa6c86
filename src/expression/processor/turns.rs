//! Turns of the threads with long scripts: few run at once, each for a slice of time.
//!
//! All languages share the turns of an engine, so that the other threads of the node have half of the processors, whatever
//! its workflows are written in. The languages take turns, and within one the first to ask is the first to run: ten long
//! templates delay a long script by one of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fair_queue::FairQueue;

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
    waiting: FairQueue<Arc<Waiter>>,
}

/// A thread that waits for a turn.
#[derive(Debug, Default)]
struct Waiter {
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
            && let Some(next) = self.waiting.pop_where(|_| true)
        {
            self.running += 1;
            next.has_turn.store(true, Ordering::Relaxed);
            next.wake.notify_one();
        }
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

    /// Waits for a turn. None: the script was stopped meanwhile.
    pub(in crate::expression) fn begin(
        turns: &Arc<Self>,
        language: &str,
        is_stopped: impl Fn() -> bool,
    ) -> Option<Turn> {
        let waiter = Arc::new(Waiter::default());
        let mut state = turns.lock();
        state.waiting.push(language, Arc::clone(&waiter));
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

    #[test]
    fn languages_take_turns_and_a_stopped_script_leaves() {
        let turns = Arc::new(Turns::new(1));
        let first = Turns::begin(&turns, "Liquid", || false).unwrap();
        let is_stopped = AtomicBool::new(false);
        let (sender, order) = mpsc::channel();
        thread::scope(|scope| {
            let mut waiting = 0;
            for (name, language) in [
                ("one", "Liquid"),
                ("two", "Liquid"),
                ("three", "CSharp"),
                ("stopped", "JavaScript"),
            ] {
                let (turns, sender, is_stopped) = (&turns, sender.clone(), &is_stopped);
                scope.spawn(move || {
                    let stops = || name == "stopped" && is_stopped.load(Ordering::Relaxed);
                    let turn = Turns::begin(turns, language, stops);
                    sender.send(if turn.is_some() { name } else { "none" }).unwrap();
                });
                waiting += 1;
                while turns.lock().waiting.len() < waiting {
                    thread::yield_now();
                }
            }
            is_stopped.store(true, Ordering::Relaxed);
            assert_eq!(order.recv().unwrap(), "none");
            drop(first);
            let rest: Vec<&str> = (0..3).map(|_| order.recv().unwrap()).collect();
            assert_eq!(rest, ["one", "three", "two"]);
        });
        assert!(!turns.is_waited_for());
        assert_eq!(turns.lock().running, 0);
    }
}
