//! How a request moves: to its locks, to the backend, into the queue, or away.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::handoff::Announcement;
use super::{Backend, GrantSender, KeyEntry, KeyState, RequestEntry, RequestState, Table, TableResults, Ticket};
use crate::lock::key::LockKey;
use crate::lock::request::{KeyRequest, LockMode};
use crate::lock::stats::count;

enum Admission {
    Admitted,
    /// A key is owned by another request, or has an earlier one in its queue.
    Blocked,
    /// The budget has no room for its keys.
    OverBudget,
}

impl Table {
    /// Puts a request where it belongs: to its locks, to the backend, into the queue, or away.
    pub(super) fn place(&mut self, ticket: Ticket, mut entry: RequestEntry, results: &mut TableResults) {
        let admission = if entry.request.any {
            let slots = entry.request.keys.as_slice().len();
            let mut best = Admission::Blocked;
            while entry.slot < slots {
                best = self.admission(ticket, &entry, results.now);
                if !matches!(best, Admission::Blocked) {
                    break;
                }
                entry.slot += 1;
            }
            best
        } else {
            self.admission(ticket, &entry, results.now)
        };
        match admission {
            Admission::Admitted => self.reserve(ticket, entry, results),
            Admission::Blocked | Admission::OverBudget if !entry.waits => {
                count(&self.counters.refused);
                results.refused.extend(entry.reply);
            }
            Admission::Blocked => self.enqueue(ticket, entry, results.now),
            Admission::OverBudget => {
                count(&self.counters.over_budget);
                entry.slot = 0;
                entry.state = RequestState::Queued;
                self.over_budget.insert(ticket);
                self.requests.insert(ticket, entry);
            }
        }
    }

    fn admission(&self, ticket: Ticket, entry: &RequestEntry, now: Instant) -> Admission {
        // The budget first: a request without room must not queue at a key, or other processes would hand that key off to
        // it again and again.
        if !self.has_room(ticket, entry, now) {
            return Admission::OverBudget;
        }
        let open =
            |(key, mode): &(LockKey, LockMode)| self.is_open(*key, ticket, *mode, &entry.request, entry.waits, now);
        if entry.keys().iter().all(open) {
            Admission::Admitted
        } else {
            Admission::Blocked
        }
    }

    /// Whether a request may have the key now, as far as this process knows.
    fn is_open(
        &self,
        key: LockKey,
        ticket: Ticket,
        mode: LockMode,
        request: &KeyRequest,
        waits: bool,
        now: Instant,
    ) -> bool {
        let Some(of_key) = self.entries.get(&key) else {
            return true;
        };
        // Held under another name of the same key, it is released before it is taken under this one.
        let is_other =
            of_key.state != KeyState::NotHeld && of_key.name.as_ref().is_some_and(|name| *name != request.name_of(key));
        !is_other && is_open(of_key, ticket, mode, waits, now)
    }

    fn has_room(&self, ticket: Ticket, entry: &RequestEntry, now: Instant) -> bool {
        let Some(budget) = self.backend.budget() else {
            return true;
        };
        let is_new = |(key, _): &&(LockKey, LockMode)| {
            let key = self.entries.get(key);
            key.is_none_or(|key| key.state == KeyState::NotHeld)
        };
        let new = entry.keys().iter().filter(is_new).count();
        let limit = self
            .full
            .filter(|(_, until)| *until > now)
            .map_or(budget, |(limit, _)| limit.min(budget));
        // A request larger than what is left of a full server goes alone.
        let fits = self.in_use + new <= limit || (self.in_use == 0 && new <= budget);
        let first = self.over_budget.first().is_none_or(|first| *first >= ticket);
        new == 0 || (fits && first)
    }

