//! Whether the server's lock table is full, as the probes of one session see it: for readiness and the log.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::refusals::Refusals;

/// This many consecutive probes find no room: one alone may have met a burst of this cluster.
const PROBES: u32 = 2;

/// What is known of it. A table that is full for longer than a moment is named.
#[derive(Default)]
pub(crate) struct FullTable {
    state: Mutex<State>,
    /// The probes that have found no room for longer than a moment.
    refusals: Refusals,
}

#[derive(Default)]
struct State {
    failed: u32,
    /// The session with most entries.
    holder: Option<String>,
}

impl FullTable {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A probe has found no room. Returns true if the session with most entries is to be read and logged.
    pub(super) fn is_to_be_asked(&self) -> bool {
        let mut state = self.state();
        state.failed = state.failed.saturating_add(1);
        state.failed >= PROBES && self.refusals.count().is_some()
    }

    /// Whether a probe is to follow soon.
    pub(super) fn is_suspected(&self) -> bool {
        self.state().failed > 0
    }

    /// An exchange has found no room; the next probe shows whether that lasts.
    pub(super) fn suspect(&self) {
        let mut state = self.state();
        state.failed = state.failed.max(1);
    }

    /// The session with most entries; `None` if it could not be read.
    pub(super) fn note(&self, holder: Option<String>) {
        let mut state = self.state();
        state.holder = holder;
        let cause = message(&state);
        tracing::warn!("{cause}");
    }

    /// A probe has found room.
    pub(super) fn has_room(&self) {
        let mut state = self.state();
        if state.failed >= PROBES {
            tracing::info!("the lock table of the database server has room again");
        }
        state.failed = 0;
        state.holder = None;
    }

    /// Why locks cannot be taken, while the table is full.
    pub(crate) fn cause(&self) -> Option<String> {
        let state = self.state();
        (state.failed >= PROBES).then(|| message(&state))
    }
}

fn message(state: &State) -> String {
    let holder = state
        .holder
        .as_deref()
        .unwrap_or("the session with most entries cannot be read now");
    format!(
        "the lock table of the database server is full: out of shared memory (53200); {holder}; end that session, refuse its role \
         (REVOKE CONNECT ON DATABASE … FROM PUBLIC), or raise max_locks_per_transaction"
    )
}
