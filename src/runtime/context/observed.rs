//! Which instances are observed, at this node and at others.
//!
//! # Invariants
//!
//! - A commit of an instance without observers costs one load of a flag.
//! - A node announces its observed instances to all others, which forget them unless they are announced again. They notify
//!   it of commits. Each of these messages is a hint: after a check-in the node compares the versions in the database.
//! - Everything is bounded: instances, observers, and the pending changes of an observer, in which changes of an instance
//!   coalesce.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::id::{InstanceId, InstanceKey, TenantId};

/// The most instances that are observed at a node.
const MOST_HERE: usize = 1_000;

/// The most instances that are known to be observed at other nodes.
const MOST_ELSEWHERE: usize = 10_000;

/// How often a node announces what is observed at it.
pub(crate) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);

/// How long an announcement holds.
const LIFETIME: Duration = Duration::from_secs(15);

/// What this process knows of observers. It outlives an incarnation.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    state: Mutex<State>,
    /// Whether something is observed, here or elsewhere.
    is_any: AtomicBool,
    /// Notified when something is observed here that was not before.
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    here: HashMap<InstanceKey, Here>,
    elsewhere: HashMap<InstanceKey, Instant>,
    next_observer: u64,
    /// Not announced yet.
    unannounced: Vec<InstanceKey>,
}

/// An instance that is observed here.
#[derive(Debug, Default)]
struct Here {
    /// Its version in the database at the last check-in; `None` if not read yet.
    version: Option<Option<i64>>,
    observers: Vec<(u64, Arc<Changes>)>,
}

/// Changed instances that an observer has not taken yet, all of its tenant.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pending: Mutex<BTreeSet<InstanceId>>,
    added: Notify,
}

impl Changes {
    fn add(&self, id: &InstanceId) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.insert(id.clone()) {
            self.added.notify_one();
        }
    }

    /// Takes all changed instances; waits until there are any. Cancellation safe. One waiter.
    pub(crate) async fn take(&self) -> Vec<InstanceId> {
        loop {
            let taken = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
            if !taken.is_empty() {
                return taken.into_iter().collect();
            }
            self.added.notified().await;
        }
    }
}

/// One observer of one instance; dropping it ends the observation.
#[derive(Debug)]
pub(crate) struct Observation {
    observed: Arc<Observed>,
    key: InstanceKey,
    observer: u64,
}

impl Drop for Observation {
    fn drop(&mut self) {
        let mut state = self.observed.state();
        if let Some(here) = state.here.get_mut(&self.key) {
            here.observers.retain(|(observer, _)| *observer != self.observer);
            if here.observers.is_empty() {
                state.here.remove(&self.key);
            }
        }
        self.observed.refresh(&state);
    }
}

impl Observed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refresh(&self, state: &State) {
        self.is_any
            .store(!state.here.is_empty() || !state.elsewhere.is_empty(), Relaxed);
    }

    /// Adds an observer of an instance, which counts as changed: what came before is not lost. `None` if the maximum number
    /// of instances is already observed.
    pub(crate) fn observe(self: &Arc<Self>, key: InstanceKey, changes: &Arc<Changes>) -> Option<Observation> {
        let mut state = self.state();
        let is_new = !state.here.contains_key(&key);
        if is_new && state.here.len() >= MOST_HERE {
            return None;
        }
        let observer = state.next_observer;
        state.next_observer += 1;
        let here = state.here.entry(key.clone()).or_default();
        here.observers.push((observer, Arc::clone(changes)));
        if is_new && state.unannounced.len() < MOST_HERE {
            state.unannounced.push(key.clone());
            self.added.notify_one();
        }
        self.refresh(&state);
        changes.add(&key.1);
        Some(Observation {
            observed: Arc::clone(self),
            key,
            observer,
        })
    }

    /// A commit of this node has changed an instance; true if it is observed at another node.
    pub(crate) fn committed(&self, tenant: &TenantId, id: &InstanceId) -> bool {
        if !self.is_any.load(Relaxed) {
            return false;
        }
        let key = (tenant.clone(), id.clone());
        let state = self.state();
        state.notify(&key);
        state.elsewhere.get(&key).is_some_and(|until| *until > Instant::now())
    }

    /// An instance was changed by another node.
    pub(crate) fn changed_elsewhere(&self, key: &InstanceKey) {
        if self.is_any.load(Relaxed) {
            self.state().notify(key);
        }
    }

    /// Another node announces that an instance is observed at it.
    pub(crate) fn announced(&self, key: &InstanceKey) {
        let now = Instant::now();
        let mut state = self.state();
        if state.elsewhere.len() >= MOST_ELSEWHERE {
            state.elsewhere.retain(|_, until| *until > now);
        }
        if state.elsewhere.len() < MOST_ELSEWHERE || state.elsewhere.contains_key(key) {
            state.elsewhere.insert(key.clone(), now + LIFETIME);
        }
        self.refresh(&state);
    }

    /// Returns when something new is to be announced. Cancellation safe. One waiter.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    /// What has not been announced yet.
    pub(crate) fn unannounced(&self) -> Vec<InstanceKey> {
        std::mem::take(&mut self.state().unannounced)
    }

    /// All that is observed here; forgets what is not observed elsewhere any more.
    pub(crate) fn here(&self) -> Vec<InstanceKey> {
        let now = Instant::now();
        let mut state = self.state();
        state.elsewhere.retain(|_, until| *until > now);
        self.refresh(&state);
        state.here.keys().cloned().collect()
    }

    /// The versions of instances in the database, as far as they exist: those that differ from the last ones have changed.
    pub(crate) fn compare(&self, asked: &[InstanceKey], versions: &HashMap<InstanceKey, i64>) {
        let mut state = self.state();
        for key in asked {
            let Some(here) = state.here.get_mut(key) else { continue };
            let version = versions.get(key).copied();
            if here.version.replace(version).is_some_and(|before| before != version) {
                state.notify(key);
            }
        }
    }
}

