//! Whether the inbox has room for more events, according to this node's last count. A caller reads it from memory, so no
//! event waits for a count.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::Error;
use crate::id::{StimulusHash, TenantId};
use crate::refusals::Refusals;
use crate::shortened::shortened;
use crate::store::inbox::{InboxBudget, InboxWeight};

/// What a warning or a message quotes of a name, in bytes.
const MOST_QUOTED: usize = 100;

/// What is used up of the budgets of kept events.
#[derive(Debug)]
pub(crate) struct KeptEvents {
    pub(crate) budget: InboxBudget,
    /// Notified when this node has kept an event.
    pub(crate) arrived: Notify,
    /// So that an event takes no lock while there is room.
    has_full: AtomicBool,
    state: Mutex<State>,
    refusals: Refusals,
}

#[derive(Debug, Default)]
struct State {
    tenants: HashSet<TenantId>,
    stimuli: HashSet<(TenantId, StimulusHash)>,
}

/// Which budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Tenant,
    Stimulus,
}

impl KeptEvents {
    pub(crate) fn new(budget: InboxBudget) -> Self {
        Self {
            budget,
            arrived: Notify::new(),
            has_full: AtomicBool::new(false),
            state: Mutex::default(),
            refusals: Refusals::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some budget is used up.
    pub(crate) fn has_full(&self) -> bool {
        self.has_full.load(Ordering::Acquire)
    }

    /// Whether a further event of this stimulus may be kept.
    pub(crate) fn has_room(&self, tenant: &TenantId, hash: &StimulusHash) -> bool {
        self.full(tenant, hash).is_none()
    }

    fn full(&self, tenant: &TenantId, hash: &StimulusHash) -> Option<Full> {
        if !self.has_full() {
            return None;
        }
        let state = self.state();
        if state.stimuli.contains(&(tenant.clone(), *hash)) {
            Some(Full::Stimulus)
        } else {
            state.tenants.contains(tenant).then_some(Full::Tenant)
        }
    }

    /// Takes over a count.
    pub(crate) fn counted(&self, weights: Vec<InboxWeight>) {
        let mut state = self.state();
        state.tenants.clear();
        state.stimuli.clear();
        for weight in weights.into_iter().filter(|weight| weight.is_full) {
            if let Some(hash) = weight.hash {
                state.stimuli.insert((weight.tenant, hash));
            } else {
                state.tenants.insert(weight.tenant);
            }
        }
        let has_full = !state.tenants.is_empty() || !state.stimuli.is_empty();
        self.has_full.store(has_full, Ordering::Release);
    }

    /// The error of an event that nothing waits for and that was not kept. Counts it, and logs one in a while.
    pub(crate) fn refused(&self, tenant: &TenantId, hash: &StimulusHash, name: &str) -> Error {
        metrics::counter!("mainspring_events_refused_total").increment(1);
        let quoted = &*shortened(name, MOST_QUOTED);
        if let Some(since) = self.refusals.count() {
            let hash: String = hash.to_string().chars().take(16).collect();
            tracing::warn!(
                event = quoted,
                hash,
                refused = since,
                "events were refused: nothing waits for them, and the kept ones have used up their budget (inbox-mib, \
                 inbox-mib-per-name)"
            );
        }
        let (of, bytes, setting) = match self.full(tenant, hash) {
            Some(Full::Tenant) => ("all events", self.budget.tenant, "inbox-mib"),
            _ => ("events of this name", self.budget.stimulus, "inbox-mib-per-name"),
        };
        Error::over_budget(
            "inbox-full",
            format!(
                "nothing waits for the event '{quoted}', and the {of} that are kept already take {} MiB or more; publish it when \
                 something waits for it, or raise {setting}",
                bytes >> 20
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(hash: Option<u8>, is_full: bool) -> InboxWeight {
        InboxWeight {
            tenant: TenantId::default(),
            hash: hash.map(|byte| StimulusHash([byte; 32])),
            bytes: 1,
            is_full,
        }
    }

    #[test]
    fn a_count_decides_until_the_next_one() {
        let kept = KeptEvents::new(InboxBudget {
            tenant: 2 << 20,
            stimulus: 1 << 20,
        });
        let tenant = TenantId::default();
        let (one, two) = (StimulusHash([1; 32]), StimulusHash([2; 32]));
        assert!(kept.has_room(&tenant, &one));
        kept.counted(vec![weight(None, false), weight(Some(1), true)]);
        assert!(!kept.has_room(&tenant, &one) && kept.has_room(&tenant, &two));
        let error = kept.refused(&tenant, &one, "order");
        assert!(error.is_over_budget() && error.message().contains("'order'"), "{error}");
        assert!(error.message().contains("1 MiB") && error.message().contains("inbox-mib-per-name"));
        kept.counted(vec![weight(None, true)]);
        assert!(!kept.has_room(&tenant, &two));
        assert!(kept.refused(&tenant, &two, "order").message().contains("2 MiB"));
        kept.counted(vec![weight(None, false)]);
        assert!(kept.has_room(&tenant, &one) && !kept.has_full());
    }

    #[test]
    fn names_are_cut() {
        let kept = KeptEvents::new(InboxBudget { tenant: 1, stimulus: 1 });
        let error = kept.refused(&TenantId::default(), &StimulusHash([1; 32]), &"ä".repeat(4_000));
        assert!(error.message().len() < 500, "{error}");
    }
}
