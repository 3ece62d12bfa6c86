//! A simulation: several tables on one simulated database, without connections or tasks, and with a clock that the test
//! advances.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;

use crate::lock::HeldLock;
use crate::lock::key::LockKey;
use crate::lock::request::{KeyRequest, Keys, LockMode, LockName};
use crate::lock::stats::Counters;
use crate::lock::table::{Backend, Batch, LockMessage, Peer, Table, TableResults, Ticket};

/// A request: its keys, whether one of them is enough, and whether it waits.
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
    /// Sent, and not yet received by the server.
    sent: VecDeque<Batch>,
    /// Answered, and not yet received by the process.
    answers: VecDeque<(Batch, HashSet<LockKey>)>,
    messages: VecDeque<(Peer, LockMessage)>,
    waiting: BTreeMap<Ticket, (Ask, oneshot::Receiver<bool>)>,
    pub(super) held: BTreeMap<Ticket, Vec<(LockKey, LockMode)>>,
    /// Its process is paused.
    paused: bool,
}

/// A grant: the process, and its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) node: usize,
    pub(super) ticket: Ticket,
    /// If the request had only one.
    pub(super) key: Option<LockKey>,
}

pub(super) struct Simulation {
    pub(super) nodes: Vec<Node>,
    /// The processes that hold a key in the database, once for each time they took it.
    owners: HashMap<LockKey, Vec<(usize, LockMode)>>,
    pub(super) now: Instant,
    pub(super) random: StdRng,
    /// Of a hundred messages so many are lost on their way to each receiver.
    pub(super) lost_percent: u32,
    pub(super) grants: Vec<Grant>,
    /// Messages that were sent.
    pub(super) sent_messages: usize,
}

