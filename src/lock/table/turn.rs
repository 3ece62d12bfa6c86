//! Whose turn it is among processes.
//!
//! # Invariants
//!
//! - Who misses a key says `want` to all. Everybody remembers who wants it, in the order in which they said so, also
//!   those that have nothing to do with it yet: a process that begins to want it stands behind them.
//! - Who has a key that others want gives it to at most [`TURN`] more of its own requests, and to no more than stood in
//!   line when it heard. Then it gives it back, tells all whose turn it is (`free`), and who comes after, itself behind
//!   them if it still waits. It stands back until it is called, or until the other has had time enough.
//! - Who hears that it is somebody else's turn leaves the key alone for as long; if it was not named among those that come
//!   after, it says again that it wants it. Who is called and wants it no more calls the next.
//! - Readers at the head of the line are called together, and readers never go ahead of a writer elsewhere that they know.
//! - Calls do not go round in circles: a request stands in line where it missed, not at another key of it, and one that
//!   the budget has no room for stands in no line elsewhere.
//! - All this is advice. What was said may be lost, and who was called may be dead: then it is forgotten after
//!   [`REMEMBERED`], and those who wait try again in time, each by itself, and say again that they want it.

use std::time::{Duration, Instant};

use rand::RngExt;

use super::super::key::LockKey;
use super::super::request::LockMode;
use super::{Entry, Had, Outbox, Table};

/// Another process, by the id of the backend that serves its session.
pub(in crate::lock) type Peer = i32;

/// Requests of a process that have a key in a row, after the first, while others want it. A line that is no longer than
/// this is served whole, so that nobody waits for two rounds of the cluster: with 16, the longest of 64 waits on three
/// nodes was half again as long.
pub(in crate::lock) const TURN: u32 = 32;
/// The same when nobody else is known to want it, for the case that what they said was lost.
const UNDISTURBED: u32 = 64;

/// After the first miss: the holder may have let go before our hint reached it. Microseconds, jittered.
const FIRST_RETRY: (u64, u64) = (1_000, 3_000);
/// After the next: heals whatever was lost.
const RETRY: (u64, u64) = (100_000, 500_000);
/// Who let go for others leaves them so long to take it: longer than a hint and a try take, which is up to three of our
/// own questions, and little if nobody does.
const YIELD: (u64, u64) = (3_000, 10_000);
const YIELD_QUESTIONS: (u64, u64) = (4, 8);

/// Who was not heard of for so long waits no more: four times the longest pause between two tries.
pub(in crate::lock) const REMEMBERED: Duration = Duration::from_secs(2);
/// Keys of which it is remembered who wants them, together with those that we have and wait for.
const KEYS: usize = 16_384;
/// Of one key: processes that are remembered. Others say again that they want it.
const OTHERS: usize = 64;

/// Another process that wants a key.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) peer: Peer,
    pub(super) mode: LockMode,
    heard: Instant,
}

/// What the others know of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not that we wait.
    Unknown,
    /// That we wait: we have said so.
    Announced,
    /// That it is our turn: one of them has said so.
    Called,
}

/// It is somebody's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lock) struct Pass {
    pub(in crate::lock) key: LockKey,
    /// Whose; of nobody in particular when it is empty.
    pub(in crate::lock) to: Vec<Peer>,
    /// Who comes after them.
    pub(in crate::lock) then: Vec<(Peer, LockMode)>,
}

/// What processes tell each other of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lock) enum Said {
    /// I wait for it, to hold it so.
    Want(LockKey, LockMode),
    /// I wait for it no more.
    Done(LockKey),
    Pass(Pass),
}

impl Entry {
    /// Somebody wants it, or wants it still.
    fn hear(&mut self, peer: Peer, mode: LockMode, now: Instant) {
        if let Some(other) = self.others.iter_mut().find(|other| other.peer == peer) {
            (other.mode, other.heard) = (mode, now);
        } else if self.others.len() < OTHERS {
            self.others.push(Other { peer, mode, heard: now });
        }
    }

    /// Those at the head of the line, who can have it together.
    fn call(&mut self) -> Vec<Peer> {
        let together = self.sharers_first().max(1).min(self.others.len());
        self.others.drain(..together).map(|other| other.peer).collect()
    }

    fn sharers_first(&self) -> usize {
        let shared = |other: &&Other| other.mode == LockMode::Shared;
        self.others.iter().take_while(shared).count()
    }

    fn after(&self) -> Vec<(Peer, LockMode)> {
        self.others.iter().map(|other| (other.peer, other.mode)).collect()
    }

    /// How many more of us may have it, now that others want it.
    fn limit(&self) -> u32 {
        u32::try_from(self.parked.len()).unwrap_or(TURN).min(TURN)
    }
}

