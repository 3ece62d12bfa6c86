//! Who of this process owns a lock, and who stands in line: a table without tasks, clocks or connections.
//!
//! # Invariants
//!
//! - A request owns all of its keys (or, for a semaphore, one of them) or none. It *reserves* them here first, then the
//!   back of the provider is asked for those that the process does not have yet; what of it was had is given up again
//!   when one is missing. Nothing is held while it is waited for, so no two requests deadlock.
//! - Tickets are given in order of arrival, and the line at a key is in order of tickets: nobody is overtaken at a key by
//!   whoever came later, in whatever mode. A writer that waits so stops the readers behind it.
//! - At a key there is at most one question to the back at a time, and it asks for what the process does not have: a
//!   session that takes its own lock again would stack it.
//! - What is given back goes out before, or together with but ahead of, what is asked for after it.
//! - Who gives a key back that others elsewhere want names the next of them, and stands back for it ([`turn`]).
//! - Answers are collected in an [`Outbox`] and sent outside the lock of the table: whoever drops a handle enters the
//!   table again.

mod line;
mod turn;
mod view;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;

use super::key::{LockKey, Spreading};
use super::request::{LockMode, Wish};
use super::stats::{Counters, count};
use turn::{Other, Standing};
pub(super) use turn::{Pass, Peer, Said};
#[cfg(test)]
pub(super) use turn::{REMEMBERED, TURN};
pub(crate) use view::KeyView;

/// How long a full lock table of the server is believed to be full.
const FULL: Duration = Duration::from_secs(1);

/// Longer questions are not waited for by whoever stands back.
const SLOWEST: Duration = Duration::from_millis(250);

pub(super) type Ticket = u64;
/// None: it could not be had.
pub(super) type Reply = tokio::sync::oneshot::Sender<Option<super::LockHandle>>;

/// What stands behind the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// Nothing: this process is all there is.
    None,
    /// Something that must be asked, at most so many keys at a time, and of which nobody tells when a key is free.
    Silent(usize),
    /// The same, among processes that tell each other. This one is called `me`.
    Talking { budget: usize, me: Peer },
}

impl Back {
    /// The most keys at a time.
    pub(super) fn budget(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Silent(budget) | Self::Talking { budget, .. } => Some(budget),
        }
    }

    fn me(self) -> Option<Peer> {
        match self {
            Self::Talking { me, .. } => Some(me),
            Self::None | Self::Silent(_) => None,
        }
    }
}

/// What the process has of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Had {
    Nothing,
    Asked(LockMode),
    Has(LockMode),
}

struct Entry {
    had: Had,
    /// Reserved or owned by one request, alone.
    alone: bool,
    /// Reserved or owned by so many, shared.
    sharers: u32,
    /// Who waits for the answer of the back.
    asking: Vec<Ticket>,
    /// The line.
    parked: BTreeSet<Ticket>,
    /// Other processes that wait for it, in the order of their turns.
    others: Vec<Other>,
    /// When they are looked through for some that were not heard of for long.
    forget_at: Option<Instant>,
    /// What the others know of us.
    standing: Standing,
    /// So many more requests of this process may have it before it goes back.
    turn: u32,
    /// It was given to somebody else, who may not have it yet.
    gave_way: bool,
    misses: u32,
    /// Another process has it: do not ask before.
    retry_at: Option<Instant>,
}

impl Entry {
    fn new() -> Self {
        Self {
            had: Had::Nothing,
            alone: false,
            sharers: 0,
            asking: Vec::new(),
            parked: BTreeSet::new(),
            others: Vec::new(),
            forget_at: None,
            standing: Standing::Unknown,
            turn: 0,
            gave_way: false,
            misses: 0,
            retry_at: None,
        }
    }

    fn is_free(&self) -> bool {
        !self.alone && self.sharers == 0
    }

    /// Nobody here has it, asks for it or waits for it.
    fn is_idle(&self) -> bool {
        self.had == Had::Nothing && self.is_free() && self.parked.is_empty() && self.asking.is_empty()
    }
}

enum State {
    Parked,
    /// So many answers are missing, and whether one of them was no.
    Asking {
        open: usize,
        missed: bool,
    },
    Held {
        since: Instant,
    },
}

struct Pending {
    wish: Wish,
    /// Of a semaphore: the slot that is tried or owned.
    slot: usize,
    waits: bool,
    /// The key that it asked for last and that somebody else had.
    missed: Option<LockKey>,
    /// Did not get it at once.
    contended: bool,
    began: Instant,
    state: State,
    reply: Option<Reply>,
}

impl Pending {
    /// What it owns when it is granted, or reserves before.
    fn claimed(&self) -> &[(LockKey, LockMode)] {
        let keys = self.wish.keys.as_slice();
        if self.wish.any {
            keys.get(self.slot..=self.slot).unwrap_or_default()
        } else {
            keys
        }
    }
}

