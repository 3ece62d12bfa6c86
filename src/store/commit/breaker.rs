//! The commit breaker: stops claiming while the database refuses commits.
//!
//! # Invariants
//!
//! - An error that need not be a row's own (a revoked right, a full disk, a missing partition, a read-only server) is a fault
//!   of the database, unless requests of the same statement shape are committed in the meantime. The breaker opens once a
//!   second instance has a fault with no such commit in between.
//! - While the breaker is open, this node claims only a few instances at a time, with pauses that double up to a bound, and
//!   it is not ready. No row counts a failure.
//! - A commit closes it; so does a probe that finds nothing to run.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::statement::StatementShape;
use crate::Error;
use crate::id::{InstanceId, TenantId};

/// The instance that had a fault.
type Key = (TenantId, InstanceId);

/// How many instances a probe claims: a failure of one alone may be its own.
pub(crate) const PROBE_INSTANCES: usize = 2;

/// The pause before the first probe, and the longest; each is jittered by a quarter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// The least time between two log messages about an open breaker.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How much this node may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimLimit {
    /// Without limit.
    Unlimited,
    /// At most [`PROBE_INSTANCES`] instances, to find out whether commits succeed again.
    Probe,
    /// Nothing until this time.
    PausedUntil(Instant),
}

/// Shared by the lanes of a writer and the poller.
#[derive(Default)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    closed: Notify,
}

#[derive(Default)]
struct State {
    /// When a batch of this shape was last committed.
    committed: HashMap<StatementShape, Instant>,
    open: Option<OpenState>,
    /// The one instance that had a fault; no request of that shape was committed since.
    first_fault: Option<(Key, Option<StatementShape>)>,
    /// Probes since the last commit.
    probes: u32,
}

struct OpenState {
    /// The shape that was refused; `None` for something other than a commit.
    shape: Option<StatementShape>,
    reason: String,
    /// The time of the next probe.
    until: Instant,
    logged_at: Instant,
}

impl Breaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a fault that concerns all work.
    pub(crate) fn record_fault(&self, error: &Error) {
        self.open(None, error);
    }

    /// Records a fault at a statement for one instance.
    pub(crate) fn record_instance_fault(&self, key: &Key, error: &Error) {
        self.record_fault_of(key, None, error);
    }

    /// Records a fault at the commit of a request of this shape.
    pub(super) fn record_commit_fault(&self, key: &Key, shape: StatementShape, error: &Error) {
        self.record_fault_of(key, Some(shape), error);
    }

    fn record_fault_of(&self, key: &Key, shape: Option<StatementShape>, error: &Error) {
        {
            let mut state = self.state();
            let is_alone = state.first_fault.as_ref().is_none_or(|(first, _)| first == key);
            if is_alone && state.open.is_none() {
                let is_new = state.first_fault.is_none();
                state.first_fault = Some((key.clone(), shape));
                drop(state);
                if is_new {
                    tracing::warn!(instance = %key.1, %error, "the database refuses a burst; it is retried");
                }
                return;
            }
        }
        self.open(shape, error);
    }

    fn open(&self, shape: Option<StatementShape>, error: &Error) {
        let now = Instant::now();
        let is_logged = {
            let mut state = self.state();
            let until = now + pause(state.probes);
            if let Some(open) = &mut state.open {
                open.shape = shape.or(open.shape);
                error.message().clone_into(&mut open.reason);
                let is_logged = open.logged_at + LOG_INTERVAL > now;
                if !is_logged {
                    open.logged_at = now;
                }
                is_logged
            } else {
                state.open = Some(OpenState {
                    shape,
                    reason: error.message().to_owned(),
                    until,
                    logged_at: now,
                });
                metrics::counter!("mainspring_breaker_opened_total").increment(1);
                false
            }
        };
        if !is_logged {
            tracing::warn!(
                %error,
                "the database refuses commits for a reason unrelated to the work; claiming pauses and resumes by itself"
            );
        }
    }

    /// Records that a batch of this shape was committed.
    pub(super) fn committed(&self, shape: StatementShape) {
        let now = Instant::now();
        let closes = {
            let mut state = self.state();
            state.committed.insert(shape, now);
            state.probes = 0;
            let first_fault = &mut state.first_fault;
            first_fault.take_if(|(_, refused)| refused.is_none_or(|refused| shape.covers(refused)));
            let Some(open) = &mut state.open else { return };
            let covers = open.shape.is_none_or(|refused| shape.covers(refused));
            if covers {
                state.open = None;
            } else {
                // Commits of another shape succeed: the next probe need not wait.
                open.until = now;
            }
            covers
        };
        if closes {
            tracing::info!("the database takes commits again; claiming resumes");
        }
        self.closed.notify_one();
    }

    /// Whether a batch whose shape covers this one was committed after `since`.
    pub(super) fn has_committed(&self, shape: StatementShape, since: Instant) -> bool {
        let state = self.state();
        let mut committed = state.committed.iter();
        committed.any(|(other, at)| *at > since && other.covers(shape))
    }

    /// How much may be claimed now. [`ClaimLimit::Probe`] counts as a probe: the next one comes after a longer pause.
    pub(crate) fn claim_limit(&self) -> ClaimLimit {
        let now = Instant::now();
        let mut state = self.state();
        let probes = state.probes;
        let Some(open) = &mut state.open else {
            return ClaimLimit::Unlimited;
        };
        if now < open.until {
            return ClaimLimit::PausedUntil(open.until);
        }
        open.until = now + pause(probes + 1);
        state.probes = probes.saturating_add(1);
        ClaimLimit::Probe
    }

    /// Closes the breaker after a probe that found nothing to run, now or soon.
    pub(crate) fn record_empty_probe(&self) {
        self.state().open = None;
    }

    /// An upper bound of every pause.
    pub(crate) fn longest() -> Duration {
        PAUSES.1 * 2
    }

    /// Why it is open, if it is.
    pub(crate) fn reason(&self) -> Option<String> {
        self.state().open.as_ref().map(|open| open.reason.clone())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state().open.is_some()
    }

    /// How long rows wait that were released after a fault of the database.
    pub(crate) fn pause(&self) -> Duration {
        pause(self.state().probes)
    }

    /// Waits for a commit while the breaker is open. Cancellation safe.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }
}