    fn reserve(&mut self, ticket: Ticket, mut entry: RequestEntry, results: &mut TableResults) {
        let mut outstanding = 0;
        for (key, mode) in entry.keys() {
            let of_key = self.entries.entry(*key).or_default();
            match mode {
                LockMode::Exclusive => of_key.exclusive = true,
                LockMode::Shared => of_key.shared += 1,
            }
            if self.backend == Backend::InProcess {
                continue;
            }
            if self.backend.keeps_names() && of_key.state == KeyState::NotHeld {
                of_key.name = Some(entry.request.name_of(*key));
            }
            match of_key.state {
                KeyState::Held(held) if held >= *mode => {
                    // Without remote waiters readers use no quota.
                    if *mode == LockMode::Exclusive || !of_key.remote.is_empty() {
                        of_key.quota = of_key.quota.saturating_sub(1);
                    }
                }
                KeyState::Requested(_) => {
                    of_key.requesting.push(ticket);
                    outstanding += 1;
                }
                state => {
                    // Held shared without owners: released and taken again, exclusively.
                    if let KeyState::Held(held) = state {
                        self.free.push((*key, held));
                    } else {
                        self.in_use += 1;
                    }
                    of_key.state = KeyState::Requested(*mode);
                    of_key.requesting.push(ticket);
                    self.take.push((*key, *mode));
                    outstanding += 1;
                }
            }
        }
        if outstanding == 0 {
            self.grant(ticket, entry, results);
        } else {
            entry.state = RequestState::Requested {
                outstanding,
                missed: false,
            };
            self.requests.insert(ticket, entry);
        }
    }

    fn grant(&mut self, ticket: Ticket, mut entry: RequestEntry, results: &mut TableResults) {
        count(&self.counters.granted);
        self.counters
            .acquire
            .record(results.now.saturating_duration_since(entry.began));
        entry.state = RequestState::Held { since: results.now };
        let reply = entry.reply.take();
        results.granted.extend(reply.map(|reply| (reply, ticket)));
        self.requests.insert(ticket, entry);
    }

    fn enqueue(&mut self, ticket: Ticket, mut entry: RequestEntry, now: Instant) {
        if !entry.contended {
            entry.contended = true;
            count(&self.counters.contended);
        }
        let keys = entry.request.keys.as_slice();
        let blocked =
            |(key, mode): &&(LockKey, LockMode)| !self.is_open(*key, ticket, *mode, &entry.request, true, now);
        let at: Vec<LockKey> = if entry.request.any {
            keys.iter().map(|(key, _)| *key).collect()
        } else {
            // The key that it missed: at another key it would be admitted at once, and miss this one again.
            let missed = entry.missed.take();
            let there = keys.iter().filter(|(key, _)| missed == Some(*key)).find(blocked);
            let there = there.or_else(|| keys.iter().find(blocked));
            there.map(|(key, _)| *key).into_iter().collect()
        };
        entry.slot = 0;
        entry.state = RequestState::Queued;
        self.requests.insert(ticket, entry);
        for key in at {
            let of_key = self.entries.entry(key).or_default();
            of_key.queue.insert(ticket);
            self.announce_wait(key, now);
        }
    }

    pub(super) fn dequeue(&mut self, ticket: Ticket, entry: &RequestEntry) {
        self.over_budget.remove(&ticket);
        for (key, _) in entry.request.keys.as_slice() {
            if let Some(of_key) = self.entries.get_mut(key) {
                of_key.queue.remove(&ticket);
            }
        }
    }

    /// Advances the queue of a key, and removes the key if nothing is left to track.
    pub(super) fn advance(&mut self, key: LockKey, results: &mut TableResults) {
        self.advance_queue(key, results);
        self.remove_if_idle(key, results.now);
    }

