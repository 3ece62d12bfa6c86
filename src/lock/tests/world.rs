//! Several tables on one database that is only played: no connections, no tasks, and a clock that moves when it is told.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;

use crate::lock::key::LockKey;
use crate::lock::request::{Keys, LockMode, Name, Wish};
use crate::lock::stats::Counters;
use crate::lock::table::{Back, Batch, Outbox, Peer, Said, Table, Ticket};
use crate::lock::{HeldLock, LockHandle};

/// What a request asks for: its keys, whether one is enough, and whether it waits.
pub(super) struct Ask {
    pub(super) keys: Vec<(LockKey, LockMode)>,
    pub(super) any: bool,
    pub(super) waits: bool,
}

impl Ask {
    pub(super) fn one(key: i64, mode: LockMode) -> Self {
        Self {
            keys: vec![(LockKey(key), mode)],
            any: false,
            waits: true,
        }
    }
}

/// A process.
pub(super) struct Node {
    table: Table,
    /// Sent, and not yet seen by the server.
    sent: VecDeque<Batch>,
    /// Answered, and not yet seen by us.
    answers: VecDeque<(Batch, HashSet<LockKey>)>,
    heard: VecDeque<(Peer, Said)>,
    asked: BTreeMap<Ticket, (Ask, oneshot::Receiver<Option<LockHandle>>)>,
    pub(super) held: BTreeMap<Ticket, Vec<(LockKey, LockMode)>>,
    /// Its process stands still.
    silent: bool,
}

/// A grant: which process, and which of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) node: usize,
    pub(super) ticket: Ticket,
    /// If there was only one to choose from.
    pub(super) key: Option<LockKey>,
}

pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    /// Who has a key in the database: each once for each time it took it.
    owners: HashMap<LockKey, Vec<(usize, LockMode)>>,
    pub(super) now: Instant,
    pub(super) random: StdRng,
    /// Of a hundred things that are said, so many are lost on their way to each who hears.
    pub(super) lost_of_hundred: u32,
    pub(super) grants: Vec<Grant>,
    /// What was said, all in all.
    pub(super) said: usize,
}

impl World {
    pub(super) fn new(nodes: usize, budget: usize, seed: u64) -> Self {
        let node = |number: usize| Node {
            table: Table::new(
                Back::Talking {
                    budget,
                    me: number as Peer,
                },
                Arc::new(Counters::default()),
                StdRng::seed_from_u64(seed + number as u64),
            ),
            sent: VecDeque::new(),
            answers: VecDeque::new(),
            heard: VecDeque::new(),
            asked: BTreeMap::new(),
            held: BTreeMap::new(),
            silent: false,
        };
        Self {
            nodes: (0..nodes).map(node).collect(),
            owners: HashMap::new(),
            now: Instant::now(),
            random: StdRng::seed_from_u64(seed),
            lost_of_hundred: 0,
            grants: Vec::new(),
            said: 0,
        }
    }

    fn step(&mut self, node: usize, step: impl FnOnce(&mut Table, Instant, &mut Outbox)) {
        let mut outbox = Outbox::default();
        step(&mut self.nodes[node].table, self.now, &mut outbox);
        self.told(node, outbox);
    }

    fn told(&mut self, node: usize, outbox: Outbox) {
        for (_, ticket) in outbox.granted {
            self.granted(node, ticket);
        }
        for reply in outbox.refused {
            drop(reply.send(None));
        }
        let asked = &mut self.nodes[node].asked;
        asked.retain(|_, (ask, answer)| ask.waits || !matches!(answer.try_recv(), Ok(None)));
    }

    fn granted(&mut self, node: usize, ticket: Ticket) {
        let (ask, _) = self.nodes[node].asked.remove(&ticket).expect("it was asked for");
        let keys = if ask.any {
            // Which one, only the database knows; who holds more than it may is found there.
            Vec::new()
        } else {
            ask.keys
        };
        for (key, mode) in &keys {
            self.must_own(node, *key, *mode);
            for (other, held) in self
                .nodes
                .iter()
                .enumerate()
                .flat_map(|(number, node)| node.held.values().flatten().map(move |held| (number, held)))
            {
                let conflict = held.0 == *key && (*mode == LockMode::Exclusive || held.1 == LockMode::Exclusive);
                assert!(!conflict, "{key} is held by {other} and now by {node}");
            }
        }
        let key = match *keys.as_slice() {
            [(key, _)] => Some(key),
            _ => None,
        };
        self.nodes[node].held.insert(ticket, keys);
        self.grants.push(Grant { node, ticket, key });
    }

    fn must_own(&self, node: usize, key: LockKey, mode: LockMode) {
        let owners = self.owners.get(&key).map_or(&[][..], Vec::as_slice);
        assert!(
            owners.iter().any(|(owner, has)| *owner == node && *has >= mode),
            "{node} was given {key} and does not have it in the database: {owners:?}"
        );
    }

    pub(super) fn ask(&mut self, node: usize, ask: Ask) -> Option<Ticket> {
        let (reply, answer) = oneshot::channel();
        let keys = match *ask.keys.as_slice() {
            [one] => Keys::One([one]),
            _ => Keys::Many(ask.keys.clone()),
        };
        let wish = Wish {
            keys,
            any: ask.any,
            name: Name::Given("played".into()),
        };
        let waits = ask.waits;
        let mut outbox = Outbox::default();
        let ticket = self.nodes[node]
            .table
            .begin(wish, waits, reply, self.now, &mut outbox)?;
        self.nodes[node].asked.insert(ticket, (ask, answer));
        self.told(node, outbox);
        Some(ticket)
    }

