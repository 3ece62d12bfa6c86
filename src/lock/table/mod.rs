//! Which request of this process owns a lock, and which ones queue: a table without tasks, clocks or connections.
//!
//! # Invariants
//!
//! - A request owns all of its keys (of a semaphore: one of them) or none. It *reserves* them here first, then the backend
//!   is asked for those that the process does not hold yet; if one is missed, all are returned. No request holds a key while
//!   it waits for another one, so no two requests deadlock.
//! - Tickets are numbered in order of arrival, and the queue of a key is in order of tickets: no request overtakes an
//!   earlier one at a key, in any mode. So a queued writer stops the readers behind it.
//! - The backend is asked for a key at most once at a time, and only while the process does not hold it: a session that
//!   takes its own lock again would stack it.
//! - A release goes out before the requests that follow it, or ahead of them in the same batch.
//! - A process that releases a key for which other processes wait names the next of them, and yields to it
//!   ([`handoff`]).
//! - Results are collected in a [`TableResults`] and sent after the table is unlocked: a dropped handle enters it again.
//!
//! # Layout
//!
//! `queue`: how a request moves; `handoff`: which process is next; `view`: what operators see.

mod handoff;
mod queue;
mod view;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use tokio::sync::oneshot;

use super::key::{BuildKeyHasher, LockKey};
use super::request::{KeyRequest, LockMode};
use super::stats::{Counters, count};
use handoff::{Announcement, RemoteWaiter};
pub(super) use handoff::{Handoff, LockMessage, Peer};
#[cfg(test)]
pub(super) use handoff::{QUOTA, WAITER_TTL};
pub use view::HeldLock;
pub(crate) use view::KeyView;

/// How long the server's lock table counts as full after it was found so.
const FULL_FOR: Duration = Duration::from_secs(1);

/// Round trips longer than this do not extend the pause of a process that yields.
const LONGEST_ROUND_TRIP: Duration = Duration::from_millis(250);

/// The number of a request.
pub(super) type Ticket = u64;

/// Receives whether a request was granted; dropped when the provider has ended.
pub(super) type GrantSender = oneshot::Sender<bool>;

/// What keeps the locks that other processes see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    /// No backend: only this process takes the locks.
    InProcess,
    /// A backend that does not notify of a free key; with the most keys at a time.
    Polled(usize),
    /// A backend that keeps names, not keys, for a time that is extended; with the most keys at a time.
    #[cfg(feature = "redis")]
    Leased(usize),
    /// A backend whose processes notify each other. This one is `me`.
    Notified { budget: usize, me: Peer },
}

impl Backend {
    /// The most keys at a time.
    pub(super) fn budget(self) -> Option<usize> {
        match self {
            Self::InProcess => None,
            #[cfg(feature = "redis")]
            Self::Leased(budget) => Some(budget),
            Self::Polled(budget) | Self::Notified { budget, .. } => Some(budget),
        }
    }

    /// Whether it keeps names: two names with one key are then two locks for it.
    pub(super) fn keeps_names(self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Self::Leased(_) => true,
            Self::InProcess | Self::Polled(_) | Self::Notified { .. } => false,
        }
    }

    fn me(self) -> Option<Peer> {
        match self {
            Self::Notified { me, .. } => Some(me),
            _ => None,
        }
    }
}

/// Whether the process holds a key in the backend.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum KeyState {
    #[default]
    NotHeld,
    Requested(LockMode),
    Held(LockMode),
}

#[derive(Default)]
struct KeyEntry {
    state: KeyState,
    /// The name under which the backend has it or is asked for it, where it keeps names.
    name: Option<Arc<str>>,
    /// Reserved or owned by one request, exclusively.
    exclusive: bool,
    /// How many requests have reserved it or own it, shared.
    shared: u32,
    /// The requests that await the backend's answer.
    requesting: Vec<Ticket>,
    queue: BTreeSet<Ticket>,
    /// Other processes that wait for it, in the order in which they get it.
    remote: Vec<RemoteWaiter>,
    /// When the first of the remote waiters expires.
    expires_at: Option<Instant>,
    /// What other processes know of this one.
    announcement: Announcement,
    /// How many more requests of this process may own it before it is released.
    quota: u32,
    /// It was handed off to another process, which may not hold it yet.
    yielded: bool,
    misses: u32,
    /// Another process holds it: the backend is not asked before.
    retry_at: Option<Instant>,
}

impl KeyEntry {
    /// No request of this process has reserved it or owns it.
    fn is_free(&self) -> bool {
        !self.exclusive && self.shared == 0
    }