/// What is to be told once the table is unlocked.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) granted: Vec<(Reply, Ticket)>,
    pub(super) refused: Vec<Reply>,
}

/// What the back is to do next, in this order: give back, ask, tell others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) free: Vec<(LockKey, LockMode)>,
    pub(super) take: Vec<(LockKey, LockMode)>,
    pub(super) say: Vec<Said>,
}

/// A lock that somebody holds, as an operator sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeldLock {
    /// Its name; of a request for several, all of them.
    pub name: Arc<str>,
    /// How it is held. A slot of a semaphore counts as exclusive.
    pub mode: LockMode,
    /// For how long, by this process' clock.
    pub held_for: Duration,
    /// How many requests of this process wait for it.
    pub waiters: usize,
}

pub(super) struct Table {
    back: Back,
    entries: HashMap<LockKey, Entry, Spreading>,
    requests: HashMap<Ticket, Pending, Spreading>,
    next: Ticket,
    /// Keys asked for or had.
    out: usize,
    /// Requests that wait for the budget.
    starved: BTreeSet<Ticket>,
    /// The server said that it is full: no more than this many for a while.
    full: Option<(usize, Instant)>,
    retries: BTreeSet<(Instant, LockKey)>,
    /// When keys are looked at for others that were not heard of for long.
    forgets: BTreeSet<(Instant, LockKey)>,
    /// How long a question and its answer take.
    pace: Duration,
    free: Vec<(LockKey, LockMode)>,
    take: Vec<(LockKey, LockMode)>,
    done: HashSet<LockKey, Spreading>,
    want: HashMap<LockKey, LockMode, Spreading>,
    pass: Vec<Pass>,
    dead: bool,
    /// For pauses that no two processes shall have the same.
    jitter: StdRng,
    counters: Arc<Counters>,
}

impl Table {
    pub(super) fn new(back: Back, counters: Arc<Counters>, jitter: StdRng) -> Self {
        Self {
            back,
            entries: HashMap::default(),
            requests: HashMap::default(),
            next: 0,
            out: 0,
            starved: BTreeSet::new(),
            full: None,
            retries: BTreeSet::new(),
            forgets: BTreeSet::new(),
            pace: Duration::ZERO,
            free: Vec::new(),
            take: Vec::new(),
            done: HashSet::default(),
            want: HashMap::default(),
            pass: Vec::new(),
            dead: false,
            jitter,
            counters,
        }
    }

    /// A key that the back has already and that is held until the end.
    pub(super) fn keep(&mut self, key: LockKey) {
        let entry = self.entries.entry(key).or_insert_with(Entry::new);
        entry.had = Had::Has(LockMode::Exclusive);
        entry.alone = true;
        self.out += 1;
    }

