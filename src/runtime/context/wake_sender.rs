//! The notifications that this node sends to the others when it leaves ready work to them.
//!
//! # Invariants
//!
//! - A node that has room for the work that it accepted runs it without a notification. A node without room or workers
//!   notifies the others, and so does a node whose poll finds more than it has room for.
//! - Every node sleeps until the next row that it knows of is due, and then polls. A node that writes a row notifies the
//!   others only if it is due soon and before all rows that they know of; otherwise a poll or a check-in finds it.
//! - Notifications only bring forward what the check-ins find.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::id::{InstanceId, WorkId};
use crate::wake::{WakeNotification, WakeSubscription, WakeTransport};

/// How often a node without room notifies the others that there is more work.
const NO_CAPACITY_PAUSE: Duration = Duration::from_millis(100);

/// A row that is due so soon is not notified: other nodes detect a crash of this one later than that.
const IMMINENT: Duration = Duration::from_millis(20);

/// The most rows that are remembered for callers of other nodes. The oldest is forgotten, and its caller reads the row.
const MOST_AWAITED: usize = 4096;

/// Sends wake notifications to the other nodes.
pub(crate) struct WakeSender {
    transport: Arc<dyn WakeTransport>,
    last_no_capacity: Mutex<Option<Instant>>,
    /// The due time of which the others were notified last.
    last_due: Mutex<Option<Instant>>,
    awaited: Mutex<AwaitedElsewhere>,
}

/// Rows whose end callers of other nodes await, oldest first.
#[derive(Default)]
struct AwaitedElsewhere {
    known: HashSet<WorkId>,
    order: VecDeque<WorkId>,
}

impl WakeSender {
    pub(crate) fn new(transport: Arc<dyn WakeTransport>) -> Self {
        Self {
            transport,
            last_no_capacity: Mutex::default(),
            last_due: Mutex::default(),
            awaited: Mutex::default(),
        }
    }

    /// What carries the notifications.
    pub(crate) fn domain(&self) -> Option<String> {
        self.transport.domain()
    }

    /// Whether the server of the transport is away.
    pub(crate) fn is_away(&self) -> bool {
        self.transport.is_away()
    }

    /// Why it is away, if the provider knows.
    pub(crate) fn away_cause(&self) -> Option<String> {
        self.transport.away_cause()
    }

    /// What the other nodes send from now on.
    pub(crate) fn subscribe(&self) -> WakeSubscription {
        self.transport.subscribe()
    }

    /// Sends these together. Never waits.
    pub(crate) fn notify(&self, notifications: impl IntoIterator<Item = WakeNotification>) {
        self.transport.notify(notifications.into_iter().collect());
    }

    /// Work for an instance is ready.
    pub(crate) fn work_ready(&self, instance: &InstanceId) {
        self.notify([WakeNotification::WorkReady(instance.clone())]);
    }

    /// More work is ready than this node has room for; sent at most once in [`NO_CAPACITY_PAUSE`].
    pub(crate) fn no_capacity(&self) {
        let mut last = self.last_no_capacity.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|at| at.elapsed() >= NO_CAPACITY_PAUSE) {
            *last = Some(Instant::now());
            self.notify([WakeNotification::Poll]);
        }
    }

    /// A row is due at this time; not sent where the others poll by then. `known`: what they know to be due.
    pub(crate) fn row_due(&self, at: Instant, known: Option<Instant>, check_in: Duration) {
        let mut last = self.last_due.lock().unwrap_or_else(PoisonError::into_inner);
        if is_news(Instant::now(), at, &[known, *last], check_in) {
            *last = Some(at);
            self.notify([WakeNotification::Poll]);
        }
    }

    /// A row was consumed for which no caller of this node waits: the node is notified whose caller awaits it, if any.
    pub(crate) fn work_done(&self, work: WorkId) {
        let is_awaited = {
            let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
            awaited.known.remove(&work)
        };
        if is_awaited {
            self.notify([WakeNotification::WorkDone(work)]);
        }
    }

    /// Notes that a caller of another node awaits the end of this row: [`Self::work_done`] notifies it.
    pub(crate) fn remember_awaited(&self, work: WorkId) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        if awaited.known.insert(work) {
            awaited.order.push_back(work);
        }
        while awaited.order.len() > MOST_AWAITED {
            if let Some(oldest) = awaited.order.pop_front() {
                awaited.known.remove(&oldest);
            }
        }
    }
}

/// Whether others would sleep on past `at`. Not if it is so far that a check-in reports it, or if they wake by then at one
/// of the times that they know of. That must not be now: they may have polled already.
fn is_news(now: Instant, at: Instant, known: &[Option<Instant>], check_in: Duration) -> bool {
    let imminent = now + IMMINENT;
    let wakes = |known: &Instant| (imminent..=at).contains(known);
    at > imminent && at < now + check_in * 2 && !known.iter().flatten().any(wakes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::LocalWake;

    #[test]
    fn a_due_row_is_notified_unless_the_others_wake_by_then() {
        let (now, check_in) = (Instant::now(), Duration::from_secs(1));
        let after = |millis| now + Duration::from_millis(millis);
        let is_news = |at, known: &[u64]| {
            let known: Vec<_> = known.iter().map(|millis| Some(after(*millis))).collect();
            super::is_news(now, after(at), &known, check_in)
        };
        assert!(is_news(500, &[]));
        assert!(
            is_news(500, &[600, 5]),
            "one is later, the other so soon that they may have polled"
        );
        assert!(!is_news(500, &[600, 400]));
        assert!(!is_news(500, &[500]), "it is that row");
        assert!(!is_news(3_000, &[]), "a check-in reports it");
        assert!(!is_news(10, &[]), "no node could take over so soon");
    }

    #[tokio::test]
    async fn only_awaited_rows_are_notified_and_their_number_is_bounded() {
        let hub = LocalWake::default();
        let wake = WakeSender::new(Arc::new(hub.member()));
        let other = hub.member();
        let mut received = other.subscribe();
        wake.work_done(WorkId(1));
        wake.remember_awaited(WorkId(1));
        wake.work_done(WorkId(1));
        wake.work_done(WorkId(1));
        for work in 0..=MOST_AWAITED as i64 {
            wake.remember_awaited(WorkId(work));
        }
        wake.work_done(WorkId(0));
        wake.work_done(WorkId(2));
        assert_eq!(*received.recv().await.unwrap(), [WakeNotification::WorkDone(WorkId(1))]);
        assert_eq!(*received.recv().await.unwrap(), [WakeNotification::WorkDone(WorkId(2))]);
    }
}
