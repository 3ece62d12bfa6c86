//! Which process gets a key next.
//!
//! # Invariants
//!
//! - A process that misses a key sends `Waiting` to all. Every process keeps the waiters of a key in the order in which they
//!   announced themselves, even without a request of its own: a process that begins to wait comes after them.
//! - A process that holds a key for which others wait grants it to at most [`QUOTA`] more of its own requests, and to no
//!   more than were queued when it learned of the others. Then it releases the key and sends a `Handoff`, which names the
//!   next process and those that follow, itself last if it still waits. It yields until a `Handoff` names it, or until the
//!   next process has had enough time.
//! - A process that receives a `Handoff` to another one leaves the key alone for the same time; if it waits and is not among
//!   those that follow, it sends `Waiting` again. A process that is named as next but no longer waits sends a `Handoff` to
//!   the one after it.
//! - Readers at the head of the waiters are named together. Readers do not overtake a known writer of another process.
//! - Handoffs do not cycle: a request queues at the key that it missed, not at another one of its keys, and a request
//!   without room in the budget queues at no key.
//! - All this is advice. A message may be lost, and the named process may have crashed: the waiter then expires after
//!   [`WAITER_TTL`], and the others retry in time, each by itself, and send `Waiting` again.

use std::time::{Duration, Instant};

use rand::RngExt;

use super::{KeyEntry, KeyState, Table, TableResults};
use crate::lock::key::LockKey;
use crate::lock::request::LockMode;

/// Another process, by the id of the backend that serves its session.
pub(in crate::lock) type Peer = i32;

/// How many more requests of a process own a key in a row while other processes wait. A queue no longer than this is
/// served whole, so that no request waits for two handoffs around the cluster.
pub(in crate::lock) const QUOTA: u32 = 32;
/// The same without known remote waiters: their messages may be lost.
const UNCONTENDED_QUOTA: u32 = 64;

/// After the first miss, in microseconds, jittered: the key may have been released before the message arrived.
const FIRST_RETRY: (u64, u64) = (1_000, 3_000);
/// After the next misses: makes up for lost messages.
const RETRY: (u64, u64) = (100_000, 500_000);
/// The same with a backend that notifies of what was freed while this process waited for it.
const BUSY_WAIT: (u64, u64) = (10_000, 800_000);
/// The pause of a process that yields: longer than a message and a try take, which is up to three round trips.
const YIELD: (u64, u64) = (3_000, 10_000);
const YIELD_ROUND_TRIPS: (u64, u64) = (4, 8);

/// A waiter expires so long after its last message: four times the longest pause between two retries.
pub(in crate::lock) const WAITER_TTL: Duration = Duration::from_secs(2);
/// The most keys that are tracked for remote waiters, counted with those that this process uses.
const TRACKED_KEYS: usize = 16_384;
/// The most remote waiters of one key. Others send `Waiting` again.
const TRACKED_WAITERS: usize = 64;

/// Another process that waits for a key.
#[derive(Debug)]
pub(super) struct RemoteWaiter {
    pub(super) peer: Peer,
    pub(super) mode: LockMode,
    last_message: Instant,
}

/// What other processes know of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Announcement {
    /// They do not know that it waits.
    #[default]
    None,
    /// They know that it waits: it has sent `Waiting`.
    Waiting,
    /// They know that it is next: another process has sent the `Handoff`.
    Next,
}

/// A key was released for other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lock) struct Handoff {
    pub(in crate::lock) key: LockKey,
    /// The processes that are next; empty: whichever comes first.
    pub(in crate::lock) next: Vec<Peer>,
    /// Those that follow.
    pub(in crate::lock) then: Vec<(Peer, LockMode)>,
}

/// What processes send each other about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lock) enum LockMessage {
    /// The sender waits for it, to hold it in this mode.
    Waiting(LockKey, LockMode),
    /// The sender no longer waits for it.
    Withdrawn(LockKey),
    Handoff(Handoff),
}

impl KeyEntry {
    /// Adds a waiter, or notes that it still waits.
    fn add_waiter(&mut self, peer: Peer, mode: LockMode, now: Instant) {
        if let Some(waiter) = self.remote.iter_mut().find(|waiter| waiter.peer == peer) {
            (waiter.mode, waiter.last_message) = (mode, now);
        } else if self.remote.len() < TRACKED_WAITERS {
            self.remote.push(RemoteWaiter {
                peer,
                mode,
                last_message: now,
            });
        }
    }

    /// Removes the waiters at the head that can hold the key together.
    fn take_next(&mut self) -> Vec<Peer> {
        let together = self.leading_readers().max(1).min(self.remote.len());
        self.remote.drain(..together).map(|waiter| waiter.peer).collect()
    }

    fn leading_readers(&self) -> usize {
        let shared = |waiter: &&RemoteWaiter| waiter.mode == LockMode::Shared;
        self.remote.iter().take_while(shared).count()
    }

    fn waiters(&self) -> Vec<(Peer, LockMode)> {
        self.remote.iter().map(|waiter| (waiter.peer, waiter.mode)).collect()
    }

    /// How many more requests of this process may own it while other processes wait.
    fn contended_quota(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(QUOTA).min(QUOTA)
    }
}