impl Table {
    /// Another process said something.
    pub(in crate::lock) fn hear(&mut self, from: Peer, said: &Said, now: Instant, outbox: &mut Outbox) {
        if self.dead || self.back.me().is_none_or(|me| me == from) {
            return;
        }
        match said {
            Said::Want(key, mode) => self.wanted_elsewhere(*key, from, *mode, now),
            Said::Done(key) => self.given_up_elsewhere(*key, from, now, outbox),
            Said::Pass(pass) => self.passed_elsewhere(pass, from, now, outbox),
        }
        self.feed(now, outbox);
    }

    /// Another process waits for a key.
    fn wanted_elsewhere(&mut self, key: LockKey, peer: Peer, mode: LockMode, now: Instant) {
        if self.entries.len() >= KEYS && !self.entries.contains_key(&key) {
            return;
        }
        let entry = self.entries.entry(key).or_insert_with(Entry::new);
        entry.hear(peer, mode, now);
        entry.turn = entry.turn.min(entry.limit());
        let had = entry.had;
        self.remember(key, now);
        if had == Had::Has(LockMode::Shared) {
            self.call_sharers(key);
        }
    }

    /// Another process waits no more for a key.
    fn given_up_elsewhere(&mut self, key: LockKey, peer: Peer, now: Instant, outbox: &mut Outbox) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.others.retain(|other| other.peer != peer);
            self.others_changed(key, now, outbox);
        }
    }

    /// Another process says whose turn it is.
    fn passed_elsewhere(&mut self, pass: &Pass, from: Peer, now: Instant, outbox: &mut Outbox) {
        let Some(me) = self.back.me() else { return };
        let key = pass.key;
        let called = pass.to.contains(&me);
        let known = self.entries.contains_key(&key);
        if !known && (self.entries.len() >= KEYS || (!called && pass.then.is_empty())) {
            return;
        }
        let entry = self.entries.entry(key).or_insert_with(Entry::new);
        if matches!(entry.had, Had::Has(_)) {
            // It was said by somebody who shared it with us, or had it before us.
            return;
        }
        // What they know goes first; what we know beyond that was said in the meantime.
        let mut ours = std::mem::take(&mut entry.others);
        for (peer, mode) in pass.then.iter().filter(|(peer, _)| *peer != me) {
            entry.hear(*peer, *mode, now);
        }
        ours.retain(|other| other.peer != from && !pass.to.contains(&other.peer));
        for other in ours {
            if entry.others.iter().all(|known| known.peer != other.peer) {
                entry.others.push(other);
            }
        }
        let waits = !entry.parked.is_empty();
        let listed = pass.then.iter().any(|(peer, _)| *peer == me);
        if called {
            entry.standing = Standing::Called;
        }
        let asked = entry.had != Had::Nothing;
        self.remember(key, now);
        if asked {
            return;
        }
        if called || pass.to.is_empty() {
            self.look_now(key, now, outbox);
        } else if waits {
            if !listed {
                self.say_want(key);
            }
            self.stand_back(key, now);
        }
        self.tidy(key, now);
    }

    /// A key was had, or given up, for the last time here: it is the next one's turn. `over`: we would go on, but have
    /// had it often enough.
    pub(super) fn give_way(&mut self, key: LockKey, over: bool, now: Instant) {
        let Some(me) = self.back.me() else {
            if over {
                self.leave_alone(key, YIELD, now);
            }
            return;
        };
        let mode = self.next_mode(key);
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.standing = Standing::Unknown;
        if entry.others.is_empty() {
            if over {
                // Whoever waits unheard hears this, and says so; we go on.
                self.pass.push(Pass {
                    key,
                    to: Vec::new(),
                    then: Vec::new(),
                });
            }
            return;
        }
        let to = entry.call();
        let mut then = entry.after();
        if let Some(mode) = mode {
            then.push((me, mode));
            entry.standing = Standing::Announced;
            self.done.remove(&key);
        } else {
            self.want.remove(&key);
        }
        self.pass.push(Pass { key, to, then });
        self.stand_back(key, now);
    }

    /// We have it.
    pub(super) fn begin_turn(&mut self, key: LockKey, mode: LockMode, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.others.retain(|other| other.heard + REMEMBERED > now);
        entry.turn = if entry.others.is_empty() {
            UNDISTURBED
        } else {
            entry.limit()
        };
        entry.gave_way = false;
        if std::mem::replace(&mut entry.standing, Standing::Unknown) == Standing::Announced {
            // Nobody called us: they believe that we wait.
            self.want.remove(&key);
            self.done.insert(key);
        }
        if let Some(at) = entry.retry_at.take() {
            self.retries.remove(&(at, key));
        }
        if mode == LockMode::Shared {
            self.call_sharers(key);
        }
    }

    /// Somebody else has it.
    pub(super) fn missed(&mut self, key: LockKey, mode: LockMode, full: bool, now: Instant) {
        let talks = self.back.me().is_some();
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let first = entry.misses == 0 && !full;
        entry.misses = entry.misses.saturating_add(1);
        if talks && !full {
            entry.standing = Standing::Announced;
            self.done.remove(&key);
            self.want.insert(key, mode);
        }
        self.leave_alone(key, if first { FIRST_RETRY } else { RETRY }, now);
    }

    /// Somebody waits here for a key that is for others now.
    pub(super) fn stand_in_line(&mut self, key: LockKey, now: Instant) {
        let Some(entry) = self.entries.get(&key) else { return };
        if self.back.me().is_none() || entry.had != Had::Nothing || !entry.is_free() {
            return;
        }
        let (standing, waits) = (entry.standing, entry.retry_at.is_some());
        if standing == Standing::Unknown || !waits {
            self.say_want(key);
        }
        if !waits {
            let unknown = standing == Standing::Unknown;
            self.leave_alone(key, if unknown { FIRST_RETRY } else { RETRY }, now);
        }
    }

    /// Nobody waits here any more.
    pub(super) fn stop_waiting(&mut self, key: LockKey, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        match std::mem::replace(&mut entry.standing, Standing::Unknown) {
            Standing::Unknown => {}
            Standing::Announced => {
                self.want.remove(&key);
                self.done.insert(key);
            }
            Standing::Called => self.give_way(key, true, now),
        }
    }

    /// What another process has said may be out of date.
    pub(super) fn forget(&mut self, key: LockKey, now: Instant, outbox: &mut Outbox) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.forget_at = None;
        entry.others.retain(|other| other.heard + REMEMBERED > now);
        self.remember(key, now);
        self.others_changed(key, now, outbox);
    }

    /// Asks for it now if somebody waits.
    pub(super) fn look_now(&mut self, key: LockKey, now: Instant, outbox: &mut Outbox) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.misses = 0;
        entry.gave_way = false;
        if let Some(at) = entry.retry_at.take() {
            self.retries.remove(&(at, key));
        }
        self.pump(key, now, outbox);
    }

    /// Some that we made way for are gone.
    fn others_changed(&mut self, key: LockKey, now: Instant, outbox: &mut Outbox) {
        let mode = self.next_mode(key);
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let writers = entry.others.iter().any(|other| other.mode == LockMode::Exclusive);
        match entry.had {
            Had::Has(_) if entry.others.is_empty() => {
                entry.turn = UNDISTURBED;
                self.pump(key, now, outbox);
            }
            Had::Has(LockMode::Shared) => self.call_sharers(key),
            // Readers that only stood back for a writer.
            Had::Nothing if !writers && mode == Some(LockMode::Shared) => self.look_now(key, now, outbox),
            _ => self.tidy(key, now),
        }
    }

    /// We have it shared: whoever can share it with us shall.
    fn call_sharers(&mut self, key: LockKey) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if entry.sharers_first() > 0 {
            let to = entry.call();
            let then = entry.after();
            self.pass.push(Pass { key, to, then });
        }
    }

    fn say_want(&mut self, key: LockKey) {
        let mode = self.next_mode(key).unwrap_or(LockMode::Exclusive);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.standing = Standing::Announced;
            self.done.remove(&key);
            self.want.insert(key, mode);
        }
    }

    /// How the first in line here wants it.
    fn next_mode(&self, key: LockKey) -> Option<LockMode> {
        let first = self.entries.get(&key)?.parked.first()?;
        let keys = self.requests.get(first)?.wish.keys.as_slice();
        keys.iter().find(|(its, _)| *its == key).map(|(_, mode)| *mode)
    }

    /// Leaves it to whoever was called.
    fn stand_back(&mut self, key: LockKey, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.gave_way = true;
            entry.misses = 1;
        }
        let question = u64::try_from(self.pace.as_micros()).unwrap_or(0);
        let least = YIELD.0.max(question * YIELD_QUESTIONS.0);
        let most = YIELD.1.max(question * YIELD_QUESTIONS.1);
        self.leave_alone(key, (least, most), now);
    }

    fn leave_alone(&mut self, key: LockKey, (least, most): (u64, u64), now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let at = now + Duration::from_micros(self.jitter.random_range(least..most));
        if let Some(before) = entry.retry_at.replace(at) {
            self.retries.remove(&(before, key));
        }
        self.retries.insert((at, key));
    }

    /// Looks through the others when the first of them may be out of date.
    fn remember(&mut self, key: LockKey, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if entry.forget_at.is_none()
            && let Some(first) = entry.others.iter().map(|other| other.heard).min()
        {
            let at = (first + REMEMBERED).max(now);
            entry.forget_at = Some(at);
            self.forgets.insert((at, key));
        }
    }
}