impl Simulation {
    pub(super) fn new(nodes: usize, budget: usize, seed: u64) -> Self {
        let node = |number: usize| Node {
            table: Table::new(
                Backend::Notified {
                    budget,
                    me: number as Peer,
                },
                Arc::new(Counters::default()),
                StdRng::seed_from_u64(seed + number as u64),
            ),
            sent: VecDeque::new(),
            answers: VecDeque::new(),
            messages: VecDeque::new(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            paused: false,
        };
        Self {
            nodes: (0..nodes).map(node).collect(),
            owners: HashMap::new(),
            now: Instant::now(),
            random: StdRng::seed_from_u64(seed),
            lost_percent: 0,
            grants: Vec::new(),
            sent_messages: 0,
        }
    }

    fn step(&mut self, node: usize, run: impl FnOnce(&mut Table, &mut TableResults)) {
        let mut results = TableResults::at(self.now);
        run(&mut self.nodes[node].table, &mut results);
        self.apply(node, results);
    }

    fn apply(&mut self, node: usize, results: TableResults) {
        for (_, ticket) in results.granted {
            self.granted(node, ticket);
        }
        for reply in results.refused {
            let _ = reply.send(false);
        }
        let waiting = &mut self.nodes[node].waiting;
        waiting.retain(|_, (ask, answer)| ask.waits || !matches!(answer.try_recv(), Ok(false)));
    }

    fn granted(&mut self, node: usize, ticket: Ticket) {
        let (ask, _) = self.nodes[node].waiting.remove(&ticket).expect("it was submitted");
        let keys = if ask.any {
            // Only the database knows which one, and checks it.
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
            "{node} was granted {key} and does not hold it in the database: {owners:?}"
        );
    }

    pub(super) fn ask(&mut self, node: usize, ask: Ask) -> Option<Ticket> {
        let (reply, answer) = oneshot::channel();
        let keys = match *ask.keys.as_slice() {
            [one] => Keys::One([one]),
            _ => Keys::Many(ask.keys.clone()),
        };
        let request = KeyRequest {
            keys,
            any: ask.any,
            name: LockName::Given("simulated".into()),
            names: Vec::new(),
        };
        let waits = ask.waits;
        let mut results = TableResults::at(self.now);
        let ticket = self.nodes[node].table.submit(request, waits, reply, &mut results)?;
        self.nodes[node].waiting.insert(ticket, (ask, answer));
        self.apply(node, results);
        Some(ticket)
    }

    pub(super) fn release(&mut self, node: usize, ticket: Ticket) {
        self.nodes[node].held.remove(&ticket).expect("it is held");
        self.step(node, |table, results| table.release(ticket, results));
    }

    pub(super) fn abandon(&mut self, node: usize, ticket: Ticket) {
        self.nodes[node].waiting.remove(&ticket).expect("it waits");
        self.step(node, |table, results| table.abandon(ticket, results));
    }

    /// The first request that is held by a process.
    pub(super) fn first_held(&self, node: usize) -> Option<Ticket> {
        self.nodes[node].held.keys().next().copied()
    }

    pub(super) fn waiting(&self, node: usize) -> Vec<Ticket> {
        self.nodes[node].waiting.keys().copied().collect()
    }

    /// Pauses this process, or lets it continue.
    pub(super) fn pause(&mut self, node: usize, paused: bool) {
        self.nodes[node].paused = paused;
    }

    /// The next batch of the table is sent.
    pub(super) fn send(&mut self, node: usize) -> bool {
        let node = &mut self.nodes[node];
        let ready = node.table.has_batch();
        if ready {
            node.sent.push_back(node.table.batch(1024));
        }
        ready
    }

    /// The server executes a batch of this process.
    pub(super) fn serve(&mut self, node: usize) -> bool {
        let Some(batch) = self.nodes[node].sent.pop_front() else {
            return false;
        };
        for (key, mode) in &batch.free {
            let owners = self.owners.entry(*key).or_default();
            let place = owners.iter().position(|owner| *owner == (node, *mode));
            owners.remove(place.expect("what is released was held"));
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
        for message in &batch.messages {
            self.sent_messages += 1;
            for receiver in &mut self.nodes {
                if self.lost_percent == 0 || self.random.random_range(0..100) >= self.lost_percent {
                    receiver.messages.push_back((node as Peer, message.clone()));
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
        self.step(node, |table, results| table.complete(&batch, &missed, false, results));
        true
    }

    pub(super) fn receive(&mut self, node: usize) -> bool {
        let Some((from, message)) = self.nodes[node].messages.pop_front() else {
            return false;
        };
        self.step(node, |table, results| table.receive(from, &message, results));
        true
    }

    /// Runs everything but the clock, until nothing is left to do.
    pub(super) fn settle(&mut self) {
        let mut steps = 0;
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            steps += 1;
            assert!(steps < 10_000, "it never comes to rest while no time passes");
            for node in (0..self.nodes.len())
                .filter(|node| !self.nodes[*node].paused)
                .collect::<Vec<_>>()
            {
                let moved = [self.send(node), self.serve(node), self.answer(node), self.receive(node)];
                goes_on |= moved.contains(&true);
            }
        }
    }

    /// Runs one random step of the processes, the server or the clock.
    pub(super) fn random_step(&mut self) {
        let running = (0..self.nodes.len()).filter(|node| !self.nodes[*node].paused);
        let node = running.choose(&mut self.random).expect("a node that is not paused");
        match self.random.random_range(0..5) {
            0 => drop(self.send(node)),
            1 => drop(self.serve(node)),
            2 => drop(self.answer(node)),
            3 => drop(self.receive(node)),
            _ => {
                let micros = self.random.random_range(0..100);
                self.pass_time(Duration::from_micros(micros));
            }
        }
    }

    pub(super) fn pass_time(&mut self, time: Duration) {
        self.now += time;
        for node in 0..self.nodes.len() {
            if !self.nodes[node].paused && self.nodes[node].table.next_retry().is_some_and(|at| at <= self.now) {
                self.step(node, |table, results| table.retry(results));
            }
        }
    }

    /// Advances the clock to the next retry of a process.
    pub(super) fn pass_until_retry(&mut self) -> bool {
        let next = self.nodes.iter().filter(|node| !node.paused);
        let next = next.filter_map(|node| node.table.next_retry()).min();
        if let Some(at) = next {
            self.pass_time(at.saturating_duration_since(self.now));
        }
        next.is_some()
    }

    /// No process holds anything, waits for anything, or tracks anything.
    pub(super) fn assert_empty(&self) {
        let left: Vec<_> = self.owners.iter().filter(|(_, owners)| !owners.is_empty()).collect();
        assert!(left.is_empty(), "{left:?}");
        for (number, node) in self.nodes.iter().enumerate() {
            assert!(node.waiting.is_empty() && node.held.is_empty());
            let held: Vec<HeldLock> = node.table.held(self.now);
            assert!(held.is_empty(), "{held:?}");
            assert_eq!(
                node.table.tracked(),
                (0, 0, 0),
                "keys, requests and locks that {number} still tracks"
            );
        }
    }
}
