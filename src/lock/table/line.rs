//! How requests move: to their locks, to the back, in line, away.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::super::key::LockKey;
use super::super::request::LockMode;
use super::super::stats::count;
use super::{Back, Entry, Had, Outbox, Pending, Reply, State, Table, Ticket};

/// Consecutive grants of a key within the process, while others of it wait, before it goes back for other processes to
/// have their turn: from the issue. Only needed when the hint that somebody waits was lost.
const HAND_OVERS: u32 = 64;

/// After the first miss: the holder may have let go before our hint reached it.
const FIRST_RETRY: (u64, u64) = (1_000, 3_000);
/// After the next: heals whatever hint was lost. Microseconds, jittered.
const RETRY: (u64, u64) = (100_000, 500_000);
/// Who let go for others leaves them so long to take it; longer than a hint and a try take, and little if nobody does.
const YIELD: (u64, u64) = (3_000, 10_000);

enum Way {
    /// All clear; with so many questions.
    Go,
    /// Somebody has one of these, or stands in line there.
    Blocked,
    /// No more keys may be out.
    Starved,
}

impl Table {
    /// Puts a request where it belongs: to its locks, to the back, in line, or away.
    pub(super) fn place(&mut self, ticket: Ticket, mut pending: Pending, now: Instant, outbox: &mut Outbox) {
        let way = if pending.wish.any {
            let slots = pending.wish.keys.as_slice().len();
            let mut best = Way::Blocked;
            while pending.slot < slots {
                best = self.way(ticket, &pending, now);
                if !matches!(best, Way::Blocked) {
                    break;
                }
                pending.slot += 1;
            }
            best
        } else {
            self.way(ticket, &pending, now)
        };
        match way {
            Way::Go => self.reserve(ticket, pending, now, outbox),
            Way::Blocked | Way::Starved if !pending.waits => {
                count(&self.counters.refused);
                outbox.refused.extend(pending.reply);
            }
            Way::Blocked => self.park(ticket, pending, now),
            Way::Starved => {
                count(&self.counters.over_budget);
                pending.slot = 0;
                pending.state = State::Parked;
                self.starved.insert(ticket);
                self.requests.insert(ticket, pending);
            }
        }
    }

    fn way(&self, ticket: Ticket, pending: &Pending, now: Instant) -> Way {
        let mut questions = 0;
        for (key, mode) in pending.claimed() {
            match self.entries.get(key) {
                None => questions += 1,
                Some(entry) if self.is_open(entry, ticket, *mode, pending.waits, now) => {
                    questions += usize::from(entry.had == Had::Nothing);
                }
                Some(_) => return Way::Blocked,
            }
        }
        let Back::Budget(budget) = self.back else {
            return Way::Go;
        };
        let limit = self
            .full
            .filter(|(_, until)| *until > now)
            .map_or(budget, |(limit, _)| limit.min(budget));
        // A request larger than what is left of a full server goes alone.
        let fits = self.out + questions <= limit || (self.out == 0 && questions <= budget);
        let first = self.starved.first().is_none_or(|first| *first >= ticket);
        if questions == 0 || (fits && first) {
            Way::Go
        } else {
            Way::Starved
        }
    }

    fn is_open(&self, entry: &Entry, ticket: Ticket, mode: LockMode, waits: bool, now: Instant) -> bool {
        let conflict = entry.alone || (mode == LockMode::Exclusive && entry.sharers > 0);
        let overtakes = entry.parked.first().is_some_and(|first| *first < ticket);
        // A writer elsewhere waits for our readers.
        let keeps_out = entry.wanted && entry.sharers > 0;
        let elsewhere = waits && entry.had == Had::Nothing && entry.retry_at.is_some_and(|at| at > now);
        !(conflict || overtakes || keeps_out || elsewhere)
    }