    /// No request of this process owns it, asks for it or waits for it.
    fn is_idle(&self) -> bool {
        self.state == KeyState::NotHeld && self.is_free() && self.queue.is_empty() && self.requesting.is_empty()
    }
}

enum RequestState {
    Queued,
    /// How many answers of the backend are outstanding, and whether one of the others was a miss.
    Requested {
        outstanding: usize,
        missed: bool,
    },
    Held {
        since: Instant,
    },
}

struct RequestEntry {
    request: KeyRequest,
    /// Of a semaphore: the slot that is tried or owned.
    slot: usize,
    waits: bool,
    /// The key that another process held when the backend was asked last.
    missed: Option<LockKey>,
    /// Of what it owned, the keys that the backend has lost.
    lost: Vec<LockKey>,
    /// It was not granted at once.
    contended: bool,
    began: Instant,
    state: RequestState,
    reply: Option<GrantSender>,
}

impl RequestEntry {
    /// The keys that it reserves, and then owns.
    fn keys(&self) -> &[(LockKey, LockMode)] {
        let keys = self.request.keys.as_slice();
        if self.request.any {
            keys.get(self.slot..=self.slot).unwrap_or_default()
        } else {
            keys
        }
    }
}

/// The results of one change of the table, with its time, to be sent once the table is unlocked.
pub(super) struct TableResults {
    now: Instant,
    pub(super) granted: Vec<(GrantSender, Ticket)>,
    pub(super) refused: Vec<GrantSender>,
}

impl TableResults {
    pub(super) fn at(now: Instant) -> Self {
        Self {
            now,
            granted: Vec::new(),
            refused: Vec::new(),
        }
    }
}

/// What the backend does next, in this order: release, take, notify.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) free: Vec<(LockKey, LockMode)>,
    pub(super) take: Vec<(LockKey, LockMode)>,
    pub(super) messages: Vec<LockMessage>,
}

/// What a backend that keeps names gets of a key to take.
#[cfg(feature = "redis")]
pub(super) struct NamedKey {
    pub(super) name: Arc<str>,
    /// The request, if it asks for several keys.
    pub(super) together: Option<Ticket>,
}

pub(super) struct Table {
    backend: Backend,
    entries: HashMap<LockKey, KeyEntry, BuildKeyHasher>,
    requests: HashMap<Ticket, RequestEntry, BuildKeyHasher>,
    next: Ticket,
    /// Keys that are held in the backend, or asked for.
    in_use: usize,
    /// Requests that wait for the budget.
    over_budget: BTreeSet<Ticket>,
    /// The server's lock table was full: the most keys until then.
    full: Option<(usize, Instant)>,
    retries: BTreeSet<(Instant, LockKey)>,
    /// When the remote waiters of a key are checked for expired ones.
    expiries: BTreeSet<(Instant, LockKey)>,
    /// The moving average of a round trip.
    round_trip: Duration,
    free: Vec<(LockKey, LockMode)>,
    take: Vec<(LockKey, LockMode)>,
    withdrawn: HashSet<LockKey, BuildKeyHasher>,
    waiting: HashMap<LockKey, LockMode, BuildKeyHasher>,
    handoffs: Vec<Handoff>,
    ended: bool,
    /// Jitters pauses, so that no two processes retry together.
    rng: StdRng,
    counters: Arc<Counters>,
}

impl Table {
    pub(super) fn new(backend: Backend, counters: Arc<Counters>, rng: StdRng) -> Self {
        Self {
            backend,
            entries: HashMap::default(),
            requests: HashMap::default(),
            next: 0,
            in_use: 0,
            over_budget: BTreeSet::new(),
            full: None,
            retries: BTreeSet::new(),
            expiries: BTreeSet::new(),
            round_trip: Duration::ZERO,
            free: Vec::new(),
            take: Vec::new(),
            withdrawn: HashSet::default(),
            waiting: HashMap::default(),
            handoffs: Vec::new(),
            ended: false,
            rng,
            counters,
        }
    }

    /// Adds a key that the backend holds already, until the provider ends.
    pub(super) fn keep(&mut self, key: LockKey) {
        let entry = self.entries.entry(key).or_default();
        entry.state = KeyState::Held(LockMode::Exclusive);
        entry.exclusive = true;
        self.in_use += 1;
    }

    /// Adds a request. `None` if the provider has ended; the reply is then dropped.
    pub(super) fn submit(
        &mut self,
        request: KeyRequest,
        waits: bool,
        reply: GrantSender,
        results: &mut TableResults,
    ) -> Option<Ticket> {
        if self.ended {
            count(&self.counters.lost);
            return None;
        }
        self.next += 1;
        let ticket = self.next;
        let entry = RequestEntry {
            request,
            slot: 0,
            waits,
            missed: None,
            lost: Vec::new(),
            contended: false,
            began: results.now,
            state: RequestState::Queued,
            reply: Some(reply),
        };
        self.place(ticket, entry, results);
        Some(ticket)
    }

