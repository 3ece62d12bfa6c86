//! What this node has in its hands.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::store::claim::InstanceKey;
use crate::store::commit::Claim;

/// The instances and claimed rows of the bursts that run on this node, and the instances that are better left alone
/// for a moment. Bounded by the bursts that run.
#[derive(Default)]
pub(super) struct InFlight {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    instances: HashMap<InstanceKey, HashSet<Claim>>,
    elsewhere: HashMap<InstanceKey, Instant>,
}

impl InFlight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These rows are in the hands of a burst of that instance.
    pub(super) fn add(&self, key: &InstanceKey, claims: impl IntoIterator<Item = Claim>) {
        self.state().instances.entry(key.clone()).or_default().extend(claims);
    }

    /// The burst of that instance is over.
    pub(super) fn remove(&self, key: &InstanceKey) {
        self.state().instances.remove(key);
    }

    /// Somebody else has the lock of that instance; it is left alone until then.
    pub(super) fn leave_alone(&self, key: InstanceKey, until: Instant) {
        self.state().elsewhere.insert(key, until);
    }

    /// The instances that a peek need not show.
    pub(super) fn hidden(&self) -> Vec<InstanceKey> {
        let mut state = self.state();
        let now = Instant::now();
        state.elsewhere.retain(|_, until| *until > now);
        state.instances.keys().chain(state.elsewhere.keys()).cloned().collect()
    }

    /// Whether a row that the database shows as ours is in the hands of a burst.
    pub(super) fn holds(&self, key: &InstanceKey, claim: &Claim) -> bool {
        self.state()
            .instances
            .get(key)
            .is_some_and(|claims| claims.contains(claim))
    }
}