    fn reserve(&mut self, ticket: Ticket, mut pending: Pending, now: Instant, outbox: &mut Outbox) {
        let mut open = 0;
        for (key, mode) in pending.claimed() {
            let entry = self.entries.entry(*key).or_insert_with(Entry::new);
            match mode {
                LockMode::Exclusive => entry.alone = true,
                LockMode::Shared => entry.sharers += 1,
            }
            if self.back == Back::None {
                continue;
            }
            match entry.had {
                Had::Has(had) if had >= *mode => {}
                Had::Asked(_) => {
                    entry.asking.push(ticket);
                    open += 1;
                }
                had => {
                    // Nobody shares it any more: it is given back and asked for anew, alone.
                    if let Had::Has(had) = had {
                        self.free.push((*key, had));
                    } else {
                        self.out += 1;
                    }
                    entry.had = Had::Asked(*mode);
                    entry.asking.push(ticket);
                    self.take.push((*key, *mode));
                    open += 1;
                }
            }
        }
        if open == 0 {
            self.grant(ticket, pending, now, outbox);
        } else {
            pending.state = State::Asking { open, missed: false };
            self.requests.insert(ticket, pending);
        }
    }

    fn grant(&mut self, ticket: Ticket, mut pending: Pending, now: Instant, outbox: &mut Outbox) {
        count(&self.counters.granted);
        self.counters
            .acquire
            .record(now.saturating_duration_since(pending.began));
        pending.state = State::Held { since: now };
        outbox.granted.extend(pending.reply.take().map(|reply| (reply, ticket)));
        self.requests.insert(ticket, pending);
    }

    fn park(&mut self, ticket: Ticket, mut pending: Pending, now: Instant) {
        if !pending.contended {
            pending.contended = true;
            count(&self.counters.contended);
        }
        let keys = pending.wish.keys.as_slice();
        let blocked = |(key, mode): &&(LockKey, LockMode)| {
            let entry = self.entries.get(key);
            entry.is_some_and(|entry| !self.is_open(entry, ticket, *mode, true, now))
        };
        let on: Vec<LockKey> = if pending.wish.any {
            keys.iter().map(|(key, _)| *key).collect()
        } else {
            keys.iter().find(blocked).map(|(key, _)| *key).into_iter().collect()
        };
        for key in on {
            self.entries.entry(key).or_insert_with(Entry::new).parked.insert(ticket);
        }
        pending.slot = 0;
        pending.state = State::Parked;
        self.requests.insert(ticket, pending);
    }

    pub(super) fn unpark(&mut self, ticket: Ticket, pending: &Pending) {
        self.starved.remove(&ticket);
        for (key, _) in pending.wish.keys.as_slice() {
            if let Some(entry) = self.entries.get_mut(key)
                && entry.parked.remove(&ticket)
            {
                self.tidy(*key);
            }
        }
    }

    /// Lets those in line at a key go on, in order, until one stays.
    pub(super) fn pump(&mut self, key: LockKey, now: Instant, outbox: &mut Outbox) {
        while let Some(ticket) = self.entries.get(&key).and_then(|entry| entry.parked.first().copied()) {
            let Some(pending) = self.requests.remove(&ticket) else {
                return;
            };
            let handed = self
                .entries
                .get(&key)
                .is_some_and(|entry| matches!(entry.had, Had::Has(_)));
            self.unpark(ticket, &pending);
            self.place(ticket, pending, now, outbox);
            if self
                .entries
                .get(&key)
                .is_some_and(|entry| entry.parked.contains(&ticket))
            {
                return;
            }
            let granted = |pending: &Pending| matches!(pending.state, State::Held { .. });
            if (handed || self.back == Back::None) && self.requests.get(&ticket).is_some_and(granted) {
                count(&self.counters.handed_over);
            }
        }
    }

    /// Lets those who wait for the budget go on.
    pub(super) fn feed(&mut self, now: Instant, outbox: &mut Outbox) {
        while let Some(ticket) = self.starved.first().copied() {
            let Some(pending) = self.requests.remove(&ticket) else {
                return;
            };
            let before = self.counters.over_budget.load(Relaxed);
            self.starved.remove(&ticket);
            self.place(ticket, pending, now, outbox);
            if self.starved.contains(&ticket) {
                // It was counted when it came.
                self.counters.over_budget.store(before, Relaxed);
                return;
            }
        }
    }