    /// The caller has dropped its future, perhaps after the grant and before it saw it.
    pub(super) fn abandon(&mut self, ticket: Ticket, results: &mut TableResults) {
        let Some(entry) = self.requests.get_mut(&ticket) else {
            return;
        };
        match entry.state {
            RequestState::Held { .. } => return self.release(ticket, results),
            // What the backend grants is released when its answer comes.
            RequestState::Requested { .. } => entry.reply = None,
            RequestState::Queued => {
                if let Some(entry) = self.requests.remove(&ticket) {
                    self.dequeue(ticket, &entry);
                    for (key, _) in entry.request.keys.as_slice() {
                        self.advance(*key, results);
                    }
                    self.advance_over_budget(results);
                }
            }
        }
        count(&self.counters.abandoned);
    }

    /// The handle was dropped.
    pub(super) fn release(&mut self, ticket: Ticket, results: &mut TableResults) {
        let Some(entry) = self.requests.remove(&ticket) else {
            return;
        };
        if let RequestState::Held { since } = entry.state {
            self.counters.hold.record(results.now.saturating_duration_since(since));
        }
        if self.ended {
            return;
        }
        for (key, mode) in entry.keys().iter().filter(|(key, _)| !entry.lost.contains(key)) {
            self.unreserve(*key, *mode, results);
        }
        self.advance_over_budget(results);
    }

    /// The backend has lost these keys, and the handles that own one of them are lost. Returns their tickets. What else such a handle
    /// owns stays its own until it is dropped: its holder does not know of the loss yet. A request that has reserved one of the keys,
    /// and awaits others, asks for it again.
    pub(super) fn lose(&mut self, keys: &[LockKey], results: &mut TableResults) -> Vec<Ticket> {
        let mut lost = HashSet::new();
        for key in keys {
            if let Some(of_key) = self.entries.get_mut(key)
                && matches!(of_key.state, KeyState::Held(_))
            {
                of_key.state = KeyState::NotHeld;
                self.in_use = self.in_use.saturating_sub(1);
                lost.insert(*key);
            }
        }
        let (mut tickets, mut given_up, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for (ticket, entry) in &mut self.requests {
            let of_entry = entry
                .keys()
                .iter()
                .filter(|(key, _)| lost.contains(key) && !entry.lost.contains(key));
            let of_entry: Vec<(LockKey, LockMode)> = of_entry.copied().collect();
            let Some((first, _)) = of_entry.first() else { continue };
            match &mut entry.state {
                RequestState::Queued => {}
                RequestState::Requested { missed, .. } => {
                    *missed = true;
                    entry.missed = Some(*first);
                }
                RequestState::Held { .. } => {
                    if entry.lost.is_empty() {
                        tickets.push(*ticket);
                    }
                    entry.lost.extend(of_entry.iter().map(|(key, _)| *key));
                    if entry.lost.len() == entry.keys().len() {
                        ended.push(*ticket);
                    }
                    given_up.extend(of_entry);
                }
            }
        }
        self.counters.lost.fetch_add(tickets.len() as u64, Relaxed);
        for ticket in ended {
            self.release(ticket, results);
        }
        for (key, mode) in given_up {
            self.unreserve(key, mode, results);
        }
        self.advance_over_budget(results);
        for key in keys {
            self.advance(*key, results);
        }
        tickets
    }

    /// The names of the keys of a batch, in its order.
    #[cfg(feature = "redis")]
    pub(super) fn names_of(&self, batch: &Batch) -> Vec<NamedKey> {
        let named = |(key, _): &(LockKey, LockMode)| {
            let of_key = self.entries.get(key);
            let ticket = of_key.and_then(|of_key| of_key.requesting.first().copied());
            let asks_for_several = |ticket: &Ticket| {
                let entry = self.requests.get(ticket);
                entry.is_some_and(|entry| entry.keys().len() > 1)
            };
            NamedKey {
                name: of_key.and_then(|of_key| of_key.name.clone()).unwrap_or_default(),
                together: ticket.filter(asks_for_several),
            }
        };
        batch.take.iter().map(named).collect()
    }

    /// The keys that a handle owns; none after their loss.
    pub(super) fn keys_of(&self, ticket: Ticket) -> Vec<LockKey> {
        let entry = self.requests.get(&ticket);
        let keys = entry.map(RequestEntry::keys).unwrap_or_default();
        keys.iter().map(|(key, _)| *key).collect()
    }

    /// Whether the backend has anything to do.
    pub(super) fn has_batch(&self) -> bool {
        let no_messages = self.withdrawn.is_empty() && self.waiting.is_empty() && self.handoffs.is_empty();
        !(self.free.is_empty() && self.take.is_empty() && no_messages)
    }

    /// Whether the backend must wake: for a batch, or to retry at another time.
    pub(super) fn must_wake_backend(&self) -> bool {
        self.has_batch() || (self.full.is_some() && !self.over_budget.is_empty())
    }

    /// The next batch, with at most so many keys to take.
    pub(super) fn batch(&mut self, most: usize) -> Batch {
        let rest = self.take.split_off(self.take.len().min(most));
        let withdrawn = self.withdrawn.drain().map(LockMessage::Withdrawn);
        let waiting = self.waiting.drain().map(|(key, mode)| LockMessage::Waiting(key, mode));
        // A process that sends a `Handoff` and asks again queues behind all others.
        let handoffs = self.handoffs.drain(..).map(LockMessage::Handoff);
        Batch {
            free: std::mem::take(&mut self.free),
            take: std::mem::replace(&mut self.take, rest),
            messages: handoffs.chain(withdrawn).chain(waiting).collect(),
        }
    }

    /// Applies the backend's answer to a batch: all keys were taken but those in `missed`.
    pub(super) fn complete(
        &mut self,
        batch: &Batch,
        missed: &HashSet<LockKey>,
        full: bool,
        results: &mut TableResults,
    ) {
        self.counters.freed.fetch_add(batch.free.len() as u64, Relaxed);
        let taken = batch.take.len().saturating_sub(missed.len());
        self.counters.taken.fetch_add(taken as u64, Relaxed);
        if full {
            let held = self.in_use.saturating_sub(missed.len());
            self.full = Some((held.max(1), results.now + FULL_FOR));
        }
        for (key, _) in &batch.take {
            self.complete_key(*key, !missed.contains(key), full, results);
        }
        self.advance_over_budget(results);
    }

    /// When [`Table::retry`] is to be called.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        let first = self.retries.first().map(|(at, _)| *at);
        let expiry = self.expiries.first().map(|(at, _)| *at);
        let full = self.full.filter(|_| !self.over_budget.is_empty());
        let full = full.map(|(_, until)| until);
        [first, expiry, full].into_iter().flatten().min()
    }

