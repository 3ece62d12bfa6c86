//! The claims of this node that are in flight: which rows its running bursts have claimed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::id::InstanceId;
use crate::store::claim::InstanceKey;
use crate::store::commit::Claim;
use crate::watchdog::{PollMark, Steps};

/// How long the log is silent about one lock that is held elsewhere.
const LOG_AGAIN: Duration = Duration::from_secs(10);

/// From so many logged instances on, those whose time is over are removed.
const LEAST_LOGGED: usize = 256;

/// How often, and after which pause, the watchdog tries to lock what bursts also lock.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The instances and claimed rows of the bursts of this node, and the instances that polls leave out for a moment. Bounded
/// by the bursts that run, and by what polls show in that moment or log in ten seconds.
#[derive(Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
    /// There are claims in doubt.
    doubt: Notify,
    /// Those of the watchdog.
    steps: Steps,
}

#[derive(Default)]
struct State {
    bursts: HashMap<InstanceKey, HashMap<u64, RunningBurst>>,
    next: u64,
    /// How many polls for new work were about to begin.
    polls: u64,
    deferred: HashMap<InstanceKey, Instant>,
    /// When the log last said that the lock of an instance is held elsewhere.
    logged: HashMap<InstanceKey, Instant>,
    /// From so many of these on, those whose time is over are removed.
    logged_limit: usize,
    /// Instances of which rows may be claimed, as the answer to the claim is lost.
    in_doubt: HashSet<InstanceKey>,
}

struct RunningBurst {
    claims: HashSet<Claim>,
    /// The polls before it.
    polls: u64,
    /// Work arrived for its instance, as far as this node was notified.
    has_more: bool,
    cancelled: CancellationToken,
    polled: PollMark,
}

/// The rows that one burst has claimed. Dropping it removes them, however the burst ends.
pub(crate) struct BurstClaims {
    in_flight: Arc<InFlight>,
    key: InstanceKey,
    number: u64,
    cancelled: CancellationToken,
    polled: PollMark,
}

