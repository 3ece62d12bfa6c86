//! Whether the database takes what commits write: a circuit breaker.
//!
//! # Invariants
//!
//! - What a server refuses for reasons that need not be a row's (a right that was revoked, a full disk, a missing partition,
//!   a read-only server) is a fault of the database, unless bursts of the same statement shape are committed meanwhile.
//!   It opens the breaker once a second instance meets one with no such commit in between: one alone hurts only itself.
//! - While the breaker is open, this node claims only a few instances at a time, with pauses that double up to a bound, and
//!   it is not ready. Nothing is blamed on a row.
//! - A commit closes it; so does a probe that finds nothing to run, as there is nothing left to wait for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::statement::StatementShape;
use crate::Error;
use crate::id::{InstanceId, TenantId};

/// Which instance met a fault.
type Key = (TenantId, InstanceId);

/// How many instances a probe claims: one alone may be to blame itself.
pub(crate) const PROBE_INSTANCES: usize = 2;

/// The pause before the first probe, and the longest; each is jittered by a quarter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// How often the log says at most that the breaker is still open.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What this node may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimLimit {
    /// All that there is.
    Unlimited,
    /// At most [`PROBE_INSTANCES`] instances, to see whether it works again.
    Probe,
    /// Nothing until then.
    PausedUntil(Instant),
}

/// Shared by the lanes of a writer and whoever claims.
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
    /// The one instance that met a fault, and no commit of that shape has come since.
    suspect: Option<(Key, Option<StatementShape>)>,
    /// How often it was probed since the last commit.
    probes: u32,
}

struct OpenState {
    /// What was refused; none: something else than a commit.
    shape: Option<StatementShape>,
    reason: String,
    /// No probe before.
    until: Instant,
    logged_at: Instant,
}

impl Breaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database refused something that concerns all work.
    pub(crate) fn record_fault(&self, error: &Error) {
        self.open(None, error);
    }

    /// The database refused what a burst of this instance needs.
    pub(crate) fn record_instance_fault(&self, key: &Key, error: &Error) {
        self.record_fault_of(key, None, error);
    }

    /// The database refused the commit of a burst of this instance, of this shape.
    pub(super) fn record_commit_fault(&self, key: &Key, shape: StatementShape, error: &Error) {
        self.record_fault_of(key, Some(shape), error);
    }

    fn record_fault_of(&self, key: &Key, shape: Option<StatementShape>, error: &Error) {
        {
            let mut state = self.state();
            let is_alone = state.suspect.as_ref().is_none_or(|(suspect, _)| suspect == key);
            if is_alone && state.open.is_none() {
                let is_new = state.suspect.is_none();
                state.suspect = Some((key.clone(), shape));
                drop(state);
                if is_new {
                    tracing::warn!(instance = %key.1, %error, "the database refuses a burst; it is tried again");
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
                "the database refuses what this node does, for reasons that are not the work's; claiming pauses, and goes on \
                 by itself"
            );
        }
    }

    /// A batch of this shape was committed.
    pub(super) fn committed(&self, shape: StatementShape) {
        let now = Instant::now();
        let closes = {
            let mut state = self.state();
            state.committed.insert(shape, now);
            state.probes = 0;
            let suspect = &mut state.suspect;
            suspect.take_if(|(_, refused)| refused.is_none_or(|refused| shape.covers(refused)));
            let Some(open) = &mut state.open else { return };
            let covers = open.shape.is_none_or(|refused| shape.covers(refused));
            if covers {
                state.open = None;
            } else {
                // Something works: what is of that kind need not wait.
                open.until = now;
            }
            covers
        };
        if closes {
            tracing::info!("the database takes commits again; claiming goes on");
        }
        self.closed.notify_one();
    }

    /// Whether bursts whose statement does all that one of this shape does were committed since `since`.
    pub(super) fn has_committed(&self, shape: StatementShape, since: Instant) -> bool {
        let state = self.state();
        let mut committed = state.committed.iter();
        committed.any(|(other, at)| *at > since && other.covers(shape))
    }

    /// What may be claimed now. A probe is counted: the next one comes after a longer pause.
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

    /// A probe found nothing that could be run, now or soon.
    pub(crate) fn record_empty_probe(&self) {
        self.state().open = None;
    }

    /// The longest pause there is.
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

    /// How long rows are left alone that came back with a fault of the database.
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
    fn it_pauses_longer_each_time_and_closes_with_a_commit_of_what_was_refused() {
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
        // Of another shape: what is like it need not wait, what was refused is not known to work.
        breaker.committed(StatementShape::default());
        assert!(breaker.is_open());
        assert_eq!(breaker.claim_limit(), ClaimLimit::Probe);
        breaker.committed(StatementShape { going: true, ..waits });
        assert!(!breaker.is_open());
        assert_eq!(breaker.claim_limit(), ClaimLimit::Unlimited);
    }

    #[test]
    fn only_a_later_commit_of_such_a_shape_makes_a_failure_the_rows_own() {
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
    fn what_was_no_commit_is_over_with_any_commit_or_when_nothing_is_left() {
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
