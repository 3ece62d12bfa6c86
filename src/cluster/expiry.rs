//! Takes over from nodes that check in no more: hung, stopped or cut off, they hold their locks.

use std::collections::BTreeSet;

use tokio::sync::watch;
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;

use super::check_in::CheckInReport;
use super::take_over::TakeOver;

/// Owns the task.
pub(super) struct Expiry(#[allow(dead_code, reason = "held for its drop")] AbortOnDropHandle<()>);

impl Expiry {
    /// Looks at each check-in until dropped. `ends` is dropped with the task, however that ends.
    pub(super) fn start(take_over: TakeOver, mut reports: watch::Receiver<CheckInReport>, ends: DropGuard) -> Self {
        Self(AbortOnDropHandle::new(tokio::spawn(async move {
            let _ends = ends;
            let mut seen_off = BTreeSet::new();
            while reports.changed().await.is_ok() {
                let expired = reports.borrow_and_update().expired.clone();
                seen_off.retain(|gone| expired.contains(gone));
                for silent in expired {
                    if seen_off.contains(&silent) {
                        continue;
                    }
                    match take_over.of_the_silent(silent).await {
                        Ok(()) => {
                            seen_off.insert(silent);
                        }
                        // The next check-in shows it again.
                        Err(error) => tracing::warn!(incarnation = %silent, %error, "a silent node was not seen off"),
                    }
                }
            }
        })))
    }
}