    pub(super) fn release(&mut self, node: usize, ticket: Ticket) {
        self.nodes[node].held.remove(&ticket).expect("it is held");
        self.step(node, |table, now, outbox| table.release(ticket, now, outbox));
    }

    pub(super) fn abandon(&mut self, node: usize, ticket: Ticket) {
        self.nodes[node].asked.remove(&ticket).expect("it waits");
        self.step(node, |table, now, outbox| table.abandon(ticket, now, outbox));
    }

    /// The first of those that a process holds.
    pub(super) fn first_held(&self, node: usize) -> Option<Ticket> {
        self.nodes[node].held.keys().next().copied()
    }

    pub(super) fn waiting(&self, node: usize) -> Vec<Ticket> {
        self.nodes[node].asked.keys().copied().collect()
    }

    /// From now on this process does and hears nothing; or goes on where it stopped.
    pub(super) fn silence(&mut self, node: usize, silent: bool) {
        self.nodes[node].silent = silent;
    }

    /// The table's batch goes out.
    pub(super) fn send(&mut self, node: usize) -> bool {
        let node = &mut self.nodes[node];
        let ready = node.table.has_batch();
        if ready {
            node.sent.push_back(node.table.batch(1024));
        }
        ready
    }

    /// The server runs a batch of this process.
    pub(super) fn serve(&mut self, node: usize) -> bool {
        let Some(batch) = self.nodes[node].sent.pop_front() else {
            return false;
        };
        for (key, mode) in &batch.free {
            let owners = self.owners.entry(*key).or_default();
            let place = owners.iter().position(|owner| *owner == (node, *mode));
            owners.remove(place.expect("what is given back was had"));
        }
        let mut missed = HashSet::new();
        for (key, mode) in &batch.take {
            let owners = self.owners.entry(*key).or_default();
            assert!(
                owners.iter().all(|(owner, _)| *owner != node),
                "{node} takes {key} twice"
            );
            let conflict = |has: LockMode| *mode == LockMode::Exclusive || has == LockMode::Exclusive;
            if owners.iter().any(|(_, has)| conflict(*has)) {
                missed.insert(*key);
            } else {
                owners.push((node, *mode));
            }
        }
        for said in &batch.say {
            self.said += 1;
            for hears in &mut self.nodes {
                if self.lost_of_hundred == 0 || self.random.random_range(0..100) >= self.lost_of_hundred {
                    hears.heard.push_back((node as Peer, said.clone()));
                }
            }
        }
        self.nodes[node].answers.push_back((batch, missed));
        true
    }

    pub(super) fn answer(&mut self, node: usize) -> bool {
        let Some((batch, missed)) = self.nodes[node].answers.pop_front() else {
            return false;
        };
        self.step(node, |table, now, outbox| {
            table.answer(&batch, &missed, false, now, outbox)
        });
        true
    }

    pub(super) fn hear(&mut self, node: usize) -> bool {
        let Some((from, said)) = self.nodes[node].heard.pop_front() else {
            return false;
        };
        self.step(node, |table, now, outbox| table.hear(from, &said, now, outbox));
        true
    }

    /// Everything but time, until there is nothing left to do.
    pub(super) fn settle(&mut self) {
        let mut rounds = 0;
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            rounds += 1;
            assert!(rounds < 10_000, "they go on and on, and no time passes");
            for node in (0..self.nodes.len())
                .filter(|node| !self.nodes[*node].silent)
                .collect::<Vec<_>>()
            {
                let moved = [self.send(node), self.serve(node), self.answer(node), self.hear(node)];
                goes_on |= moved.contains(&true);
            }
        }
    }

    /// One of the things that go on by themselves, at random.
    pub(super) fn anything(&mut self) {
        let awake = (0..self.nodes.len()).filter(|node| !self.nodes[*node].silent);
        let node = awake.choose(&mut self.random).expect("a node that is awake");
        match self.random.random_range(0..5) {
            0 => drop(self.send(node)),
            1 => drop(self.serve(node)),
            2 => drop(self.answer(node)),
            3 => drop(self.hear(node)),
            _ => {
                let micros = self.random.random_range(0..100);
                self.pass_time(Duration::from_micros(micros));
            }
        }
    }

    pub(super) fn pass_time(&mut self, time: Duration) {
        self.now += time;
        for node in 0..self.nodes.len() {
            if !self.nodes[node].silent && self.nodes[node].table.next_retry().is_some_and(|at| at <= self.now) {
                self.step(node, |table, now, outbox| table.retry(now, outbox));
            }
        }
    }

    /// Lets the time come at which somebody tries again.
    pub(super) fn pass_until_retry(&mut self) -> bool {
        let next = self.nodes.iter().filter(|node| !node.silent);
        let next = next.filter_map(|node| node.table.next_retry()).min();
        if let Some(at) = next {
            self.pass_time(at.saturating_duration_since(self.now));
        }
        next.is_some()
    }

    /// Nobody has anything, waits for anything, or remembers anything.
    pub(super) fn is_empty(&self) {
        let left: Vec<_> = self.owners.iter().filter(|(_, owners)| !owners.is_empty()).collect();
        assert!(left.is_empty(), "{left:?}");
        for (number, node) in self.nodes.iter().enumerate() {
            assert!(node.asked.is_empty() && node.held.is_empty());
            let held: Vec<HeldLock> = node.table.held(self.now);
            assert!(held.is_empty(), "{held:?}");
            assert_eq!(
                node.table.left(),
                (0, 0, 0),
                "keys, requests and locks that {number} has not forgotten"
            );
        }
    }
}