impl State {
    fn notify(&self, key: &InstanceKey) {
        if let Some(here) = self.here.get(key) {
            here.observers.iter().for_each(|(_, changes)| changes.add(&key.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, id: &str) -> InstanceKey {
        (TenantId::new(tenant), InstanceId::new(id))
    }

    async fn taken(changes: &Changes) -> Vec<InstanceId> {
        let taking = tokio::time::timeout(Duration::from_millis(1), changes.take());
        taking.await.unwrap_or_default()
    }

    #[tokio::test]
    async fn changes_reach_the_observers_of_an_instance_until_they_end() {
        let observed = Arc::new(Observed::default());
        let (own, foreign, changes) = (key("", "i"), key("t", "i"), Arc::new(Changes::default()));
        let (tenant, id) = &own;
        let committed = |key: &InstanceKey| observed.committed(&key.0, &key.1);
        assert!(!committed(&own));
        let observation = observed.observe(own.clone(), &changes).unwrap();
        assert_eq!(taken(&changes).await, std::slice::from_ref(id), "for what came before");
        assert_eq!(observed.unannounced(), std::slice::from_ref(&own));
        assert!(!observed.committed(tenant, &InstanceId::new("o")));
        assert!(!committed(&own));
        assert_eq!(taken(&changes).await, std::slice::from_ref(id));
        observed.changed_elsewhere(&own);
        assert_eq!(taken(&changes).await, std::slice::from_ref(id));

        // An instance of another tenant with the same id is another one.
        assert!(!committed(&foreign));
        observed.changed_elsewhere(&foreign);
        observed.announced(&foreign);
        assert!(committed(&foreign) && !observed.state().elsewhere.contains_key(&own));
        assert!(taken(&changes).await.is_empty());

        let keys = observed.here();
        let at = |version| HashMap::from([(own.clone(), version), (foreign.clone(), 2 * version)]);
        observed.compare(&keys, &at(3));
        assert!(taken(&changes).await.is_empty());
        observed.compare(&keys, &at(3));
        assert!(taken(&changes).await.is_empty());
        for versions in [at(4), HashMap::new()] {
            observed.compare(&keys, &versions);
            assert_eq!(taken(&changes).await, std::slice::from_ref(id));
        }
        drop(observation);
        assert!(observed.here().is_empty());
        observed.state().elsewhere.clear();
        observed.here();
        assert!(!observed.is_any.load(Relaxed));
    }

    #[test]
    fn what_is_announced_is_notified_and_all_is_bounded() {
        let observed = Arc::new(Observed::default());
        let changes = Arc::new(Changes::default());
        let key = |n: usize| key("", &format!("i{n}"));
        let committed = |n: usize| observed.committed(&key(n).0, &key(n).1);
        for n in 0..MOST_ELSEWHERE + 10 {
            observed.announced(&key(n));
        }
        assert!(committed(7) && !committed(MOST_ELSEWHERE + 1));
        let observations: Vec<_> = (0..MOST_HERE)
            .map(|n| observed.observe(key(n), &changes).unwrap())
            .collect();
        assert!(observed.observe(key(MOST_HERE), &changes).is_none());
        assert!(observed.observe(key(0), &changes).is_some());
        assert_eq!(observed.here().len(), observations.len());
    }
}
