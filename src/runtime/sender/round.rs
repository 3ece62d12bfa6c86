//! The sinks that this node has claimed: what is being sent to each, and how much more may be.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::store::webhook::delivery::{DueDeliveries, SinkClaim, SinkOutcome, SinkRoom};
use crate::store::webhook::sink::SinkNumber;

/// The most deliveries that are sent to one sink at once. It begins with a few, and has more as long as it takes them.
pub(super) const MOST_OF_SINK: usize = 128;
const FIRST_OF_SINK: usize = 8;

/// The most deliveries that are sent at once, beside one for each sink.
pub(super) const MOST: usize = 1_024;

/// The most bytes of payloads that are in memory at once: of one sink, and of all; beside one delivery for each sink.
pub(super) const BYTES_OF_SINK: usize = 4 << 20;
pub(super) const MOST_BYTES: usize = 64 << 20;

/// How long a sink for which nothing is due stays claimed.
const IDLE: Duration = Duration::from_secs(5);

/// A delivery may become visible after younger ones, by as long as its transaction took: a read begins so long before what the last
/// one found. One that comes still later is found by the whole read that follows the last one after [`WHOLE`].
const MARGIN: TimeDelta = TimeDelta::seconds(2);
const WHOLE: Duration = Duration::from_secs(30);

/// What is to be asked for a sink.
#[derive(Clone, Copy, Debug)]
enum Ask {
    /// More is due than was read.
    More,
    /// Nothing more was due then, or too much for one read.
    Nothing,
    /// It fails, and one delivery asks whether it is back: what that has come to decides.
    Probes,
    /// It is not sent to before then; `None`: it is not this node's any more, or must not be sent to.
    Rests(Option<Instant>),
}

#[derive(Debug)]
struct ClaimedSink {
    claim: SinkClaim,
    /// With the bytes of their payloads.
    in_flight: HashMap<Uuid, usize>,
    /// How many may be in flight.
    width: usize,
    /// Rounds in a row without a success.
    failures: u32,
    /// Since when each read has found nothing due.
    idle_since: Option<Instant>,
    ask: Ask,
    /// From where the next read begins, and when a whole one was made.
    since: Option<DateTime<Utc>>,
    whole: Option<Instant>,
}

impl ClaimedSink {
    fn bytes(&self) -> usize {
        self.in_flight.values().sum()
    }

    /// It has answered to what asked whether it is back.
    fn goes_on(&mut self) {
        if let Ask::Probes = self.ask {
            self.ask = Ask::More;
        }
    }

    /// How many more it may be sent, if a sink may have so many at once.
    fn room(&self, widest: usize, now: Instant) -> usize {
        let flying = self.in_flight.len();
        match self.ask {
            Ask::Nothing | Ask::Probes | Ask::Rests(None) => return 0,
            Ask::Rests(Some(until)) if now < until => return 0,
            Ask::More | Ask::Rests(_) => {}
        }
        if self.bytes() >= BYTES_OF_SINK {
            return 0;
        }
        // What it was sent before it failed may hang on.
        if self.failures > 0 {
            return usize::from(flying < MOST_OF_SINK);
        }
        // With half of it free, so that a read is worth it.
        let width = self.width.min(widest);
        if flying * 2 <= width {
            width.saturating_sub(flying)
        } else {
            0
        }
    }
}

/// The sinks that this node has claimed.
#[derive(Debug, Default)]
pub(super) struct ClaimedSinks(BTreeMap<SinkNumber, ClaimedSink>);

impl ClaimedSinks {
    pub(super) fn claimed(&mut self, claims: &[SinkClaim]) {
        for claim in claims {
            // One that is there was released, or changed, and this node did not know: it still sends what is in flight.
            let sink = self.0.entry(claim.number).or_insert_with(|| ClaimedSink {
                claim: *claim,
                in_flight: HashMap::new(),
                width: FIRST_OF_SINK,
                failures: 0,
                idle_since: None,
                ask: Ask::More,
                since: None,
                whole: None,
            });
            (sink.claim, sink.ask) = (*claim, Ask::More);
            // What another node had read meanwhile is not known.
            sink.whole = None;
        }
    }