    /// Adds a round trip to the average. A process that yields pauses for a multiple of it.
    pub(super) fn record_round_trip(&mut self, took: Duration) {
        self.round_trip = (self.round_trip * 3 + took.min(LONGEST_ROUND_TRIP)) / 4;
    }

    /// Asks again for the missed keys whose time has come.
    pub(super) fn retry(&mut self, results: &mut TableResults) {
        self.full = self.full.filter(|(_, until)| *until > results.now);
        while let Some((at, key)) = self.retries.first().copied().filter(|(at, _)| *at <= results.now) {
            self.retries.remove(&(at, key));
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.retry_at = None;
                entry.yielded = false;
            }
            self.advance(key, results);
        }
        while let Some((at, key)) = self.expiries.first().copied().filter(|(at, _)| *at <= results.now) {
            self.expiries.remove(&(at, key));
            self.remove_expired_waiters(key, results);
        }
        self.advance_over_budget(results);
    }

    /// Asks again for all missed keys, due or not.
    pub(super) fn retry_all(&mut self, results: &mut TableResults) {
        let keys: Vec<LockKey> = self.retries.iter().map(|(_, key)| *key).collect();
        for key in keys {
            self.retry_now(key, results);
        }
        self.retry(results);
    }

    /// The backend is gone, and with it every lock. Returns the replies of all that wait, to be dropped.
    pub(super) fn end(&mut self) -> Vec<GrantSender> {
        self.ended = true;
        self.counters.lost.fetch_add(self.requests.len() as u64, Relaxed);
        let is_held = |entry: &RequestEntry| matches!(entry.state, RequestState::Held { .. });
        let all = std::mem::take(&mut self.requests);
        let (held, waiting): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, entry)| is_held(entry));
        self.requests.extend(held);
        self.entries.clear();
        self.retries.clear();
        self.expiries.clear();
        self.over_budget.clear();
        waiting.into_iter().filter_map(|(_, entry)| entry.reply).collect()
    }

    /// How many keys, requests and backend locks it tracks.
    #[cfg(test)]
    pub(super) fn tracked(&self) -> (usize, usize, usize) {
        (self.entries.len(), self.requests.len(), self.in_use)
    }
}