fn pause(probes: u32) -> Duration {
    let doubled = PAUSES.0 * 2u32.saturating_pow(probes.min(16));
    doubled.min(PAUSES.1).mul_f64(rand::random_range(0.75..1.25))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault() -> Error {
        Error::unavailable("database-fault", "it refuses")
    }

    fn key(instance: &str) -> Key {
        (TenantId::default(), InstanceId::new(instance))
    }

    #[test]
    fn one_instance_alone_does_not_open_it() {
        let breaker = Breaker::default();
        let shape = StatementShape::default();
        for _ in 0..3 {
            breaker.record_commit_fault(&key("i"), shape, &fault());
            assert!(!breaker.is_open());
        }
        breaker.committed(shape);
        breaker.record_commit_fault(&key("j"), shape, &fault());
        assert!(!breaker.is_open(), "others are committed");
        breaker.record_instance_fault(&key("i"), &fault());
        assert!(breaker.is_open());
    }

    #[test]
    fn it_pauses_longer_each_time_and_closes_with_a_commit_of_the_refused_shape() {
        let breaker = Breaker::default();
        let waits = StatementShape {
            waiting: true,
            ..StatementShape::default()
        };
        assert_eq!(breaker.claim_limit(), ClaimLimit::Unlimited);
        for instance in ["i", "j"] {
            breaker.record_commit_fault(&key(instance), waits, &fault());
        }
        assert_eq!(breaker.reason().as_deref(), Some("it refuses"));
        assert!(matches!(breaker.claim_limit(), ClaimLimit::PausedUntil(_)));
        for _ in 0..12 {
            breaker.state().open.as_mut().unwrap().until = Instant::now();
            assert_eq!(breaker.claim_limit(), ClaimLimit::Probe);
            assert!(matches!(breaker.claim_limit(), ClaimLimit::PausedUntil(_)));
        }
        let longest = PAUSES.1.mul_f64(0.75)..=PAUSES.1.mul_f64(1.25);
        assert!(longest.contains(&breaker.pause()));
        // A commit of another shape allows a probe at once, but does not close it.
        breaker.committed(StatementShape::default());
        assert!(breaker.is_open());
        assert_eq!(breaker.claim_limit(), ClaimLimit::Probe);
        breaker.committed(StatementShape {
            continuing: true,
            ..waits
        });
        assert!(!breaker.is_open());
        assert_eq!(breaker.claim_limit(), ClaimLimit::Unlimited);
    }

    #[test]
    fn only_a_later_commit_of_a_covering_shape_makes_a_failure_the_rows_own() {
        let breaker = Breaker::default();
        let waits = StatementShape {
            waiting: true,
            ..StatementShape::default()
        };
        breaker.committed(waits);
        let failed = Instant::now();
        while Instant::now() <= failed {}
        assert!(!breaker.has_committed(waits, failed), "before it failed");
        breaker.committed(StatementShape::default());
        assert!(!breaker.has_committed(waits, failed), "without what it does");
        breaker.committed(waits);
        assert!(breaker.has_committed(waits, failed));
        assert!(breaker.has_committed(StatementShape::default(), failed));
    }

    #[test]
    fn a_fault_of_no_commit_ends_with_any_commit_or_an_empty_probe() {
        let breaker = Breaker::default();
        breaker.record_fault(&fault());
        assert!(breaker.is_open());
        breaker.record_empty_probe();
        assert!(!breaker.is_open());
        breaker.record_fault(&fault());
        breaker.committed(StatementShape::default());
        assert!(!breaker.is_open());
    }
}
