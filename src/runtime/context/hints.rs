//! Who else is told that work waits, and what is made of what others tell.
//!
//! # Invariants
//!
//! - A node that has room for what it accepted runs it and tells nobody. One without room, or without workers, tells
//!   the others; so does one whose claim loop finds more than it has room for.
//! - A herd is avoided by a small random delay, the smaller the idler a node is. Whoever has no room need not look: the
//!   end of each of its bursts rings anyway.
//! - Every node sleeps until the next row is due that it knows of, and then looks for the one after that. So a node that
//!   writes a row tells the others if it is due before all that they know of, and soon: else they come upon it
//!   anyway, at what is due before it or at a check-in.
//! - All of this only makes sooner what the check-ins find.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::id::{InstanceId, WorkId};
use crate::runtime::context::node_context::Shift;
use crate::wake::{WakeNotification, WakeSubscription, WakeTransport};

/// The longest delay before a node looks: of a node that has hardly any room left. From DESIGN.
const LONGEST_DELAY: Duration = Duration::from_millis(5);

/// The longest delay of a node that does nothing.
const IDLE_DELAY: Duration = Duration::from_millis(1);

/// How often a node without room tells others that there is more.
const OVERFLOW: Duration = Duration::from_millis(100);

/// What is due so soon is not told: should this node die, others need longer to see it.
const IMMINENT: Duration = Duration::from_millis(20);

/// The most doors of other nodes that are remembered; the oldest is forgotten, and finds out by itself.
const FOREIGN: usize = 4096;

/// The hints of a node.
pub(crate) struct Wake {
    transport: Arc<dyn WakeTransport>,
    overflowed: Mutex<Option<Instant>>,
    /// The due time that the others were told of last.
    due_told: Mutex<Option<Instant>>,
    foreign: Mutex<Foreign>,
}

/// Rows for whose end doors of other nodes wait, oldest first.
#[derive(Default)]
struct Foreign {
    known: HashSet<WorkId>,
    order: VecDeque<WorkId>,
}

impl Wake {
    pub(crate) fn new(transport: Arc<dyn WakeTransport>) -> Self {
        Self {
            transport,
            overflowed: Mutex::default(),
            due_told: Mutex::default(),
            foreign: Mutex::default(),
        }
    }

    /// What the others say from now on.
    pub(crate) fn subscribe(&self) -> WakeSubscription {
        self.transport.subscribe()
    }

    /// Tells the others that work waits for an instance.
    pub(crate) fn waits(&self, instance: &InstanceId) {
        self.transport
            .notify(vec![WakeNotification::WorkReady(instance.clone())]);
    }

    /// Tells the others that there is more than this node has room for; not often.
    pub(crate) fn overflow(&self) {
        let mut overflowed = self.overflowed.lock().unwrap_or_else(PoisonError::into_inner);
        if overflowed.is_none_or(|at| at.elapsed() >= OVERFLOW) {
            *overflowed = Some(Instant::now());
            self.transport.notify(vec![WakeNotification::Poll]);
        }
    }

    /// Tells the others that work waits for an instance that this node cannot run, and of the doors that wait here.
    pub(crate) fn hand_over(&self, instance: &InstanceId, awaited: impl Iterator<Item = WakeNotification>) {
        let hints = std::iter::once(WakeNotification::WorkReady(instance.clone())).chain(awaited);
        self.transport.notify(hints.collect());
    }

    /// Tells the others, if it is worth it, that a row is due at this time; `known`: what they know of to be due.
    fn comes_due(&self, at: Instant, known: Option<Instant>, check_in: Duration) {
        let mut told = self.due_told.lock().unwrap_or_else(PoisonError::into_inner);
        if is_news(Instant::now(), at, &[known, *told], check_in) {
            *told = Some(at);
            self.transport.notify(vec![WakeNotification::Poll]);
        }
    }

    /// Tells the others that a schedule may be due before what they know of.
    pub(crate) fn schedules(&self) {
        self.transport.notify(vec![WakeNotification::Schedules]);
    }

    /// Tells whoever asked that a row was consumed, which no door of this node waits for.
    pub(crate) fn consumed(&self, work: WorkId) {
        let asked = {
            let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
            foreign.known.remove(&work)
        };
        if asked {
            self.transport.notify(vec![WakeNotification::WorkDone(work)]);
        }
    }

    /// Tells the others that an occurrence of a schedule may wait no more.
    pub(crate) fn freed(&self) {
        self.transport.notify(vec![WakeNotification::OverlapEnded]);
    }

    /// Tells the others that a row was taken away, for which a door of theirs may wait.
    pub(crate) fn ended(&self, work: WorkId) {
        self.transport.notify(vec![WakeNotification::WorkDone(work)]);
    }

    fn remember(&self, work: WorkId) {
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if foreign.known.insert(work) {
            foreign.order.push_back(work);
        }
        while foreign.order.len() > FOREIGN {
            if let Some(oldest) = foreign.order.pop_front() {
                foreign.known.remove(&oldest);
            }
        }
    }
}

impl Shift {
    /// How many more bursts may run at once. What a look has in hands is room: it may find nothing, and all that comes
    /// meanwhile would be taken for more than there is room for.
    fn room(&self) -> usize {
        self.permits.available_permits() + self.looking.load(Relaxed)
    }