    pub(super) fn unreserve(&mut self, key: LockKey, mode: LockMode, now: Instant, outbox: &mut Outbox) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        match mode {
            LockMode::Exclusive => entry.alone = false,
            LockMode::Shared => entry.sharers = entry.sharers.saturating_sub(1),
        }
        let Had::Has(had) = entry.had else {
            self.pump(key, now, outbox);
            self.tidy(key);
            return;
        };
        if !entry.is_free() {
            return;
        }
        if !entry.wanted && !entry.parked.is_empty() && entry.hand_overs < HAND_OVERS {
            entry.hand_overs += 1;
            self.pump(key, now, outbox);
        }
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.is_free()) else {
            return;
        };
        if entry.had != Had::Has(had) {
            return;
        }
        entry.had = Had::Nothing;
        self.out = self.out.saturating_sub(1);
        self.free.push((key, had));
        let yields = entry.wanted || entry.hand_overs >= HAND_OVERS;
        entry.wanted = false;
        entry.hand_overs = 0;
        if yields {
            self.freed_for_others.insert(key);
            self.leave_alone(key, YIELD, now);
        }
        self.pump(key, now, outbox);
        self.tidy(key);
    }

    /// The back answered for one key.
    pub(super) fn answered(&mut self, key: LockKey, got: bool, full: bool, now: Instant, outbox: &mut Outbox) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let Had::Asked(mode) = entry.had else { return };
        let asking = std::mem::take(&mut entry.asking);
        if got {
            entry.had = Had::Has(mode);
            entry.misses = 0;
        } else {
            entry.had = Had::Nothing;
            entry.wanted = false;
            self.out = self.out.saturating_sub(1);
            let someone_waits = |ticket: &Ticket| {
                let pending = self.requests.get(ticket);
                pending.is_some_and(|pending| pending.waits && pending.reply.is_some())
            };
            if asking.iter().any(someone_waits) || !entry.parked.is_empty() {
                let misses = entry.misses;
                entry.misses = misses.saturating_add(1);
                if !full {
                    self.want.insert(key);
                }
                self.leave_alone(key, if misses == 0 && !full { FIRST_RETRY } else { RETRY }, now);
            }
        }
        for ticket in asking {
            self.settle(ticket, got, now, outbox);
        }
        self.pump(key, now, outbox);
        self.tidy(key);
    }

    /// One answer came for a request.
    fn settle(&mut self, ticket: Ticket, got: bool, now: Instant, outbox: &mut Outbox) {
        let Some(pending) = self.requests.get_mut(&ticket) else {
            return;
        };
        let State::Asking { open, missed } = &mut pending.state else {
            return;
        };
        *open = open.saturating_sub(1);
        *missed |= !got;
        if *open > 0 {
            return;
        }
        let missed = *missed;
        let Some(mut pending) = self.requests.remove(&ticket) else {
            return;
        };
        let gone = pending.reply.as_ref().is_none_or(Reply::is_closed);
        if !missed && !gone {
            self.grant(ticket, pending, now, outbox);
            return;
        }
        for (key, mode) in pending.claimed() {
            self.unreserve(*key, *mode, now, outbox);
        }
        if gone {
            return;
        }
        if pending.wish.any {
            pending.slot += 1;
        } else if !pending.waits {
            count(&self.counters.refused);
            outbox.refused.extend(pending.reply);
            return;
        }
        self.place(ticket, pending, now, outbox);
    }

    fn leave_alone(&mut self, key: LockKey, (least, most): (u64, u64), now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let at = now + Duration::from_micros(rand::random_range(least..most));
        if let Some(before) = entry.retry_at.replace(at) {
            self.retries.remove(&(before, key));
        }
        self.retries.insert((at, key));
    }

    /// Forgets a key that nobody has or waits for.
    pub(super) fn tidy(&mut self, key: LockKey) {
        let Some(entry) = self.entries.get(&key) else { return };
        let idle = entry.had == Had::Nothing && entry.is_free();
        // Until it may be asked for again it is remembered that others have it.
        if idle && entry.parked.is_empty() && entry.asking.is_empty() && entry.retry_at.is_none() {
            self.entries.remove(&key);
        }
    }
}