    /// Places the requests in the queue of a key again, in order, until one stays.
    fn advance_queue(&mut self, key: LockKey, results: &mut TableResults) {
        while let Some(ticket) = self.entries.get(&key).and_then(|of_key| of_key.queue.first().copied()) {
            let Some(entry) = self.requests.remove(&ticket) else {
                return;
            };
            let is_held = |of_key: &KeyEntry| matches!(of_key.state, KeyState::Held(_));
            let held_before = self.entries.get(&key).is_some_and(is_held);
            self.dequeue(ticket, &entry);
            // A request for any slot is in the queue of each.
            let elsewhere: Vec<LockKey> = if entry.request.any {
                let keys = entry.request.keys.as_slice().iter();
                keys.map(|(key, _)| *key).collect()
            } else {
                Vec::new()
            };
            self.place(ticket, entry, results);
            for other in elsewhere.into_iter().filter(|other| *other != key) {
                self.remove_if_idle(other, results.now);
            }
            let stays = |of_key: &KeyEntry| of_key.queue.contains(&ticket);
            if self.entries.get(&key).is_some_and(stays) {
                return;
            }
            let is_granted = |entry: &RequestEntry| matches!(entry.state, RequestState::Held { .. });
            if (held_before || self.backend == Backend::InProcess) && self.requests.get(&ticket).is_some_and(is_granted)
            {
                count(&self.counters.handed_over);
            }
        }
    }

    /// Places the requests that wait for the budget again, in order, until one stays.
    pub(super) fn advance_over_budget(&mut self, results: &mut TableResults) {
        while let Some(ticket) = self.over_budget.first().copied() {
            let Some(entry) = self.requests.remove(&ticket) else {
                return;
            };
            let before = self.counters.over_budget.load(Relaxed);
            self.over_budget.remove(&ticket);
            self.place(ticket, entry, results);
            if self.over_budget.contains(&ticket) {
                // It was counted when it came.
                self.counters.over_budget.store(before, Relaxed);
                return;
            }
        }
    }

    pub(super) fn unreserve(&mut self, key: LockKey, mode: LockMode, results: &mut TableResults) {
        let Some(of_key) = self.entries.get_mut(&key) else {
            return;
        };
        match mode {
            LockMode::Exclusive => of_key.exclusive = false,
            LockMode::Shared => of_key.shared = of_key.shared.saturating_sub(1),
        }
        let KeyState::Held(held) = of_key.state else {
            self.advance(key, results);
            return;
        };
        if !of_key.is_free() {
            return;
        }
        self.advance_queue(key, results);
        let Some(of_key) = self.entries.get_mut(&key).filter(|of_key| of_key.is_free()) else {
            return;
        };
        if of_key.state != KeyState::Held(held) {
            return;
        }
        of_key.state = KeyState::NotHeld;
        self.in_use = self.in_use.saturating_sub(1);
        self.free.push((key, held));
        let quota_used_up = of_key.quota == 0 && !of_key.queue.is_empty();
        self.hand_off(key, quota_used_up, results.now);
        self.advance(key, results);
    }

    /// The backend was not asked for the key after all: it has missed another one of its request.
    #[cfg(feature = "redis")]
    pub(in crate::lock) fn complete_not_asked(&mut self, key: LockKey, results: &mut TableResults) {
        let Some(of_key) = self.entries.get_mut(&key) else {
            return;
        };
        if !matches!(of_key.state, KeyState::Requested(_)) {
            return;
        }
        let requesting = std::mem::take(&mut of_key.requesting);
        of_key.state = KeyState::NotHeld;
        self.in_use = self.in_use.saturating_sub(1);
        for ticket in requesting {
            self.complete_request(ticket, false, results);
        }
        self.advance(key, results);
    }

    /// Applies the backend's answer for one key.
    pub(super) fn complete_key(&mut self, key: LockKey, taken: bool, full: bool, results: &mut TableResults) {
        let Some(of_key) = self.entries.get_mut(&key) else {
            return;
        };
        let KeyState::Requested(mode) = of_key.state else {
            return;
        };
        let requesting = std::mem::take(&mut of_key.requesting);
        if taken {
            of_key.state = KeyState::Held(mode);
            of_key.misses = 0;
            self.start_quota(key, mode, results.now);
        } else {
            of_key.state = KeyState::NotHeld;
            if of_key.announcement == Announcement::Next {
                // The process that holds it has other waiters.
                of_key.announcement = Announcement::None;
            }
            self.in_use = self.in_use.saturating_sub(1);
            let waits = |ticket: &Ticket| {
                let entry = self.requests.get(ticket);
                entry.is_some_and(|entry| entry.waits && entry.reply.is_some())
            };
            if requesting.iter().any(waits) || !of_key.queue.is_empty() {
                self.record_miss(key, mode, full, results.now);
            }
        }
        for ticket in requesting {
            if let Some(entry) = self.requests.get_mut(&ticket).filter(|_| !taken) {
                entry.missed = Some(key);
            }
            self.complete_request(ticket, taken, results);
        }
        self.advance(key, results);
    }

