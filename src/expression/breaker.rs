//! The circuit breaker of a version whose scripts keep timing out.
//!
//! It opens after [`TIMEOUTS`] in a row within [`WINDOW`]. From then on one slow script of the version runs at a time;
//! the burst of another one is deferred, and neither faulted nor lost. Scripts of the version that end quickly are not
//! concerned. It closes when a slow script of the version ends well, or when none has timed out for [`WINDOW`].
//!
//! To defer a burst throws away what it did so far. So the instance is remembered, and its next burst does not begin
//! before it may try: a deferred burst is repeated twice, not over and over.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ticket::Ticket;

/// Scripts in a row that open it.
const TIMEOUTS: u32 = 5;

/// How close together those are, and how long it stays open without another one.
const WINDOW: Duration = Duration::from_secs(60);

/// Deferred instances that are remembered for each version.
const REMEMBERED: usize = 4096;

/// Versions that are watched; more are not, until those are forgotten that have not timed out lately.
const VERSIONS: usize = 1024;

#[derive(Default)]
pub(super) struct Breakers {
    versions: Mutex<HashMap<String, Breaker>>,
    /// Whether there is any: asked by every burst.
    any_open: AtomicBool,
}

struct Breaker {
    timeouts: u32,
    last: Instant,
    open: bool,
    deferred: HashSet<String>,
    /// Until when the last one of those that were let through has the first try.
    trial: Option<Instant>,
}

impl Breakers {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Breaker>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A script of the version has timed out.
    pub(super) fn timed_out(&self, ticket: &Ticket) {
        metrics::counter!("mainspring_script_timeouts_total").increment(1);
        let mut versions = self.lock();
        if versions.len() >= VERSIONS && !versions.contains_key(&ticket.version) {
            versions.retain(|_, breaker| breaker.last.elapsed() < WINDOW);
            if versions.len() >= VERSIONS {
                return;
            }
        }
        let breaker = versions.entry(ticket.version.clone()).or_insert_with(|| Breaker {
            timeouts: 0,
            last: Instant::now(),
            open: false,
            deferred: HashSet::new(),
            trial: None,
        });
        if breaker.last.elapsed() >= WINDOW {
            breaker.timeouts = 0;
        }
        breaker.timeouts += 1;
        breaker.last = Instant::now();
        breaker.deferred.remove(&ticket.instance);
        if breaker.timeouts >= TIMEOUTS && !breaker.open {
            breaker.open = true;
            self.any_open.store(true, Ordering::SeqCst);
            metrics::counter!("mainspring_script_breakers_opened_total").increment(1);
            tracing::warn!(
                workflow = %ticket.definition.escape_debug(),
                version = %ticket.version.escape_debug(),
                "{TIMEOUTS} scripts of this workflow have timed out in a row; until one ends well, one slow script of it \
                 runs at a time, and other instances that need more wait"
            );
        }
    }

    /// A slow script of the version has come to an end by itself.
    pub(super) fn ended(&self, ticket: &Ticket) {
        let mut versions = self.lock();
        if versions.remove(&ticket.version).is_some_and(|breaker| breaker.open) {
            self.closed(&versions, &ticket.version);
        }
    }

    /// Whether slow scripts of the version run one at a time.
    pub(super) fn is_open(&self, version: &str) -> bool {
        self.any_open.load(Ordering::SeqCst) && self.open(&mut self.lock(), version).is_some()
    }

    fn open<'v>(&self, versions: &'v mut HashMap<String, Breaker>, version: &str) -> Option<&'v mut Breaker> {
        let breaker = versions.get(version).filter(|breaker| breaker.open)?;
        if breaker.last.elapsed() >= WINDOW {
            versions.remove(version);
            self.closed(versions, version);
            return None;
        }
        versions.get_mut(version)
    }

    fn closed(&self, versions: &HashMap<String, Breaker>, version: &str) {
        tracing::info!(version = %version.escape_debug(), "scripts of this workflow run again as those of others");
        self.any_open
            .store(versions.values().any(|breaker| breaker.open), Ordering::SeqCst);
    }

    /// The burst of that instance is deferred.
    pub(super) fn remember(&self, ticket: &Ticket) {
        let mut versions = self.lock();
        if let Some(breaker) = self.open(&mut versions, &ticket.version)
            && breaker.deferred.len() < REMEMBERED
        {
            breaker.deferred.insert(ticket.instance.clone());
        }
    }

    /// Whether a burst of an instance may begin. One that was deferred before may if no other one is being tried;
    /// `busy` says whether a slow script of its version runs.
    pub(super) fn may_begin(
        &self,
        version: &str,
        instance: &str,
        trial: Duration,
        busy: impl FnOnce() -> bool,
    ) -> bool {
        if !self.any_open.load(Ordering::SeqCst) {
            return true;
        }
        let mut versions = self.lock();
        let Some(breaker) = self.open(&mut versions, version) else {
            return true;
        };
        if !breaker.deferred.contains(instance) {
            return true;
        }
        if breaker.trial.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        breaker.trial = Some(Instant::now() + trial);
        drop(versions);
        !busy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::WorkflowFacts;

    fn ticket(version: &str, instance: &str) -> Ticket {
        Ticket::new(&WorkflowFacts {
            definition_version_id: version.to_owned(),
            instance_id: instance.to_owned(),
            ..WorkflowFacts::default()
        })
    }

    fn opened() -> Breakers {
        let breakers = Breakers::default();
        for n in 0..TIMEOUTS {
            assert!(!breakers.is_open("bad"), "{n}");
            breakers.timed_out(&ticket("bad", "i"));
        }
        assert!(breakers.is_open("bad") && !breakers.is_open("good"));
        breakers
    }

    #[test]
    fn it_opens_after_time_outs_in_a_row_and_closes_with_a_script_that_ends() {
        let breakers = opened();
        breakers.ended(&ticket("bad", "i"));
        assert!(!breakers.is_open("bad"));
        for _ in 1..TIMEOUTS {
            breakers.timed_out(&ticket("mixed", "i"));
        }
        breakers.ended(&ticket("mixed", "i"));
        breakers.timed_out(&ticket("mixed", "i"));
        assert!(!breakers.is_open("mixed"), "not in a row");
    }

    #[test]
    fn only_what_was_deferred_waits_for_its_try() {
        let breakers = opened();
        let trial = Duration::from_secs(3600);
        for (deferred, busy, may) in [(false, true, true), (true, true, false), (true, false, false)] {
            if deferred {
                breakers.remember(&ticket("bad", "slow"));
            }
            // The first that asks is the one on trial, also when it then finds a script running.
            assert_eq!(
                breakers.may_begin("bad", "slow", trial, || busy),
                may,
                "{deferred} {busy}"
            );
        }
        assert!(breakers.may_begin("bad", "other", trial, || true));
        assert!(breakers.may_begin("good", "slow", trial, || true));
        let breakers = opened();
        breakers.remember(&ticket("bad", "slow"));
        assert!(breakers.may_begin("bad", "slow", trial, || false));
        assert!(!breakers.may_begin("bad", "slow", trial, || false), "one at a time");
    }
}
