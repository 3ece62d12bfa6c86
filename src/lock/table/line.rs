//! How requests move: to their locks, to the back, in line, away.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::super::key::LockKey;
use super::super::request::LockMode;
use super::super::stats::count;
use super::turn::Standing;
use super::{Back, Entry, Had, Outbox, Pending, Reply, State, Table, Ticket};

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
        // First the budget, whatever else is in the way: who is called by others and has none left must not stand in
        // line again before there is some, or it would be called again, and again.
        if !self.has_room(ticket, pending, now) {
            return Way::Starved;
        }
        let open = |(key, mode): &(LockKey, LockMode)| {
            let entry = self.entries.get(key);
            entry.is_none_or(|entry| self.is_open(entry, ticket, *mode, pending.waits, now))
        };
        if pending.claimed().iter().all(open) {
            Way::Go
        } else {
            Way::Blocked
        }
    }

    fn has_room(&self, ticket: Ticket, pending: &Pending, now: Instant) -> bool {
        let Some(budget) = self.back.budget() else {
            return true;
        };
        let is_new = |(key, _): &&(LockKey, LockMode)| {
            let entry = self.entries.get(key);
            entry.is_none_or(|entry| entry.had == Had::Nothing)
        };
        let questions = pending.claimed().iter().filter(is_new).count();
        let limit = self
            .full
            .filter(|(_, until)| *until > now)
            .map_or(budget, |(limit, _)| limit.min(budget));
        // A request larger than what is left of a full server goes alone.
        let fits = self.out + questions <= limit || (self.out == 0 && questions <= budget);
        let first = self.starved.first().is_none_or(|first| *first >= ticket);
        questions == 0 || (fits && first)
    }

    fn is_open(&self, entry: &Entry, ticket: Ticket, mode: LockMode, waits: bool, now: Instant) -> bool {
        let conflict = entry.alone || (mode == LockMode::Exclusive && entry.sharers > 0);
        let overtakes = entry.parked.first().is_some_and(|first| *first < ticket);
        !(conflict || overtakes || is_kept_for_others(entry, mode, waits, now))
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
                Had::Has(had) if had >= *mode => {
                    // Readers alone need not take turns.
                    if *mode == LockMode::Exclusive || !entry.others.is_empty() {
                        entry.turn = entry.turn.saturating_sub(1);
                    }
                }
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
            // Where it missed: at another key it would be called at once, and miss this one again.
            let missed = pending.missed.take();
            let there = keys.iter().filter(|(key, _)| missed == Some(*key)).find(blocked);
            let there = there.or_else(|| keys.iter().find(blocked));
            there.map(|(key, _)| *key).into_iter().collect()
        };
        pending.slot = 0;
        pending.state = State::Parked;
        self.requests.insert(ticket, pending);
        for key in on {
            self.entries.entry(key).or_insert_with(Entry::new).parked.insert(ticket);
            self.stand_in_line(key, now);
        }
    }

    pub(super) fn unpark(&mut self, ticket: Ticket, pending: &Pending) {
        self.starved.remove(&ticket);
        for (key, _) in pending.wish.keys.as_slice() {
            if let Some(entry) = self.entries.get_mut(key) {
                entry.parked.remove(&ticket);
            }
        }
    }

    /// Lets those in line at a key go on, in order, until one stays; forgets the key if nothing is left to know.
    pub(super) fn pump(&mut self, key: LockKey, now: Instant, outbox: &mut Outbox) {
        self.let_go_on(key, now, outbox);
        self.tidy(key, now);
    }

    fn let_go_on(&mut self, key: LockKey, now: Instant, outbox: &mut Outbox) {
        while let Some(ticket) = self.entries.get(&key).and_then(|entry| entry.parked.first().copied()) {
            let Some(pending) = self.requests.remove(&ticket) else {
                return;
            };
            let handed = self
                .entries
                .get(&key)
                .is_some_and(|entry| matches!(entry.had, Had::Has(_)));
            self.unpark(ticket, &pending);
            // Whoever waits for any slot stands in line at all of them.
            let elsewhere: Vec<LockKey> = if pending.wish.any {
                let keys = pending.wish.keys.as_slice().iter();
                keys.map(|(key, _)| *key).collect()
            } else {
                Vec::new()
            };
            self.place(ticket, pending, now, outbox);
            for other in elsewhere.into_iter().filter(|other| *other != key) {
                self.tidy(other, now);
            }
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
            return;
        };
        if !entry.is_free() {
            return;
        }
        self.let_go_on(key, now, outbox);
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.is_free()) else {
            return;
        };
        if entry.had != Had::Has(had) {
            return;
        }
        entry.had = Had::Nothing;
        self.out = self.out.saturating_sub(1);
        self.free.push((key, had));
        let over = entry.turn == 0 && !entry.parked.is_empty();
        self.give_way(key, over, now);
        self.pump(key, now, outbox);
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
            self.begin_turn(key, mode, now);
        } else {
            entry.had = Had::Nothing;
            if entry.standing == Standing::Called {
                // Whoever has it has a line of its own.
                entry.standing = Standing::Unknown;
            }
            self.out = self.out.saturating_sub(1);
            let someone_waits = |ticket: &Ticket| {
                let pending = self.requests.get(ticket);
                pending.is_some_and(|pending| pending.waits && pending.reply.is_some())
            };
            if asking.iter().any(someone_waits) || !entry.parked.is_empty() {
                self.missed(key, mode, full, now);
            }
        }
        for ticket in asking {
            if let Some(pending) = self.requests.get_mut(&ticket).filter(|_| !got) {
                pending.missed = Some(key);
            }
            self.settle(ticket, got, now, outbox);
        }
        self.pump(key, now, outbox);
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

    /// Forgets a key that nobody has or waits for.
    pub(super) fn tidy(&mut self, key: LockKey, now: Instant) {
        if !self.entries.get(&key).is_some_and(Entry::is_idle) {
            return;
        }
        self.stop_waiting(key, now);
        // Until it may be asked for again it is remembered that others have it, or want it.
        let known = |entry: &Entry| entry.retry_at.is_some() || !entry.others.is_empty();
        if !self.entries.get(&key).is_some_and(known) {
            self.entries.remove(&key);
        }
    }
}

/// Whether somebody elsewhere has the better right to it now.
fn is_kept_for_others(entry: &Entry, mode: LockMode, waits: bool, now: Instant) -> bool {
    let a_writer_waits = || entry.others.iter().any(|other| other.mode == LockMode::Exclusive);
    match entry.had {
        // Its turn here is over, or it would have to be asked for anew.
        Had::Has(had) => {
            let limited = mode == LockMode::Exclusive || !entry.others.is_empty();
            (limited && entry.turn == 0) || (had < mode && !entry.others.is_empty())
        }
        Had::Asked(_) => false,
        Had::Nothing => {
            let later = entry.retry_at.is_some_and(|at| at > now);
            let called = entry.standing == Standing::Called;
            // Readers elsewhere may have it, so that a writer would never see it free.
            let overtakes_writer = mode == LockMode::Shared && !called && a_writer_waits();
            let polite = entry.standing == Standing::Unknown && !entry.others.is_empty();
            overtakes_writer || (later && (waits || entry.gave_way)) || (waits && polite)
        }
    }
}