    /// Counts one answer for a request; after the last one it is granted or placed again.
    fn complete_request(&mut self, ticket: Ticket, taken: bool, results: &mut TableResults) {
        let Some(entry) = self.requests.get_mut(&ticket) else {
            return;
        };
        let RequestState::Requested { outstanding, missed } = &mut entry.state else {
            return;
        };
        *outstanding = outstanding.saturating_sub(1);
        *missed |= !taken;
        if *outstanding > 0 {
            return;
        }
        let missed = *missed;
        let Some(mut entry) = self.requests.remove(&ticket) else {
            return;
        };
        let abandoned = entry.reply.as_ref().is_none_or(GrantSender::is_closed);
        if !missed && !abandoned {
            self.grant(ticket, entry, results);
            return;
        }
        for (key, mode) in entry.keys() {
            self.unreserve(*key, *mode, results);
        }
        if abandoned {
            return;
        }
        if entry.request.any {
            entry.slot += 1;
        } else if !entry.waits {
            count(&self.counters.refused);
            results.refused.extend(entry.reply);
            return;
        }
        self.place(ticket, entry, results);
    }

    /// Removes a key that no request owns or waits for.
    pub(super) fn remove_if_idle(&mut self, key: LockKey, now: Instant) {
        if !self.entries.get(&key).is_some_and(KeyEntry::is_idle) {
            return;
        }
        self.withdraw(key, now);
        // Until the next retry it is known that other processes hold it or wait for it.
        let known = |of_key: &KeyEntry| of_key.retry_at.is_some() || !of_key.remote.is_empty();
        if !self.entries.get(&key).is_some_and(known) {
            self.entries.remove(&key);
        }
    }
}

/// Whether a request may have the key now, as far as this process knows.
fn is_open(of_key: &KeyEntry, ticket: Ticket, mode: LockMode, waits: bool, now: Instant) -> bool {
    let conflict = of_key.exclusive || (mode == LockMode::Exclusive && of_key.shared > 0);
    let overtakes = of_key.queue.first().is_some_and(|first| *first < ticket);
    !(conflict || overtakes || is_left_to_remote(of_key, mode, waits, now))
}

/// Whether another process has precedence.
fn is_left_to_remote(of_key: &KeyEntry, mode: LockMode, waits: bool, now: Instant) -> bool {
    let a_writer_waits = || of_key.remote.iter().any(|waiter| waiter.mode == LockMode::Exclusive);
    match of_key.state {
        // The quota is used up, or the key would have to be taken again in another mode.
        KeyState::Held(held) => {
            let limited = mode == LockMode::Exclusive || !of_key.remote.is_empty();
            (limited && of_key.quota == 0) || (held < mode && !of_key.remote.is_empty())
        }
        KeyState::Requested(_) => false,
        KeyState::NotHeld => {
            let later = of_key.retry_at.is_some_and(|at| at > now);
            let is_next = of_key.announcement == Announcement::Next;
            // Readers of other processes may hold it; more readers would keep the writer out forever.
            let overtakes_writer = mode == LockMode::Shared && !is_next && a_writer_waits();
            let unannounced = of_key.announcement == Announcement::None && !of_key.remote.is_empty();
            overtakes_writer || (later && (waits || of_key.yielded)) || (waits && unannounced)
        }
    }
}
