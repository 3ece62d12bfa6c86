//! The bytes of claimed rows and loaded states that are in flight on this node, from the claim to the end of the burst.
//!
//! Half of the budget is divided among the workers: a burst within its share needs no room, so small work never waits for
//! large work. What exceeds the shares takes room in the other half, in the order in which instances needed it.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::claim::{Bytes, ClaimBounds, InstanceKey};

/// How many of the waiting instances one poll tries: a try locks their rows.
const TRIED: usize = 4;

/// More waiting instances are not kept, but polled again after a moment.
const MOST_WAITING: usize = 4096;

/// When waiting instances are tried at the latest, as long as there is room.
const RETRY: Duration = Duration::from_secs(1);

/// The budget of a node.
pub(crate) struct ByteBudget {
    /// Of the bodies of one burst, and of its state.
    share: usize,
    /// For what exceeds the shares.
    room: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: Bytes,
    /// Instances that need room, first come first served. Polls leave them out.
    waiting: VecDeque<InstanceKey>,
    /// Room was returned since they were tried.
    has_more_room: bool,
    tried: Option<Instant>,
}

/// The bytes of one burst. Dropping it returns them.
pub(crate) struct Charge {
    budget: Arc<ByteBudget>,
    bytes: Bytes,
}

impl ByteBudget {
    pub(crate) fn new(bytes: usize, workers: usize) -> Self {
        let room = bytes / 2;
        Self {
            share: room / 2 / workers.max(1),
            room,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a claim may take now. Instances that wait come first: a claim without them takes no room.
    pub(crate) fn bounds(&self, includes_waiting: bool) -> ClaimBounds {
        let state = self.state();
        let is_open = includes_waiting || state.waiting.is_empty();
        ClaimBounds {
            share: self.share,
            room: if is_open {
                self.room.saturating_sub(state.used.excess)
            } else {
                0
            },
            is_idle: is_open && state.used.excess == 0,
        }
    }

    /// A burst has claimed and loaded so much.
    pub(crate) fn charge(self: &Arc<Self>, bytes: Bytes) -> Charge {
        let mut state = self.state();
        state.used += bytes;
        report(state.used);
        Charge {
            budget: Arc::clone(self),
            bytes,
        }
    }

    /// The same for a start with a body of this size; none if there is no room.
    pub(crate) fn try_charge(self: &Arc<Self>, body: usize) -> Option<Charge> {
        let bytes = Bytes::of(body, self.share);
        let fits = {
            let state = self.state();
            let free = self.room.saturating_sub(state.used.excess);
            bytes.excess == 0 || (state.waiting.is_empty() && (bytes.excess <= free || state.used.excess == 0))
        };
        fits.then(|| self.charge(bytes))
    }

    /// The waiting instances to try now.
    pub(crate) fn waiting_to_try(&self) -> Vec<InstanceKey> {
        let mut state = self.state();
        let is_due = state.has_more_room || state.tried.is_none_or(|tried| tried.elapsed() >= RETRY);
        if state.waiting.is_empty() || !is_due || state.used.excess >= self.room {
            return Vec::new();
        }
        state.has_more_room = false;
        state.tried = Some(Instant::now());
        state.waiting.iter().take(TRIED).cloned().collect()
    }

    /// After a claim: of the instances that were tried, those in `left_out` keep their place, the others no longer wait. What
    /// else was left out waits behind them. Returns what is not kept, and when to try again at the latest.
    pub(crate) fn tried(
        &self,
        tried: &[InstanceKey],
        left_out: Vec<InstanceKey>,
    ) -> (Vec<InstanceKey>, Option<Instant>) {
        let mut state = self.state();
        let left: HashSet<&InstanceKey> = left_out.iter().collect();
        let before = state.waiting.len();
        let is_over = |key: &InstanceKey| tried.contains(key) && !left.contains(key);
        state.waiting.retain(|key| !is_over(key));
        // The next ones are tried.
        state.has_more_room |= state.waiting.len() < before;
        let known: HashSet<InstanceKey> = state.waiting.iter().cloned().collect();
        let mut not_kept = Vec::new();
        for key in left_out {
            if known.contains(&key) {
                continue;
            }
            if state.waiting.len() < MOST_WAITING {
                state.waiting.push_back(key);
            } else {
                not_kept.push(key);
            }
        }
        let again = (!state.waiting.is_empty()).then(|| Instant::now() + RETRY);
        (not_kept, again)
    }

    /// A claim has failed: what it tried is tried again.
    pub(crate) fn retry(&self) {
        self.state().has_more_room = true;
    }

    /// The instances that polls leave out, as they wait for room.
    pub(crate) fn waiting(&self) -> Vec<InstanceKey> {
        self.state().waiting.iter().cloned().collect()
    }

    /// Whether waiting instances can be tried with more room than before.
    pub(crate) fn can_retry(&self) -> bool {
        let state = self.state();
        state.has_more_room && !state.waiting.is_empty()
    }

    /// The instance has other work now, a cancel perhaps: polls show it again.
    pub(crate) fn show(&self, key: &InstanceKey) {
        self.state().waiting.retain(|waiting| waiting != key);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.used.all = state.used.all.saturating_sub(self.bytes.all);
        state.used.excess = state.used.excess.saturating_sub(self.bytes.excess);
        state.has_more_room |= self.bytes.excess > 0;
        report(state.used);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge")]
fn report(used: Bytes) {
    metrics::gauge!("mainspring_claimed_bytes").set(used.all as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{InstanceId, TenantId};

    fn key(no: usize) -> InstanceKey {
        (TenantId::default(), InstanceId::new(format!("i{no}")))
    }

    fn keys(numbers: std::ops::Range<usize>) -> Vec<InstanceKey> {
        numbers.map(key).collect()
    }

    /// 4000 bytes: each of two workers has 500 for bodies and as much for the state, and 2000 are for more.
    fn budget() -> Arc<ByteBudget> {
        Arc::new(ByteBudget::new(4000, 2))
    }

    #[test]
    fn what_is_within_its_share_needs_no_room() {
        let budget = budget();
        let large = budget.charge(Bytes::of(2500, 500));
        assert_eq!((budget.bounds(true).room, budget.bounds(true).is_idle), (0, false));
        let small = budget.try_charge(500).unwrap();
        assert!(budget.try_charge(501).is_none());
        drop(large);
        assert_eq!((budget.bounds(true).room, budget.bounds(true).is_idle), (2000, true));
        assert!(budget.try_charge(9000).is_some(), "one that exceeds all, alone");
        drop(small);
        assert_eq!(budget.state().used, Bytes::default());
    }

    #[test]
    fn instances_wait_in_their_order_and_nothing_takes_their_room() {
        let budget = budget();
        let charge = budget.charge(Bytes::of(1500, 500));
        assert!(budget.waiting_to_try().is_empty());
        let (not_kept, again) = budget.tried(&[], keys(0..6));
        assert!(not_kept.is_empty() && again.is_some());
        assert_eq!(budget.waiting(), keys(0..6));
        assert_eq!(budget.bounds(false).room, 0, "others would take their room");
        assert_eq!(budget.bounds(true).room, 1000);
        assert!(budget.try_charge(1000).is_none());
        assert_eq!(budget.waiting_to_try(), keys(0..4));
        budget.tried(&keys(0..4), keys(2..4));
        assert_eq!(budget.waiting(), keys(2..6));
        assert!(budget.can_retry(), "two were tried, so others may be");
        assert_eq!(budget.waiting_to_try(), keys(2..6));
        budget.tried(&keys(2..6), [keys(2..6), keys(7..8)].concat());
        assert!(
            !budget.can_retry() && budget.waiting_to_try().is_empty(),
            "nothing has changed"
        );
        drop(charge);
        assert!(budget.can_retry());
        assert_eq!(budget.waiting_to_try(), keys(2..6));
        budget.show(&key(7));
        budget.tried(&keys(2..6), Vec::new());
        assert!(budget.waiting().is_empty() && !budget.can_retry());
    }

    #[test]
    fn the_waiting_instances_are_bounded() {
        let budget = budget();
        let (not_kept, _) = budget.tried(&[], keys(0..MOST_WAITING + 2));
        assert_eq!(not_kept, keys(MOST_WAITING..MOST_WAITING + 2));
    }
}