impl Table {
    /// Applies a message of another process.
    pub(in crate::lock) fn receive(&mut self, from: Peer, message: &LockMessage, results: &mut TableResults) {
        if self.ended || self.backend.me().is_none_or(|me| me == from) {
            return;
        }
        match message {
            LockMessage::Waiting(key, mode) => self.receive_waiting(*key, from, *mode, results.now),
            LockMessage::Withdrawn(key) => self.receive_withdrawn(*key, from, results),
            LockMessage::Handoff(handoff) => self.receive_handoff(handoff, from, results),
        }
        self.advance_over_budget(results);
    }

    fn receive_waiting(&mut self, key: LockKey, peer: Peer, mode: LockMode, now: Instant) {
        if self.entries.len() >= TRACKED_KEYS && !self.entries.contains_key(&key) {
            return;
        }
        let entry = self.entries.entry(key).or_default();
        entry.add_waiter(peer, mode, now);
        entry.quota = entry.quota.min(entry.contended_quota());
        let state = entry.state;
        self.schedule_expiry(key, now);
        if state == KeyState::Held(LockMode::Shared) {
            self.hand_off_to_readers(key);
        }
    }

    fn receive_withdrawn(&mut self, key: LockKey, peer: Peer, results: &mut TableResults) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.remote.retain(|waiter| waiter.peer != peer);
            self.waiters_removed(key, results);
        }
    }

    fn receive_handoff(&mut self, handoff: &Handoff, from: Peer, results: &mut TableResults) {
        let Some(me) = self.backend.me() else { return };
        let key = handoff.key;
        let is_next = handoff.next.contains(&me);
        let known = self.entries.contains_key(&key);
        if !known && (self.entries.len() >= TRACKED_KEYS || (!is_next && handoff.then.is_empty())) {
            return;
        }
        let entry = self.entries.entry(key).or_default();
        if matches!(entry.state, KeyState::Held(_)) {
            // The sender shared the key with this process, or held it before.
            return;
        }
        // The sender's waiters come first; any others were announced in the meantime.
        let mut earlier = std::mem::take(&mut entry.remote);
        for (peer, mode) in handoff.then.iter().filter(|(peer, _)| *peer != me) {
            entry.add_waiter(*peer, *mode, results.now);
        }
        earlier.retain(|waiter| waiter.peer != from && !handoff.next.contains(&waiter.peer));
        for waiter in earlier {
            if entry.remote.iter().all(|listed| listed.peer != waiter.peer) {
                entry.remote.push(waiter);
            }
        }
        let waits = !entry.queue.is_empty();
        let listed = handoff.then.iter().any(|(peer, _)| *peer == me);
        if is_next {
            entry.announcement = Announcement::Next;
        }
        let requested = entry.state != KeyState::NotHeld;
        self.schedule_expiry(key, results.now);
        if requested {
            return;
        }
        if is_next || handoff.next.is_empty() {
            self.retry_now(key, results);
        } else if waits {
            if !listed {
                self.announce(key);
            }
            self.yield_to_remote(key, results.now);
        }
        self.remove_if_idle(key, results.now);
    }

    /// The key was released, or is not wanted any more: a `Handoff` names the next process. `quota_used_up`: requests of this
    /// process still wait.
    pub(super) fn hand_off(&mut self, key: LockKey, quota_used_up: bool, now: Instant) {
        let Some(me) = self.backend.me() else {
            if quota_used_up {
                self.postpone(key, YIELD, now);
            }
            return;
        };
        let mode = self.first_queued_mode(key);
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.announcement = Announcement::None;
        if entry.remote.is_empty() {
            if quota_used_up {
                // A process whose `Waiting` was lost sends it again; until then this one continues.
                self.handoffs.push(Handoff {
                    key,
                    next: Vec::new(),
                    then: Vec::new(),
                });
            }
            return;
        }
        let next = entry.take_next();
        let mut then = entry.waiters();
        if let Some(mode) = mode {
            then.push((me, mode));
            entry.announcement = Announcement::Waiting;
            self.withdrawn.remove(&key);
        } else {
            self.waiting.remove(&key);
        }
        self.handoffs.push(Handoff { key, next, then });
        self.yield_to_remote(key, now);
    }

    /// The key was taken: its quota begins.
    pub(super) fn start_quota(&mut self, key: LockKey, mode: LockMode, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.remote.retain(|waiter| waiter.last_message + WAITER_TTL > now);
        entry.quota = if entry.remote.is_empty() {
            UNCONTENDED_QUOTA
        } else {
            entry.contended_quota()
        };
        entry.yielded = false;
        if std::mem::replace(&mut entry.announcement, Announcement::None) == Announcement::Waiting {
            // Taken without a `Handoff`: other processes still have this one among the waiters.
            self.waiting.remove(&key);
            self.withdrawn.insert(key);
        }
        if let Some(at) = entry.retry_at.take() {
            self.retries.remove(&(at, key));
        }
        if mode == LockMode::Shared {
            self.hand_off_to_readers(key);
        }
    }

    /// Another process holds the key.
    pub(super) fn record_miss(&mut self, key: LockKey, mode: LockMode, full: bool, now: Instant) {
        let notifies = self.backend.me().is_some();
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let first = entry.misses == 0 && !full;
        entry.misses = entry.misses.saturating_add(1);
        if notifies && !full {
            entry.announcement = Announcement::Waiting;
            self.withdrawn.remove(&key);
            self.waiting.insert(key, mode);
        }
        let again = if self.backend.keeps_names() { BUSY_WAIT } else { RETRY };
        self.postpone(key, if first { FIRST_RETRY } else { again }, now);
    }

    /// A request was queued at a key that other processes may hold: they learn of it.
    pub(super) fn announce_wait(&mut self, key: LockKey, now: Instant) {
        let Some(entry) = self.entries.get(&key) else { return };
        if self.backend.me().is_none() || entry.state != KeyState::NotHeld || !entry.is_free() {
            return;
        }
        let (announcement, waits) = (entry.announcement, entry.retry_at.is_some());
        if announcement == Announcement::None || !waits {
            self.announce(key);
        }
        if !waits {
            let first = announcement == Announcement::None;
            self.postpone(key, if first { FIRST_RETRY } else { RETRY }, now);
        }
    }

    /// No request of this process waits any more.
    pub(super) fn withdraw(&mut self, key: LockKey, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        match std::mem::replace(&mut entry.announcement, Announcement::None) {
            Announcement::None => {}
            Announcement::Waiting => {
                self.waiting.remove(&key);
                self.withdrawn.insert(key);
            }
            Announcement::Next => self.hand_off(key, true, now),
        }
    }

    /// Removes the remote waiters that have expired.
    pub(super) fn remove_expired_waiters(&mut self, key: LockKey, results: &mut TableResults) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.expires_at = None;
        entry
            .remote
            .retain(|waiter| waiter.last_message + WAITER_TTL > results.now);
        self.schedule_expiry(key, results.now);
        self.waiters_removed(key, results);
    }

    /// Asks for the key now if a request waits for it.
    pub(in crate::lock) fn retry_now(&mut self, key: LockKey, results: &mut TableResults) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.misses = 0;
        entry.yielded = false;
        if let Some(at) = entry.retry_at.take() {
            self.retries.remove(&(at, key));
        }
        self.advance(key, results);
    }

    fn waiters_removed(&mut self, key: LockKey, results: &mut TableResults) {
        let mode = self.first_queued_mode(key);
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let writers = entry.remote.iter().any(|waiter| waiter.mode == LockMode::Exclusive);
        match entry.state {
            KeyState::Held(_) if entry.remote.is_empty() => {
                entry.quota = UNCONTENDED_QUOTA;
                self.advance(key, results);
            }
            KeyState::Held(LockMode::Shared) => self.hand_off_to_readers(key),
            // Readers that yielded to a writer only.
            KeyState::NotHeld if !writers && mode == Some(LockMode::Shared) => self.retry_now(key, results),
            _ => self.remove_if_idle(key, results.now),
        }
    }

    /// The key is held shared: a `Handoff` names the readers at the head of the waiters.
    fn hand_off_to_readers(&mut self, key: LockKey) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if entry.leading_readers() > 0 {
            let next = entry.take_next();
            let then = entry.waiters();
            self.handoffs.push(Handoff { key, next, then });
        }
    }

    fn announce(&mut self, key: LockKey) {
        let mode = self.first_queued_mode(key).unwrap_or(LockMode::Exclusive);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.announcement = Announcement::Waiting;
            self.withdrawn.remove(&key);
            self.waiting.insert(key, mode);
        }
    }

    /// The mode of the first request in the queue.
    fn first_queued_mode(&self, key: LockKey) -> Option<LockMode> {
        let first = self.entries.get(&key)?.queue.first()?;
        let keys = self.requests.get(first)?.request.keys.as_slice();
        keys.iter().find(|(its, _)| *its == key).map(|(_, mode)| *mode)
    }

    /// Leaves the key to the process that is next.
    fn yield_to_remote(&mut self, key: LockKey, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.yielded = true;
            entry.misses = 1;
        }
        let round_trip = u64::try_from(self.round_trip.as_micros()).unwrap_or(0);
        let least = YIELD.0.max(round_trip * YIELD_ROUND_TRIPS.0);
        let most = YIELD.1.max(round_trip * YIELD_ROUND_TRIPS.1);
        self.postpone(key, (least, most), now);
    }

    fn postpone(&mut self, key: LockKey, (least, most): (u64, u64), now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let at = now + Duration::from_micros(self.rng.random_range(least..most));
        if let Some(before) = entry.retry_at.replace(at) {
            self.retries.remove(&(before, key));
        }
        self.retries.insert((at, key));
    }

    /// Schedules the check for expired waiters, for the first of them.
    fn schedule_expiry(&mut self, key: LockKey, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if entry.expires_at.is_none()
            && let Some(first) = entry.remote.iter().map(|waiter| waiter.last_message).min()
        {
            let at = (first + WAITER_TTL).max(now);
            entry.expires_at = Some(at);
            self.expiries.insert((at, key));
        }
    }
}
