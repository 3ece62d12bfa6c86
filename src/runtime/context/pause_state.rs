//! What this node knows of a pause of the cluster. The statements decide; this state only ends bursts sooner, and begins
//! sooner.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::store::pause::{Pause, PauseMode};

/// The newest pause or resume that this node has read.
#[derive(Default)]
pub(crate) struct PauseState {
    known: Mutex<Pause>,
    changed: Notify,
}

impl PauseState {
    /// The mode, as far as this node knows.
    pub(crate) fn mode(&self) -> PauseMode {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).mode
    }

    /// Takes what was read unless it is older; returns the mode before, none if nothing changed.
    pub(super) fn set(&self, pause: Pause) -> Option<PauseMode> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if pause.generation <= known.generation {
            return None;
        }
        Some(std::mem::replace(&mut *known, pause).mode)
    }

    /// The row was changed, by another node.
    pub(crate) fn read_again(&self) {
        self.changed.notify_one();
    }

    /// Returns when the row is to be read. Cancellation safe.
    pub(crate) async fn outdated(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_change_does_not_replace_a_newer_one() {
        let state = PauseState::default();
        let pause = |mode, generation| Pause { mode, generation };
        assert_eq!(state.set(pause(PauseMode::Paused, 3)), Some(PauseMode::Running));
        assert_eq!(state.set(pause(PauseMode::Running, 2)), None);
        assert_eq!(state.mode(), PauseMode::Paused);
        assert_eq!(state.set(pause(PauseMode::Running, 4)), Some(PauseMode::Paused));
    }
}