impl InFlight {
    pub(crate) fn new(steps: Steps) -> Self {
        Self {
            steps,
            ..Self::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A burst has claimed these rows of an instance.
    pub(crate) fn add(self: &Arc<Self>, key: &InstanceKey, claims: impl IntoIterator<Item = Claim>) -> BurstClaims {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        let (cancelled, polled) = (CancellationToken::new(), PollMark::new(&self.steps));
        let burst = RunningBurst {
            claims: claims.into_iter().collect(),
            polls: state.polls,
            has_more: false,
            cancelled: cancelled.clone(),
            polled: polled.clone(),
        };
        state.bursts.entry(key.clone()).or_default().insert(number, burst);
        BurstClaims {
            in_flight: Arc::clone(self),
            key: key.clone(),
            number,
            cancelled,
            polled,
        }
    }

    /// The instances whose bursts have been in one poll since a step of the watchdog or longer. None if another thread keeps
    /// the lock for long: it may hang itself.
    pub(crate) fn polled_since(&self, step: u64) -> Vec<InstanceKey> {
        let held = (0..LOCK_TRIES).find_map(|_| {
            let locked = self.state.try_lock().ok();
            if locked.is_none() {
                thread::sleep(LOCK_PAUSE);
            }
            locked
        });
        let Some(state) = held else {
            return Vec::new();
        };
        let is_polled =
            |bursts: &HashMap<u64, RunningBurst>| bursts.values().any(|burst| burst.polled.is_in_poll_since(step));
        let hanging = state.bursts.iter().filter(|(_, bursts)| is_polled(bursts));
        hanging.map(|(key, _)| key.clone()).collect()
    }

    /// An instance was cancelled or deleted: a running burst of it on this node stops, and polls include it again.
    pub(crate) fn cancel(&self, key: &InstanceKey) {
        let mut state = self.state();
        state.deferred.remove(key);
        for burst in state.bursts.get(key).into_iter().flat_map(HashMap::values) {
            burst.cancelled.cancel();
        }
    }

    /// Work arrived for this instance. Returns false if no burst of this node runs it, which would poll again at its end.
    pub(crate) fn note_work(&self, instance: &InstanceId) -> bool {
        let mut state = self.state();
        let of_instance = state.bursts.iter_mut().filter(|((_, id), _)| id == instance);
        let mut is_running = false;
        for burst in of_instance.flat_map(|(_, bursts)| bursts.values_mut()) {
            burst.has_more = true;
            is_running = true;
        }
        is_running
    }

    /// A poll for new work is about to begin, which leaves out what is in flight now.
    pub(crate) fn note_poll(&self) {
        self.state().polls += 1;
    }

    /// Polls leave these instances out until then: another session holds their locks, or a row of them. Whether there are
    /// any.
    pub(crate) fn defer(&self, keys: impl IntoIterator<Item = InstanceKey>, until: Instant) -> bool {
        let mut keys = keys.into_iter().map(|key| (key, until)).peekable();
        let are_any = keys.peek().is_some();
        self.state().deferred.extend(keys);
        are_any
    }

    /// Polls include this instance again. Whether it was left out.
    pub(crate) fn show(&self, key: &InstanceKey) -> bool {
        self.state().deferred.remove(key).is_some()
    }

    /// Whether to log that the lock of an instance is held elsewhere: once in [`LOG_AGAIN`].
    pub(crate) fn should_log(&self, key: &InstanceKey) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        let is_recent = |at: &Instant| now.duration_since(*at) < LOG_AGAIN;
        // Not each time: where many nodes work off one backlog there may be many thousands.
        if state.logged.len() >= state.logged_limit {
            state.logged.retain(|_, at| is_recent(at));
            state.logged_limit = (state.logged.len() * 2).max(LEAST_LOGGED);
        }
        !state.logged.insert(key.clone(), now).as_ref().is_some_and(is_recent)
    }

    /// Of these instances, those whose locks were found held elsewhere a moment ago.
    pub(crate) fn contended(&self, keys: &[InstanceKey]) -> Vec<InstanceKey> {
        let state = self.state();
        if state.logged.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let is_recent = |key: &&InstanceKey| {
            let logged = state.logged.get(*key);
            logged.is_some_and(|at| now.duration_since(*at) < LOG_AGAIN)
        };
        keys.iter().filter(is_recent).cloned().collect()
    }

    /// The instances whose locks were recently found held elsewhere, so many at most.
    pub(crate) fn locked_elsewhere(&self, most: usize) -> Vec<InstanceKey> {
        let state = self.state();
        let now = Instant::now();
        let recent = state
            .logged
            .iter()
            .filter(|(_, at)| now.duration_since(**at) < LOG_AGAIN * 2);
        recent.map(|(key, _)| key.clone()).take(most).collect()
    }

    /// The instances that a poll leaves out.
    pub(crate) fn excluded(&self) -> Vec<InstanceKey> {
        let mut state = self.state();
        let now = Instant::now();
        state.deferred.retain(|_, until| *until > now);
        state.bursts.keys().chain(state.deferred.keys()).cloned().collect()
    }

    /// The answer to a claim of rows of these instances is lost: they may be claimed, and no burst runs them.
    pub(crate) fn add_in_doubt(&self, keys: Vec<InstanceKey>) {
        self.state().in_doubt.extend(keys);
        self.doubt.notify_one();
    }

    /// Waits for instances of which claims are in doubt; each is returned once. Cancellation safe.
    pub(crate) async fn next_in_doubt(&self) -> HashSet<InstanceKey> {
        self.doubt.notified().await;
        std::mem::take(&mut self.state().in_doubt)
    }

    /// Whether a burst of this node runs the instance.
    pub(crate) fn runs(&self, instance: &InstanceId) -> bool {
        self.state().bursts.keys().any(|(_, id)| id == instance)
    }

    /// Whether a burst of this node has the claim.
    pub(crate) fn contains(&self, key: &InstanceKey, claim: &Claim) -> bool {
        let state = self.state();
        state
            .bursts
            .get(key)
            .is_some_and(|bursts| bursts.values().any(|burst| burst.claims.contains(claim)))
    }
}

impl BurstClaims {
    /// All of them.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let state = self.in_flight.state();
        let burst = state.bursts.get(&self.key).and_then(|bursts| bursts.get(&self.number));
        burst
            .map(|burst| burst.claims.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Adds the row under which a burst that yielded continues.
    pub(crate) fn add(&self, claim: Claim) {
        let mut state = self.in_flight.state();
        if let Some(burst) = state
            .bursts
            .get_mut(&self.key)
            .and_then(|bursts| bursts.get_mut(&self.number))
        {
            burst.claims.insert(claim);
        }
    }

    /// More work waits for the instance: the end of the burst polls.
    pub(crate) fn note_more(&self) {
        let mut state = self.in_flight.state();
        let bursts = state.bursts.get_mut(&self.key);
        if let Some(burst) = bursts.and_then(|bursts| bursts.get_mut(&self.number)) {
            burst.has_more = true;
        }
    }

    /// What marks that the burst is polled.
    pub(crate) fn polled(&self) -> PollMark {
        self.polled.clone()
    }

    /// Ends when the burst can no longer commit, as far as this node was notified.
    pub(crate) fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.cancelled.cancelled()
    }

    /// Removes them. Returns true if a poll may have left out work for the instance.
    pub(crate) fn remove(&self) -> bool {
        let mut state = self.in_flight.state();
        let Some(bursts) = state.bursts.get_mut(&self.key) else {
            return false;
        };
        let burst = bursts.remove(&self.number);
        if bursts.is_empty() {
            state.bursts.remove(&self.key);
        }
        burst.is_some_and(|burst| burst.has_more || burst.polls != state.polls)
    }
}

impl Drop for BurstClaims {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TenantId;

    #[test]
    fn an_instance_runs_until_its_last_burst_has_ended() {
        let in_flight = Arc::<InFlight>::default();
        let key: InstanceKey = (TenantId::default(), InstanceId::new("i"));
        let bursts = [in_flight.add(&key, []), in_flight.add(&key, [])];
        for burst in bursts {
            assert!(in_flight.runs(&key.1) && !in_flight.runs(&InstanceId::new("j")));
            drop(burst);
        }
        assert!(!in_flight.runs(&key.1));
    }
    #[test]
    fn a_cancel_stops_no_burst_of_another_tenant() {
        let in_flight = Arc::<InFlight>::default();
        let [one, two] = ["one", "two"].map(|tenant| (TenantId::new(tenant), InstanceId::new("i")));
        let (ours, theirs) = (in_flight.add(&one, []), in_flight.add(&two, []));
        in_flight.cancel(&one);
        assert!(ours.cancelled.is_cancelled() && !theirs.cancelled.is_cancelled());
    }
}
