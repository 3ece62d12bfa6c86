//! The sinks that this node has claimed: what is being sent to each, and how much more may be.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::store::webhook::delivery::{DueSink, SinkClaim, SinkOutcome, SinkRoom};
use crate::store::webhook::sink::SinkNumber;

/// The most deliveries that are sent to one sink at once. It begins with a few, and has more as long as it takes them.
pub(super) const MOST_OF_SINK: usize = 128;
const FIRST_OF_SINK: usize = 8;

/// The most deliveries that are sent at once, beside one for each sink.
pub(super) const MOST: usize = 1_024;

/// How long a sink for which nothing is due stays claimed.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct ClaimedSink {
    claim: SinkClaim,
    in_flight: HashSet<Uuid>,
    /// How many may be in flight.
    width: usize,
    /// Rounds in a row without a success.
    failures: u32,
    /// More may be due than was read.
    has_more: bool,
    /// It is not this node's any more, or must not be sent to.
    is_over: bool,
    /// Since when nothing is due for it.
    idle: Option<Instant>,
}

/// The sinks that this node has claimed.
#[derive(Debug, Default)]
pub(super) struct ClaimedSinks(BTreeMap<SinkNumber, ClaimedSink>);

impl ClaimedSinks {
    pub(super) fn claimed(&mut self, claims: &[SinkClaim]) {
        for claim in claims {
            let sink = ClaimedSink {
                claim: *claim,
                in_flight: HashSet::new(),
                width: FIRST_OF_SINK,
                failures: 0,
                has_more: true,
                is_over: false,
                idle: None,
            };
            self.0.insert(claim.number, sink);
        }
    }

    /// Something may have become due for any of them.
    pub(super) fn ask_all(&mut self) {
        self.0.values_mut().for_each(|sink| sink.has_more = true);
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = SinkNumber> {
        self.0.keys().copied()
    }

    pub(super) fn all(&self) -> Vec<SinkClaim> {
        self.0.values().map(|sink| sink.claim).collect()
    }

    /// The claim of a sink, and its failures.
    pub(super) fn find(&self, number: SinkNumber) -> Option<(SinkClaim, u32)> {
        self.0.get(&number).map(|sink| (sink.claim, sink.failures))
    }

    /// What is to be read, for each sink that has room for it.
    pub(super) fn rooms(&self) -> Vec<SinkRoom> {
        let mut left = MOST.saturating_sub(self.0.values().map(|sink| sink.in_flight.len()).sum());
        let mut rooms = Vec::new();
        for sink in self.0.values().filter(|sink| sink.has_more && !sink.is_over) {
            let flying = sink.in_flight.len();
            let width = if sink.failures > 0 { 1 } else { sink.width };
            // With half of it free, so that a read is worth it.
            let room = if flying * 2 <= width {
                width.saturating_sub(flying)
            } else {
                0
            };
            // A sink to which nothing is being sent is never left out.
            let room = if flying == 0 {
                room.min(left.max(1))
            } else {
                room.min(left)
            };
            if room > 0 {
                left = left.saturating_sub(room);
                rooms.push(SinkRoom {
                    claim: sink.claim,
                    room: i32::try_from(room).unwrap_or(i32::MAX),
                    in_flight: sink.in_flight.iter().copied().collect(),
                });
            }
        }
        rooms
    }

    /// What a read has found: less than there is room for means that no more is due.
    pub(super) fn answered(&mut self, rooms: &[SinkRoom], found: &[DueSink]) {
        for room in rooms {
            let Some(sink) = self.0.get_mut(&room.claim.number) else {
                continue;
            };
            let Some(due) = found.iter().find(|due| due.number == room.claim.number) else {
                sink.is_over = true;
                continue;
            };
            sink.failures = due.failures;
            // Fewer may also have been as many bytes as are read at once.
            sink.has_more = !due.deliveries.is_empty();
            sink.idle = if due.deliveries.is_empty() && sink.in_flight.is_empty() {
                sink.idle.or_else(|| Some(Instant::now()))
            } else {
                None
            };
        }
    }

    pub(super) fn took_off(&mut self, number: SinkNumber, id: Uuid) {
        if let Some(sink) = self.0.get_mut(&number) {
            sink.in_flight.insert(id);
        }
    }

    pub(super) fn landed(&mut self, number: SinkNumber, id: Uuid) {
        if let Some(sink) = self.0.get_mut(&number) {
            sink.in_flight.remove(&id);
        }
    }

    /// What a round says of a sink. One that fails or is gone is released once nothing is being sent to it.
    pub(super) fn judge(&mut self, number: SinkNumber, outcome: &SinkOutcome) {
        let Some(sink) = self.0.get_mut(&number) else { return };
        match outcome {
            SinkOutcome::Takes => {
                sink.failures = 0;
                sink.width = (sink.width * 2).min(MOST_OF_SINK);
            }
            SinkOutcome::Fails { .. } | SinkOutcome::Gone => sink.is_over = true,
        }
    }

    /// The claims that this node needs no longer.
    pub(super) fn releasable(&self, now: Instant) -> Vec<SinkClaim> {
        let is_idle = |sink: &ClaimedSink| sink.idle.is_some_and(|since| now.duration_since(since) >= IDLE);
        let ends = self
            .0
            .values()
            .filter(|sink| sink.in_flight.is_empty() && (sink.is_over || is_idle(sink)));
        ends.map(|sink| sink.claim).collect()
    }

    pub(super) fn released(&mut self, number: SinkNumber) {
        self.0.remove(&number);
    }
}
