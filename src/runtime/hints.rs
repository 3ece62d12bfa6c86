//! Who else is told that work waits, and what is made of what others tell.
//!
//! # Invariants
//!
//! - A node that has room for what it accepted runs it and tells nobody. One without room, or without workers, tells
//!   the others; so does one whose claim loop finds more than it has room for.
//! - A herd is avoided by a small random delay, the smaller the idler a node is. Whoever has no room need not look: the
//!   end of each of its bursts rings anyway.
//! - All of this only makes sooner what the check-ins find.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::doors::Tidings;
use super::shift::Shift;
use crate::id::{InstanceId, WorkId};
use crate::wake::{Hint, Hints, WakeTransport};

/// The longest delay before a node looks: of a node that has hardly any room left. From DESIGN.
const LONGEST_DELAY: Duration = Duration::from_millis(5);

/// The longest delay of a node that does nothing.
const IDLE_DELAY: Duration = Duration::from_millis(1);

/// How often a node without room tells others that there is more.
const OVERFLOW: Duration = Duration::from_millis(100);

/// The most doors of other nodes that are remembered; the oldest is forgotten, and finds out by itself.
const FOREIGN: usize = 4096;

/// The hints of a node.
pub(super) struct Wake {
    transport: Arc<dyn WakeTransport>,
    overflowed: Mutex<Option<Instant>>,
    foreign: Mutex<Foreign>,
}

/// Rows for whose end doors of other nodes wait, oldest first.
#[derive(Default)]
struct Foreign {
    known: HashSet<WorkId>,
    order: VecDeque<WorkId>,
}

impl Wake {
    pub(super) fn new(transport: Arc<dyn WakeTransport>) -> Self {
        Self {
            transport,
            overflowed: Mutex::default(),
            foreign: Mutex::default(),
        }
    }

    /// What the others say from now on.
    pub(super) fn listen(&self) -> Hints {
        self.transport.listen()
    }

    /// Tells the others that work waits for an instance.
    pub(super) fn waits(&self, instance: &InstanceId) {
        self.transport.send(vec![Hint::Waits(instance.clone())]);
    }

    /// Tells the others that there is more than this node has room for; not often.
    pub(super) fn overflow(&self) {
        let mut overflowed = self.overflowed.lock().unwrap_or_else(PoisonError::into_inner);
        if overflowed.is_none_or(|at| at.elapsed() >= OVERFLOW) {
            *overflowed = Some(Instant::now());
            self.transport.send(vec![Hint::Look]);
        }
    }

    /// Tells the others that work waits for an instance that this node cannot run, and of the doors that wait here.
    pub(super) fn hand_over(&self, instance: &InstanceId, awaited: impl Iterator<Item = Hint>) {
        let hints = std::iter::once(Hint::Waits(instance.clone())).chain(awaited);
        self.transport.send(hints.collect());
    }

    /// Tells whoever asked that a row was consumed, which no door of this node waits for.
    pub(super) fn consumed(&self, work: WorkId) {
        let asked = {
            let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
            foreign.known.remove(&work)
        };
        if asked {
            self.transport.send(vec![Hint::Done(work)]);
        }
    }

    /// Tells the others that an occurrence of a schedule may wait no more.
    pub(super) fn freed(&self) {
        self.transport.send(vec![Hint::Freed]);
    }

    /// Tells the others that a row was taken away, for which a door of theirs may wait.
    pub(super) fn ended(&self, work: WorkId) {
        self.transport.send(vec![Hint::Done(work)]);
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
    /// Work was accepted that nobody has claimed: this node looks, and if it has no room for `count` rows, the others
    /// do; so do they if it claims nothing any more, or not everything. `awaited`: a door of this node waits for the end of that row.
    pub(super) fn accepted(&self, instance: Option<&InstanceId>, awaited: Option<WorkId>, count: usize) {
        self.alarm.now();
        if self.permits.available_permits() >= count && !self.is_draining() && !self.capability.is_partial() {
            return;
        }
        let waits = instance.map_or(Hint::Look, |id| Hint::Waits(id.clone()));
        let hints = std::iter::once(waits).chain(awaited.map(Hint::Awaited));
        self.wake.transport.send(hints.collect());
    }
}

impl Shift {
    /// An instance was cancelled or deleted: whatever burst runs it stops, here and elsewhere.
    pub(super) fn lost(&self, instance: &InstanceId) {
        self.in_flight.lost(instance);
        self.wake.transport.send(vec![Hint::Lost(instance.clone())]);
    }
}

/// Makes something of what others say, until the shift stops.
pub(super) async fn follow(shift: Arc<Shift>, mut hints: Hints) {
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
                Hint::Look => look = true,
                // The end of its burst rings.
                Hint::Waits(instance) => look |= !shift.in_flight.has(instance),
                Hint::Lost(instance) => shift.in_flight.lost(instance),
                Hint::Freed => shift.firing.freed(),
                Hint::Awaited(work) => shift.wake.remember(*work),
                Hint::Done(work) => {
                    if let Some(door) = shift.doors.take(*work) {
                        let _ = door.send(Tidings::Elsewhere);
                    }
                }
            }
        }
        if look && let Some(delay) = delay(shift.permits.available_permits(), shift.workers) {
            shift.alarm.at(Instant::now() + delay);
        }
    }
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
    use crate::wake::LocalHub;

    #[test]
    fn the_idle_look_first_and_the_full_not_at_all() {
        assert_eq!(delay(0, 0), None);
        assert_eq!(delay(0, 64), None);
        for _ in 0..100 {
            assert!(delay(64, 64).unwrap() <= IDLE_DELAY);
            assert!(delay(1, 64).unwrap() <= LONGEST_DELAY);
        }
    }

    #[tokio::test]
    async fn only_who_asked_is_told_and_only_so_many_may_ask() {
        let hub = LocalHub::default();
        let wake = Wake::new(Arc::new(hub.member()));
        let other = hub.member();
        let mut heard = other.listen();
        wake.consumed(WorkId(1));
        wake.remember(WorkId(1));
        wake.consumed(WorkId(1));
        wake.consumed(WorkId(1));
        for work in 0..=FOREIGN as i64 {
            wake.remember(WorkId(work));
        }
        wake.consumed(WorkId(0));
        wake.consumed(WorkId(2));
        assert_eq!(*heard.recv().await.unwrap(), [Hint::Done(WorkId(1))]);
        assert_eq!(*heard.recv().await.unwrap(), [Hint::Done(WorkId(2))]);
    }
}