    /// Work was accepted that nobody has claimed: this node looks, and if it has no room for `count` rows, the others
    /// do; so do they if it claims nothing any more, or not everything. `awaited`: a door of this node waits for the end of that row.
    pub(crate) fn accepted(&self, instance: Option<&InstanceId>, awaited: Option<WorkId>, count: usize) {
        self.alarm.now();
        if self.room() >= count && !self.is_draining() && !self.capability.is_partial() {
            return;
        }
        let waits = instance.map_or(WakeNotification::Poll, |id| WakeNotification::WorkReady(id.clone()));
        let hints = std::iter::once(waits).chain(awaited.map(WakeNotification::ReplyAwaited));
        self.wake.transport.notify(hints.collect());
    }
}

impl Shift {
    /// This node has written a row that nobody has claimed and that is due at this time.
    pub(crate) fn comes_due(&self, at: Instant) {
        let known = self.alarm.due(at);
        self.wake.comes_due(at, known, self.check_in);
    }

    /// An instance was cancelled or deleted: whatever burst runs it stops, here and elsewhere.
    pub(crate) fn lost(&self, instance: &InstanceId) {
        self.in_flight.lost(instance);
        self.wake
            .transport
            .notify(vec![WakeNotification::InstanceCancelled(instance.clone())]);
    }
}

/// Makes something of what others say, until the shift stops.
pub(crate) async fn follow(shift: Arc<Shift>, mut hints: WakeSubscription) {
    loop {
        // Both are cancellation safe.
        let heard = tokio::select! {
            () = shift.stop.cancelled() => return,
            heard = hints.recv() => heard,
        };
        let Some(heard) = heard else { return };
        let mut look = false;
        for hint in heard.iter() {
            match hint {
                WakeNotification::Poll => look = true,
                WakeNotification::Schedules => shift.firing.alarm.now(),
                // The end of its burst rings.
                WakeNotification::WorkReady(instance) => look |= !shift.in_flight.calls(instance),
                WakeNotification::InstanceCancelled(instance) => shift.in_flight.lost(instance),
                WakeNotification::OverlapEnded => shift.firing.freed(),
                WakeNotification::ReplyAwaited(work) => shift.wake.remember(*work),
                WakeNotification::WorkDone(work) => shift.doors.look(*work),
            }
        }
        if look {
            match delay(shift.room(), shift.workers) {
                Some(delay) => shift.alarm.at(Instant::now() + delay),
                // The end of a burst makes room, and then it looks.
                None => shift.in_flight.looks(),
            }
        }
    }
}

/// Whether others may sleep on past `at`: unless it is so far that a check-in tells them, or they wake at one of the times
/// that they know of, which must not be now: they may have looked already.
fn is_news(now: Instant, at: Instant, known: &[Option<Instant>], check_in: Duration) -> bool {
    let imminent = now + IMMINENT;
    let wakes = |known: &Instant| (imminent..=at).contains(known);
    at > imminent && at < now + check_in * 2 && !known.iter().flatten().any(wakes)
}

/// How long a node that is not alone waits beyond the time at which a row is due: all of them know of it.
pub(crate) fn spread(shift: &Shift) -> Duration {
    let has_api_peers = shift.reports.borrow().check_in.has_api_peers;
    let delay = has_api_peers.then(|| delay(shift.room(), shift.workers));
    delay.flatten().unwrap_or_default()
}

/// How long a node waits before it looks; none: it has no room.
fn delay(room: usize, workers: usize) -> Option<Duration> {
    if room == 0 {
        return None;
    }
    let busy = 1.0 - room as f64 / workers.max(room) as f64;
    let longest = IDLE_DELAY + (LONGEST_DELAY - IDLE_DELAY).mul_f64(busy);
    Some(longest.mul_f64(rand::random_range(0.0..1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::LocalWake;

    #[test]
    fn the_idle_look_first_and_the_full_not_at_all() {
        assert_eq!(delay(0, 0), None);
        assert_eq!(delay(0, 64), None);
        for _ in 0..100 {
            assert!(delay(64, 64).unwrap() <= IDLE_DELAY);
            assert!(delay(1, 64).unwrap() <= LONGEST_DELAY);
        }
    }

    #[test]
    fn what_is_due_is_told_unless_the_others_come_upon_it() {
        let (now, check_in) = (Instant::now(), Duration::from_secs(1));
        let after = |millis| now + Duration::from_millis(millis);
        let is_news = |at, known: &[u64]| {
            let known: Vec<_> = known.iter().map(|millis| Some(after(*millis))).collect();
            super::is_news(now, after(at), &known, check_in)
        };
        assert!(is_news(500, &[]));
        assert!(
            is_news(500, &[600, 5]),
            "one is later, the other so soon that they may have looked"
        );
        assert!(!is_news(500, &[600, 400]));
        assert!(!is_news(500, &[500]), "it is that row");
        assert!(!is_news(3_000, &[]), "a check-in tells");
        assert!(!is_news(10, &[]), "nobody could take over so soon");
    }

    #[tokio::test]
    async fn only_who_asked_is_told_and_only_so_many_may_ask() {
        let hub = LocalWake::default();
        let wake = Wake::new(Arc::new(hub.member()));
        let other = hub.member();
        let mut heard = other.subscribe();
        wake.consumed(WorkId(1));
        wake.remember(WorkId(1));
        wake.consumed(WorkId(1));
        wake.consumed(WorkId(1));
        for work in 0..=FOREIGN as i64 {
            wake.remember(WorkId(work));
        }
        wake.consumed(WorkId(0));
        wake.consumed(WorkId(2));
        assert_eq!(*heard.recv().await.unwrap(), [WakeNotification::WorkDone(WorkId(1))]);
        assert_eq!(*heard.recv().await.unwrap(), [WakeNotification::WorkDone(WorkId(2))]);
    }
}
