//! What this node has in its hands.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::id::InstanceId;
use crate::store::claim::InstanceKey;
use crate::store::commit::Claim;

/// How long a lock must have been in other hands unmentioned, to be worth telling again.
const TELL_AGAIN: Duration = Duration::from_secs(10);

/// Fewer that were told are not swept.
const LEAST_SWEEP: usize = 256;

/// The instances and claimed rows of the bursts of this node, and the instances that are better left alone for a
/// moment. Bounded by the bursts that run, and by what looks can show in that moment, or tell of in ten seconds.
#[derive(Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
    /// There are claims in doubt.
    doubt: Notify,
}

#[derive(Default)]
struct State {
    holds: HashMap<InstanceKey, HashMap<u64, Held>>,
    next: u64,
    /// How often somebody was about to look for what is new.
    looks: u64,
    elsewhere: HashMap<InstanceKey, Instant>,
    /// When it was told that somebody else has the lock.
    told: HashMap<InstanceKey, Instant>,
    /// So many of these are swept.
    told_sweep: usize,
    /// Instances of which rows may be claimed, as the answer to the claim is lost.
    in_doubt: HashSet<InstanceKey>,
}

struct Held {
    claims: HashSet<Claim>,
    /// The looks before it.
    looks: u64,
    /// A row came for its instance, as far as this node has heard.
    called: bool,
    lost: CancellationToken,
}

/// The rows that one burst has in its hands. Dropping it forgets them, however the burst ends.
pub(crate) struct Hold {
    in_flight: Arc<InFlight>,
    key: InstanceKey,
    number: u64,
    lost: CancellationToken,
}

impl InFlight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A burst takes these rows of an instance into its hands.
    pub(crate) fn hold(self: &Arc<Self>, key: &InstanceKey, claims: impl IntoIterator<Item = Claim>) -> Hold {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        let lost = CancellationToken::new();
        let held = Held {
            claims: claims.into_iter().collect(),
            looks: state.looks,
            called: false,
            lost: lost.clone(),
        };
        state.holds.entry(key.clone()).or_default().insert(number, held);
        Hold {
            in_flight: Arc::clone(self),
            key: key.clone(),
            number,
            lost,
        }
    }

    /// An instance was cancelled or deleted: whatever burst of this node runs it has lost.
    pub(crate) fn lost(&self, instance: &InstanceId) {
        let state = self.state();
        let holds = state.holds.iter().filter(|((_, id), _)| id == instance);
        for held in holds.flat_map(|(_, holds)| holds.values()) {
            held.lost.cancel();
        }
    }

    /// A row came for this instance. False: no burst of this node has it in its hands, and would look again at its end.
    pub(crate) fn calls(&self, instance: &InstanceId) -> bool {
        let mut state = self.state();
        let holds = state.holds.iter_mut().filter(|((_, id), _)| id == instance);
        let mut has = false;
        for held in holds.flat_map(|(_, holds)| holds.values_mut()) {
            held.called = true;
            has = true;
        }
        has
    }

    /// Somebody is about to look for what is new, and is not shown what is in hands now.
    pub(crate) fn looks(&self) {
        self.state().looks += 1;
    }

    /// Instances are left alone until then: somebody else has their locks, or a row of them. Whether there are any.
    pub(crate) fn leave_alone(&self, keys: impl IntoIterator<Item = InstanceKey>, until: Instant) -> bool {
        let mut keys = keys.into_iter().map(|key| (key, until)).peekable();
        let are_any = keys.peek().is_some();
        self.state().elsewhere.extend(keys);
        are_any
    }

    /// Whether it is worth telling that somebody else has the lock of an instance: not again and again.
    pub(crate) fn is_news(&self, key: &InstanceKey) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        let is_recent = |at: &Instant| now.duration_since(*at) < TELL_AGAIN;
        // Not each time: where many nodes work off one backlog they may be many thousands.
        if state.told.len() >= state.told_sweep {
            state.told.retain(|_, at| is_recent(at));
            state.told_sweep = (state.told.len() * 2).max(LEAST_SWEEP);
        }
        !state.told.insert(key.clone(), now).as_ref().is_some_and(is_recent)
    }

    /// The instances whose locks were found elsewhere lately, so many at most.
    pub(crate) fn missed(&self, most: usize) -> Vec<InstanceKey> {
        let state = self.state();
        let now = Instant::now();
        let recent = state
            .told
            .iter()
            .filter(|(_, at)| now.duration_since(**at) < TELL_AGAIN * 2);
        recent.map(|(key, _)| key.clone()).take(most).collect()
    }

    /// The instances that a peek need not show.
    pub(crate) fn hidden(&self) -> Vec<InstanceKey> {
        let mut state = self.state();
        let now = Instant::now();
        state.elsewhere.retain(|_, until| *until > now);
        state.holds.keys().chain(state.elsewhere.keys()).cloned().collect()
    }

    /// The answer to a claim of rows of these instances is lost: they may be claimed, and no burst runs them.
    pub(crate) fn doubts(&self, keys: Vec<InstanceKey>) {
        self.state().in_doubt.extend(keys);
        self.doubt.notify_one();
    }

    /// The instances of which claims are in doubt, once there are any; each is given out once. Cancellation safe.
    pub(crate) async fn in_doubt(&self) -> HashSet<InstanceKey> {
        self.doubt.notified().await;
        std::mem::take(&mut self.state().in_doubt)
    }

    /// Whether a row that the database shows as ours is in the hands of a burst.
    pub(crate) fn holds(&self, key: &InstanceKey, claim: &Claim) -> bool {
        let state = self.state();
        state
            .holds
            .get(key)
            .is_some_and(|holds| holds.values().any(|held| held.claims.contains(claim)))
    }
}

impl Hold {
    /// All of them.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let state = self.in_flight.state();
        let held = state.holds.get(&self.key).and_then(|holds| holds.get(&self.number));
        held.map(|held| held.claims.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// One more row: the one under which a burst that yielded goes on.
    pub(crate) fn add(&self, claim: Claim) {
        let mut state = self.in_flight.state();
        if let Some(held) = state
            .holds
            .get_mut(&self.key)
            .and_then(|holds| holds.get_mut(&self.number))
        {
            held.claims.insert(claim);
        }
    }

    /// Ends when what the burst does can no longer count, as far as this node has heard.
    pub(crate) fn lost(&self) -> WaitForCancellationFuture<'_> {
        self.lost.cancelled()
    }
}

impl Hold {
    /// Forgets them. True: a look may have passed over something that is to be done for the instance.
    pub(crate) fn release(&self) -> bool {
        let mut state = self.in_flight.state();
        let Some(holds) = state.holds.get_mut(&self.key) else {
            return false;
        };
        let held = holds.remove(&self.number);
        if holds.is_empty() {
            state.holds.remove(&self.key);
        }
        held.is_some_and(|held| held.called || held.looks != state.looks)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}
