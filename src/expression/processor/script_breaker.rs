//! The breaker of a version whose scripts keep timing out.
//!
//! It opens after [`TIMEOUTS`] in a row within [`WINDOW`]. From then on one slow script of the version runs at a time;
//! the burst of another one is deferred, and neither faulted nor lost. Scripts of the version that end within their first
//! time slice are not affected. It closes when a slow script of the version succeeds, or when none has timed out for
//! [`WINDOW`].
//!
//! A deferred burst loses its work so far. So the instance is recorded, and its next burst begins only as a trial, one at
//! a time: a deferred burst is repeated twice, not endlessly.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::script_owner::ScriptOwner;

/// Timeouts in a row that open it.
const TIMEOUTS: u32 = 5;

/// The longest time between two of them, and how long it stays open without another timeout.
const WINDOW: Duration = Duration::from_secs(60);

/// Deferred instances that are recorded for each version.
const MAX_DEFERRED: usize = 4096;

/// Versions with a breaker; further ones have none until older ones are removed after [`WINDOW`].
const MAX_VERSIONS: usize = 1024;

#[derive(Default)]
pub(in crate::expression) struct ScriptBreakers {
    versions: Mutex<HashMap<String, ScriptBreaker>>,
    /// Whether any is open; read by every burst.
    any_open: AtomicBool,
}

struct ScriptBreaker {
    timeouts: u32,
    last: Instant,
    open: bool,
    deferred: HashSet<String>,
    /// Until when the last burst that was allowed is the only trial.
    trial: Option<Instant>,
}

impl ScriptBreakers {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, ScriptBreaker>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a timeout of a script.
    pub(in crate::expression) fn timed_out(&self, owner: &ScriptOwner) {
        metrics::counter!("mainspring_script_timeouts_total").increment(1);
        let mut versions = self.lock();
        if versions.len() >= MAX_VERSIONS && !versions.contains_key(&owner.version) {
            versions.retain(|_, breaker| breaker.last.elapsed() < WINDOW);
            if versions.len() >= MAX_VERSIONS {
                return;
            }
        }
        let breaker = versions.entry(owner.version.clone()).or_insert_with(|| ScriptBreaker {
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
        breaker.deferred.remove(&owner.instance);
        if breaker.timeouts >= TIMEOUTS && !breaker.open {
            breaker.open = true;
            self.any_open.store(true, Ordering::SeqCst);
            metrics::counter!("mainspring_script_breakers_opened_total").increment(1);
            tracing::warn!(
                workflow = %owner.definition.escape_debug(),
                version = %owner.version.escape_debug(),
                "breaker opened: {TIMEOUTS} scripts of this workflow have timed out in a row; until one succeeds, \
                 one slow script of it runs at a time, and bursts that need another one are deferred"
            );
        }
    }

    /// Records that a slow script ended without a timeout.
    pub(in crate::expression) fn succeeded(&self, owner: &ScriptOwner) {
        let mut versions = self.lock();
        if versions.remove(&owner.version).is_some_and(|breaker| breaker.open) {
            self.closed(&versions, &owner.version);
        }
    }

    /// Whether slow scripts of the version run one at a time.
    pub(in crate::expression) fn is_open(&self, version: &str) -> bool {
        self.any_open.load(Ordering::SeqCst) && self.open(&mut self.lock(), version).is_some()
    }

    fn open<'v>(
        &self,
        versions: &'v mut HashMap<String, ScriptBreaker>,
        version: &str,
    ) -> Option<&'v mut ScriptBreaker> {
        let breaker = versions.get(version).filter(|breaker| breaker.open)?;
        if breaker.last.elapsed() >= WINDOW {
            versions.remove(version);
            self.closed(versions, version);
            return None;
        }
        versions.get_mut(version)
    }

    fn closed(&self, versions: &HashMap<String, ScriptBreaker>, version: &str) {
        tracing::info!(version = %version.escape_debug(), "breaker closed: scripts of this workflow run without restriction");
        self.any_open
            .store(versions.values().any(|breaker| breaker.open), Ordering::SeqCst);
    }

    /// Records that the burst of a script is deferred.
    pub(in crate::expression) fn record_deferred(&self, owner: &ScriptOwner) {
        let mut versions = self.lock();
        if let Some(breaker) = self.open(&mut versions, &owner.version)
            && breaker.deferred.len() < MAX_DEFERRED
        {
            breaker.deferred.insert(owner.instance.clone());
        }
    }

    /// Whether a burst of an instance may begin. One that was deferred before may if there is no other trial; `trial` is
    /// how long one lasts, and `busy` whether a slow script of its version runs.
    pub(in crate::expression) fn allows(
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

    fn owner(version: &str, instance: &str) -> ScriptOwner {
        ScriptOwner {
            definition: String::new(),
            version: version.to_owned(),
            instance: instance.to_owned(),
        }
    }

    fn opened() -> ScriptBreakers {
        let breakers = ScriptBreakers::default();
        for n in 0..TIMEOUTS {
            assert!(!breakers.is_open("bad"), "{n}");
            breakers.timed_out(&owner("bad", "i"));
        }
        assert!(breakers.is_open("bad") && !breakers.is_open("good"));
        breakers
    }

    #[test]
    fn it_opens_after_timeouts_in_a_row_and_closes_when_a_script_succeeds() {
        let breakers = opened();
        breakers.succeeded(&owner("bad", "i"));
        assert!(!breakers.is_open("bad"));
        for _ in 1..TIMEOUTS {
            breakers.timed_out(&owner("mixed", "i"));
        }
        breakers.succeeded(&owner("mixed", "i"));
        breakers.timed_out(&owner("mixed", "i"));
        assert!(!breakers.is_open("mixed"), "not in a row");
    }

    #[test]
    fn only_a_deferred_instance_waits_for_its_trial() {
        let breakers = opened();
        let trial = Duration::from_secs(3600);
        for (deferred, busy, may) in [(false, true, true), (true, true, false), (true, false, false)] {
            if deferred {
                breakers.record_deferred(&owner("bad", "slow"));
            }
            // The first call is the trial, also when a script is found running.
            assert_eq!(breakers.allows("bad", "slow", trial, || busy), may, "{deferred} {busy}");
        }
        assert!(breakers.allows("bad", "other", trial, || true));
        assert!(breakers.allows("good", "slow", trial, || true));
        let breakers = opened();
        breakers.record_deferred(&owner("bad", "slow"));
        assert!(breakers.allows("bad", "slow", trial, || false));
        assert!(!breakers.allows("bad", "slow", trial, || false), "one at a time");
    }
}