    /// None: the provider has ended, and the reply is dropped.
    pub(super) fn begin(
        &mut self,
        wish: Wish,
        waits: bool,
        reply: Reply,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Option<Ticket> {
        if self.dead {
            count(&self.counters.lost);
            return None;
        }
        self.next += 1;
        let ticket = self.next;
        let pending = Pending {
            wish,
            slot: 0,
            waits,
            missed: None,
            contended: false,
            began: now,
            state: State::Parked,
            reply: Some(reply),
        };
        self.place(ticket, pending, now, outbox);
        Some(ticket)
    }

    /// Whoever asked has gone away. What was granted already is dropped with its reply.
    pub(super) fn abandon(&mut self, ticket: Ticket, now: Instant, outbox: &mut Outbox) {
        let Some(pending) = self.requests.get_mut(&ticket) else {
            return;
        };
        match pending.state {
            State::Held { .. } => return,
            // The answer comes, and is given back.
            State::Asking { .. } => pending.reply = None,
            State::Parked => {
                if let Some(pending) = self.requests.remove(&ticket) {
                    self.unpark(ticket, &pending);
                    for (key, _) in pending.wish.keys.as_slice() {
                        self.pump(*key, now, outbox);
                    }
                    self.feed(now, outbox);
                }
            }
        }
        count(&self.counters.abandoned);
    }

    /// The handle was dropped.
    pub(super) fn release(&mut self, ticket: Ticket, now: Instant, outbox: &mut Outbox) {
        let Some(pending) = self.requests.remove(&ticket) else {
            return;
        };
        if let State::Held { since } = pending.state {
            self.counters.hold.record(now.saturating_duration_since(since));
        }
        if self.dead {
            return;
        }
        for (key, mode) in pending.claimed() {
            self.unreserve(*key, *mode, now, outbox);
        }
        self.feed(now, outbox);
    }

    /// Whether there is anything to do for the back.
    pub(super) fn has_batch(&self) -> bool {
        let says_nothing = self.done.is_empty() && self.want.is_empty() && self.pass.is_empty();
        !(self.free.is_empty() && self.take.is_empty() && says_nothing)
    }

    /// Whether the back must look up: at a batch, or at another time to wake.
    pub(super) fn rings(&self) -> bool {
        self.has_batch() || (self.full.is_some() && !self.starved.is_empty())
    }

    /// The next things to do, at most so many questions.
    pub(super) fn batch(&mut self, most: usize) -> Batch {
        let rest = self.take.split_off(self.take.len().min(most));
        let done = self.done.drain().map(Said::Done);
        let want = self.want.drain().map(|(key, mode)| Said::Want(key, mode));
        // Who passes it on and then asks again stands behind all others.
        let said = self.pass.drain(..).map(Said::Pass).chain(done).chain(want);
        Batch {
            free: std::mem::take(&mut self.free),
            take: std::mem::replace(&mut self.take, rest),
            say: said.collect(),
        }
    }

    /// What the back said to the questions of a batch: all were taken but those in `missed`.
    pub(super) fn answer(
        &mut self,
        batch: &Batch,
        missed: &HashSet<LockKey>,
        full: bool,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        self.counters.freed.fetch_add(batch.free.len() as u64, Relaxed);
        let taken = batch.take.len().saturating_sub(missed.len());
        self.counters.taken.fetch_add(taken as u64, Relaxed);
        if full {
            let had = self.out.saturating_sub(missed.len());
            self.full = Some((had.max(1), now + FULL));
        }
        for (key, _) in &batch.take {
            self.answered(*key, !missed.contains(key), full, now, outbox);
        }
        self.feed(now, outbox);
    }

    /// When [`Table::retry`] wants to be called.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        let first = self.retries.first().map(|(at, _)| *at);
        let forget = self.forgets.first().map(|(at, _)| *at);
        let full = self.full.filter(|_| !self.starved.is_empty()).map(|(_, until)| until);
        [first, forget, full].into_iter().flatten().min()
    }

    /// How long the last question took; whoever stands back for somebody else leaves a multiple of it.
    pub(super) fn pace(&mut self, took: Duration) {
        self.pace = (self.pace * 3 + took.min(SLOWEST)) / 4;
    }

    /// Asks again for what others had.
    pub(super) fn retry(&mut self, now: Instant, outbox: &mut Outbox) {
        self.full = self.full.filter(|(_, until)| *until > now);
        while let Some((at, key)) = self.retries.first().copied().filter(|(at, _)| *at <= now) {
            self.retries.remove(&(at, key));
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.retry_at = None;
                entry.gave_way = false;
            }
            self.pump(key, now, outbox);
        }
        while let Some((at, key)) = self.forgets.first().copied().filter(|(at, _)| *at <= now) {
            self.forgets.remove(&(at, key));
            self.forget(key, now, outbox);
        }
        self.feed(now, outbox);
    }

    /// Asks again for all of it, due or not.
    pub(super) fn retry_all(&mut self, now: Instant, outbox: &mut Outbox) {
        let keys: Vec<LockKey> = self.retries.iter().map(|(_, key)| *key).collect();
        for key in keys {
            self.look_now(key, now, outbox);
        }
        self.retry(now, outbox);
    }

    /// The back is gone, and with it every lock. Whoever waits sees its reply dropped.
    pub(super) fn end(&mut self) -> Vec<Reply> {
        self.dead = true;
        self.counters.lost.fetch_add(self.requests.len() as u64, Relaxed);
        let held = |pending: &Pending| matches!(pending.state, State::Held { .. });
        let all = std::mem::take(&mut self.requests);
        let (held, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, pending)| held(pending));
        self.requests.extend(held);
        self.entries.clear();
        self.retries.clear();
        self.forgets.clear();
        self.starved.clear();
        ended.into_iter().filter_map(|(_, pending)| pending.reply).collect()
    }

    /// All that is held now.
    pub(super) fn held(&self, now: Instant) -> Vec<HeldLock> {
        let each = self.requests.values().filter_map(|pending| {
            let State::Held { since } = pending.state else {
                return None;
            };
            let lines = pending.claimed().iter().filter_map(|(key, _)| self.entries.get(key));
            Some(HeldLock {
                name: pending.wish.name.text(),
                mode: pending.claimed().iter().map(|(_, mode)| *mode).max()?,
                held_for: now.saturating_duration_since(since),
                waiters: lines.map(|entry| entry.parked.len()).sum(),
            })
        });
        each.collect()
    }

    /// Keys, requests and locks of the back that it knows of.
    #[cfg(test)]
    pub(super) fn left(&self) -> (usize, usize, usize) {
        (self.entries.len(), self.requests.len(), self.out)
    }
}