    /// Something may have become due for any of them.
    pub(super) fn ask_all(&mut self) {
        for sink in self.0.values_mut() {
            if let Ask::Nothing = sink.ask {
                sink.ask = Ask::More;
            }
        }
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
    pub(super) fn rooms(&self, now: Instant) -> Vec<SinkRoom> {
        let mut left = MOST.saturating_sub(self.0.values().map(|sink| sink.in_flight.len()).sum());
        let bytes_left = MOST_BYTES.saturating_sub(self.0.values().map(ClaimedSink::bytes).sum());
        let sinks = self.0.len().max(1);
        let share = BYTES_OF_SINK.min(bytes_left / sinks);
        // So that a few that are slow leave places to the others.
        let widest = FIRST_OF_SINK.max(MOST / sinks);
        let mut rooms = Vec::new();
        for sink in self.0.values() {
            let room = sink.room(widest, now);
            // A sink to which nothing is being sent is never left out.
            let room = match (sink.in_flight.is_empty(), share) {
                (true, 0) => room.min(1),
                (true, _) => room.min(left.max(1)),
                (false, 0) => 0,
                (false, _) => room.min(left),
            };
            if room > 0 {
                let bytes = BYTES_OF_SINK.saturating_sub(sink.bytes()).min(share);
                left = left.saturating_sub(room);
                rooms.push(SinkRoom {
                    claim: sink.claim,
                    room: i32::try_from(room).unwrap_or(i32::MAX),
                    bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
                    in_flight: sink.in_flight.keys().copied().collect(),
                    since: sink
                        .since
                        .filter(|_| sink.whole.is_some_and(|whole| now.duration_since(whole) < WHOLE)),
                });
            }
        }
        rooms
    }

    /// What a read has found. A sink with as many as it had room for is read again at once. Fewer are all that were due, or as many bytes
    /// as are read at once: returns whether another read is to follow after a pause.
    pub(super) fn answered(&mut self, rooms: &[SinkRoom], found: &DueDeliveries) -> bool {
        let mut follows = false;
        for room in rooms {
            let Some(sink) = self.0.get_mut(&room.claim.number) else {
                continue;
            };
            let Some(due) = found.sinks.iter().find(|due| due.number == room.claim.number) else {
                sink.ask = Ask::Rests(None);
                continue;
            };
            sink.failures = due.failures;
            if room.since.is_none() {
                sink.whole = Some(Instant::now());
            }
            // They come in this order: what is due before the last one is in flight.
            let reached = due.deliveries.last().map(|last| last.due_at).or(found.now);
            sink.since = reached.map(|reached| reached - MARGIN);
            sink.idle_since = match due.deliveries.is_empty() {
                true => sink.idle_since.or_else(|| Some(Instant::now())),
                false => None,
            };
            let is_full = i32::try_from(due.deliveries.len()).is_ok_and(|count| count >= room.room);
            sink.ask = match (due.deliveries.is_empty(), due.failures) {
                (true, _) => Ask::Nothing,
                (false, 1..) => Ask::Probes,
                (false, 0) if is_full => Ask::More,
                (false, 0) => {
                    follows = true;
                    Ask::Nothing
                }
            };
        }
        follows
    }

    pub(super) fn took_off(&mut self, number: SinkNumber, id: Uuid, bytes: usize) {
        if let Some(sink) = self.0.get_mut(&number) {
            sink.in_flight.insert(id, bytes);
        }
    }

    pub(super) fn landed(&mut self, number: SinkNumber, id: Uuid) {
        if let Some(sink) = self.0.get_mut(&number) {
            sink.in_flight.remove(&id);
        }
    }

    /// What a round says of a sink. One that fails or is gone is released once nothing is being sent to it.
    pub(super) fn judge(&mut self, number: SinkNumber, outcome: &SinkOutcome, now: Instant) {
        let Some(sink) = self.0.get_mut(&number) else { return };
        match outcome {
            // What it took before it asked for a pause, or failed, ends neither.
            SinkOutcome::Takes | SinkOutcome::Refuses if matches!(sink.ask, Ask::Rests(_)) => {}
            SinkOutcome::Takes => {
                sink.failures = 0;
                sink.width = (sink.width * 2).min(MOST_OF_SINK);
                sink.goes_on();
            }
            SinkOutcome::Refuses => sink.goes_on(),
            SinkOutcome::Fails { pause, .. } => {
                sink.failures = sink.failures.max(1);
                let until = now + *pause;
                sink.ask = match sink.ask {
                    Ask::Rests(None) => Ask::Rests(None),
                    // A round that was sent before it began to rest counts once.
                    Ask::Rests(Some(since)) if now < since => Ask::Rests(Some(since)),
                    _ => Ask::Rests(Some(until)),
                };
            }
            SinkOutcome::Gone => sink.ask = Ask::Rests(None),
        }
    }

    /// The claims that this node needs no longer.
    pub(super) fn releasable(&self, now: Instant) -> Vec<SinkClaim> {
        let is_over = |sink: &ClaimedSink| match sink.ask {
            Ask::More => false,
            Ask::Nothing => sink.idle_since.is_some_and(|since| now.duration_since(since) >= IDLE),
            Ask::Probes | Ask::Rests(_) => true,
        };
        let ends = self
            .0
            .values()
            .filter(|sink| sink.in_flight.is_empty() && is_over(sink));
        ends.map(|sink| sink.claim).collect()
    }

    pub(super) fn released(&mut self, number: SinkNumber) {
        self.0.remove(&number);
    }
}
