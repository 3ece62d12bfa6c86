//! The task that exchanges batches with the server, and extends what is held.
//!
//! # Invariants
//!
//! - Each grant has a unique value, which no other grant ever has: scripts decide by this value who owns a key.
//! - A lease counts from before its request was sent, on a clock of this process that never goes back and includes
//!   suspensions of the machine. It is lost when that time is over, and at once when the server says that the key has
//!   another value or no value.
//! - A failed request is in doubt. A key that may have been taken counts as missed, and its value is released as soon as the
//!   server answers, unless its time is already over.
//! - A value of a registration that is gone is replaced by compare-and-set; whether it is gone is read after the value was
//!   seen.
//! - The masters of a cluster do not wait for each other; each has its own queue. The first key of a request is taken before
//!   the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::RedisLockOptions;
use super::calls::{CallAnswer, CallForm, Written};
use super::cluster::MasterNumber;
use super::holders::Holders;
use super::links::{RedisLinks, by_master};
use super::queue::MasterQueue;
use super::take::{TakeAnswer, TakePlace, Taken};
use crate::Error;
use crate::lock::key::LockKey;
use crate::lock::lease_time::LeaseTime;
use crate::lock::owner::LockOwner;
use crate::lock::shared_table::{BackendParts, EndGuard, FencingToken, SharedTable, TokenRequest};
use crate::lock::table::{Batch, NamedKey, Ticket};

/// The most keys to take, or to extend, in one round trip.
const BATCH: usize = 256;
/// The most exchanges in flight with one master.
const DEPTH: usize = 4;
/// How often it is looked what is to be extended, and, after a suspension of the machine, what is over.
const TICK: Duration = Duration::from_millis(200);
/// The most values that are released later.
const OWED: usize = 4096;
/// Between two tries to extend a lease, at most: a server that refuses them is not asked at each tick.
const EXTENDED_AGAIN: Duration = Duration::from_secs(1);
/// How long the end waits for its releases.
const END: Duration = Duration::from_secs(1);

struct Lease {
    written: Written,
    /// Until when no other process can hold it.
    valid_until: LeaseTime,
    extended: LeaseTime,
    is_extending: bool,
    /// When its extension was last sent.
    asked: Option<LeaseTime>,
    /// The token of the grant; `None` once it was given out.
    token: Option<u64>,
}

/// An exchange that is to be sent.
struct Exchange {
    batch: Batch,
    /// Whose queue it was in; `None` if its keys are those of one request.
    master: Option<MasterNumber>,
    released: Vec<Written>,
    taken: Vec<Written>,
}

/// An exchange whose answer has come.
struct Exchanged {
    batch: Batch,
    master: Option<MasterNumber>,
    unreleased: Vec<Written>,
    /// In the order of the batch.
    taken: Vec<Taken>,
}

struct Extended {
    /// With the value of the lease that was extended.
    keys: Vec<(LockKey, Written)>,
    sent: LeaseTime,
    /// For each key 1 or 0; `None` if the server has not answered.
    answers: Vec<Option<i64>>,
}

pub(super) struct Actor {
    table: Arc<SharedTable>,
    place: TakePlace,
    options: RedisLockOptions,
    /// Begins each value.
    me: String,
    next: u64,
    leases: HashMap<LockKey, Lease>,
    queues: HashMap<MasterNumber, MasterQueue>,
    /// The keys of requests for several.
    together: Vec<(Batch, Vec<Written>)>,
    /// Values to release with the next exchange, each until it expires anyway.
    owed: Vec<(Written, LeaseTime)>,
    /// When the first lease ends.
    first_end: Option<LeaseTime>,
}

impl Actor {
    pub(super) fn new(
        table: &Arc<SharedTable>,
        links: &Arc<RedisLinks>,
        options: RedisLockOptions,
        form: Arc<CallForm>,
        owner: Option<LockOwner>,
    ) -> Self {
        let me = match &owner {
            Some(owner) => format!("{}/{}", owner.cluster(), owner.incarnation()),
            None => format!("process-{}", uuid::Uuid::new_v4().simple()),
        };
        Self {
            table: Arc::clone(table),
            place: TakePlace {
                links: Arc::clone(links),
                form,
                holders: owner.map(|owner| Arc::new(Holders::new(owner))),
            },
            options,
            me,
            next: 0,
            leases: HashMap::new(),
            queues: HashMap::new(),
            together: Vec::new(),
            owed: Vec::new(),
            first_end: None,
        }
    }

    /// Runs until the provider is closed; then releases everything.
    pub(super) async fn run(mut self, parts: (mpsc::Receiver<TokenRequest>, EndGuard), closing: CancellationToken) {
        let (mut tokens, end) = parts;
        let mut exchanges = FuturesUnordered::new();
        let place = self.place.clone();
        let send = |what: Exchange| exchange(place.clone(), what);
        let mut extensions = FuturesUnordered::new();
        let mut drawn = FuturesUnordered::new();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            while self.has_room()
                && let Some((batch, names)) = self.table.named_batch(BATCH)
            {
                self.sort(batch, names);
                exchanges.extend(self.exchanges().into_iter().map(send));
            }
            exchanges.extend(self.exchanges().into_iter().map(send));
            let table = Arc::clone(&self.table);
            let has_room = self.has_room();
            let retry = async {
                match table.next_retry() {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let first_end = self.first_end;
            let ended = async {
                match first_end {
                    Some(end) => tokio::time::sleep(end.left()).await,
                    None => std::future::pending().await,
                }
            };
            // All are cancellation safe.
            tokio::select! {
                () = closing.cancelled() => break,
                Some(exchanged) = exchanges.next() => self.complete(exchanged),
                Some(extended) = extensions.next() => self.complete_extension(extended),
                Some(()) = drawn.next() => {}
                () = table.batch_ready(), if has_room => {}
                Some(request) = tokens.recv() => drawn.extend(self.draw(request)),
                _ = tick.tick() => {
                    self.lose_expired();
                    extensions.extend(self.extend());
                    exchanges.extend(self.exchanges_of_owed().into_iter().map(send));
                }
                () = ended => self.lose_expired(),
                () = retry => table.step(|table, step| table.retry(step)),
            }
        }
        // Every handle is lost before its key is released.
        drop(end);
        self.owed
            .extend(self.leases.drain().map(|(_, lease)| (lease.written, lease.valid_until)));
        let release = async {
            let mut waiting: Vec<Written> = Vec::new();
            for queue in self.queues.values_mut() {
                waiting.extend(queue.next(usize::MAX).1);
            }
            while let Some(exchanged) = exchanges.next().await {
                let taken = exchanged.taken.into_iter();
                let granted = taken.filter(|(.., answer)| matches!(answer, TakeAnswer::Granted(_)));
                waiting.extend(granted.map(|(written, ..)| written));
            }
            waiting.extend(self.owed.drain(..).map(|(written, _)| written));
            let each = waiting
                .chunks(BATCH)
                .map(|page| self.place.exchange(page.to_vec(), Vec::new()));
            join_all(each).await;
        };
        let _ = tokio::time::timeout(END, release).await;
    }

    /// Whether more is taken from the table. What waits for one master of a cluster does not hold up what is for another one.
    fn has_room(&self) -> bool {
        let only = self.queues.get(&MasterNumber::default());
        self.place.links.is_cluster() || only.is_none_or(|queue| queue.in_flight < DEPTH)
    }

    /// Puts a batch into the queues of those who have its keys.
    fn sort(&mut self, batch: Batch, names: Vec<NamedKey>) {
        let is_cluster = self.place.links.is_cluster();
        let mut lost = Batch::default();
        for key in batch.free {
            match self.leases.remove(&key.0) {
                Some(lease) => self.queue_of(&lease.written).free(key, lease.written),
                None => lost.free.push(key),
            }
        }
        if !lost.free.is_empty() {
            self.table
                .step(|table, step| table.complete(&lost, &HashSet::new(), false, step));
        }
        let mut together: HashMap<Ticket, (Batch, Vec<Written>)> = HashMap::new();
        for (key, named) in batch.take.into_iter().zip(names) {
            self.next += 1;
            let written = Written {
                key: format!("{}{}", self.options.prefix, named.name),
                value: format!("{}:{}", self.me, self.next),
                mode: key.1,
            };
            match named.together.filter(|_| is_cluster) {
                Some(ticket) => {
                    let (batch, taken) = together.entry(ticket).or_default();
                    batch.take.push(key);
                    taken.push(written);
                }
                None => self.queue_of(&written).take(key, written),
            }
        }
        self.together.extend(together.into_values());
    }

    fn queue_of(&mut self, written: &Written) -> &mut MasterQueue {
        let master = self.place.links.master_of(&written.key);
        self.queues.entry(master).or_default()
    }

    /// What waits, as far as there is room for it.
    fn exchanges(&mut self) -> Vec<Exchange> {
        let together = std::mem::take(&mut self.together).into_iter();
        let mut all: Vec<Exchange> = together
            .map(|(batch, taken)| Exchange {
                batch,
                master: None,
                released: Vec::new(),
                taken,
            })
            .collect();
        let mut queues = std::mem::take(&mut self.queues);
        queues.retain(|_, queue| queue.in_flight > 0 || !queue.is_empty());
        for (master, queue) in &mut queues {
            while queue.in_flight < DEPTH && !queue.is_empty() {
                queue.in_flight += 1;
                let (batch, mut released, taken) = queue.next(BATCH);
                released.extend(self.take_owed(*master));
                let master = Some(*master);
                all.push(Exchange {
                    batch,
                    master,
                    released,
                    taken,
                });
            }
        }
        self.queues = queues;
        all
    }

    /// What is owed goes with the next exchange; alone where nothing is in flight.
    fn exchanges_of_owed(&mut self) -> Vec<Exchange> {
        let links = Arc::clone(&self.place.links);
        let mut masters: HashSet<MasterNumber> = self.owed.iter().map(|(one, _)| links.master_of(&one.key)).collect();
        let is_idle = |master: &MasterNumber| self.queues.get(master).is_none_or(|queue| queue.in_flight == 0);
        masters.retain(|master| is_idle(master) && links.is_open(*master));
        let mut all = Vec::new();
        for master in masters {
            let released = self.take_owed(master);
            if !released.is_empty() {
                self.queues.entry(master).or_default().in_flight += 1;
                all.push(Exchange {
                    batch: Batch::default(),
                    master: Some(master),
                    released,
                    taken: Vec::new(),
                });
            }
        }
        all
    }

    /// What one master releases later, up to a batch.
    fn take_owed(&mut self, master: MasterNumber) -> Vec<Written> {
        if self.owed.is_empty() {
            return Vec::new();
        }
        let now = LeaseTime::now();
        let links = &self.place.links;
        let (mut taken, mut kept) = (Vec::new(), Vec::new());
        for (written, until) in self.owed.drain(..).filter(|(_, until)| *until > now) {
            if taken.len() < BATCH && links.master_of(&written.key) == master {
                taken.push(written);
            } else {
                kept.push((written, until));
            }
        }
        self.owed = kept;
        taken
    }

    fn complete(&mut self, exchanged: Exchanged) {
        let Exchanged {
            mut batch,
            master,
            unreleased,
            taken,
        } = exchanged;
        if let Some(queue) = master.and_then(|master| self.queues.get_mut(&master)) {
            queue.in_flight = queue.in_flight.saturating_sub(1);
        }
        if unreleased.is_empty()
            && master.is_some()
            && let Some((_, sent, TakeAnswer::Granted(_) | TakeAnswer::Held(_))) = taken.first()
        {
            self.table.record_round_trip(sent.elapsed());
        }
        self.owe(unreleased, LeaseTime::now() + self.options.expiry);
        let mut missed: HashSet<LockKey> = batch.take.iter().map(|(key, _)| *key).collect();
        let mut not_asked = HashSet::new();
        let longest = self.options.expiry.saturating_sub(self.options.min_validity);
        for ((key, _), (written, sent, answer)) in batch.take.iter().zip(taken) {
            match answer {
                TakeAnswer::Granted(token) if sent.elapsed() <= longest => {
                    let lease = Lease {
                        written,
                        valid_until: sent + self.options.validity(),
                        extended: sent,
                        is_extending: false,
                        asked: None,
                        token: Some(token),
                    };
                    self.leases.insert(*key, lease);
                    missed.remove(key);
                }
                TakeAnswer::Granted(_) | TakeAnswer::InDoubt => self.owe(vec![written], sent + self.options.expiry),
                TakeAnswer::Held(_) | TakeAnswer::Missed => {}
                TakeAnswer::NotAsked => {
                    not_asked.insert(*key);
                }
            }
        }
        self.note_validity();
        batch.take.retain(|(key, _)| !not_asked.contains(key));
        missed.retain(|key| !not_asked.contains(key));
        self.table.step(|table, step| {
            not_asked.iter().for_each(|key| table.complete_not_asked(*key, step));
            table.complete(&batch, &missed, false, step);
        });
    }

    fn owe(&mut self, written: Vec<Written>, until: LeaseTime) {
        let room = OWED.saturating_sub(self.owed.len());
        self.owed
            .extend(written.into_iter().take(room).map(|written| (written, until)));
    }

    /// Until when every lease is valid: a process that was paused for longer has lost them before this task runs again.
    fn note_validity(&mut self) {
        self.first_end = self.leases.values().map(|lease| lease.valid_until).min();
        self.table.set_valid_until(self.first_end);
    }

    fn lose_expired(&mut self) {
        let now = LeaseTime::now();
        let expired = self.leases.iter().filter(|(_, lease)| lease.valid_until <= now);
        let expired: Vec<LockKey> = expired.map(|(key, _)| *key).collect();
        // The first one may have been released.
        self.note_validity();
        self.lose(&expired, "their time is over");
    }

    fn lose(&mut self, keys: &[LockKey], why: &str) {
        if keys.is_empty() {
            return;
        }
        tracing::warn!(
            locks = keys.len(),
            why,
            "locks in Redis are lost; the database decides what is committed"
        );
        metrics::counter!("mainspring_lock_leases_lost_total").increment(keys.len() as u64);
        for key in keys {
            if let Some(lease) = self.leases.remove(key) {
                self.owe(vec![lease.written], LeaseTime::now() + self.options.expiry);
            }
        }
        self.table.lose(keys);
        self.note_validity();
    }

    /// Extends what is due, at each master by itself.
    fn extend(&mut self) -> Vec<impl Future<Output = Extended> + Send + use<>> {
        let now = LeaseTime::now();
        let links = Arc::clone(&self.place.links);
        let again = self.options.extension.min(EXTENDED_AGAIN);
        let is_due = |lease: &Lease| {
            let was_asked = lease.asked.is_some_and(|asked| now.since(asked) < again);
            !lease.is_extending && !was_asked && now.since(lease.extended) >= self.options.extension
        };
        let due = self.leases.iter().filter(|(_, lease)| is_due(lease));
        let due: Vec<(LockKey, Written)> = due.map(|(key, lease)| (*key, lease.written.clone())).collect();
        let mut sent = Vec::new();
        for (master, due) in by_master(&links, due, |(_, written)| &written.key) {
            // Its time runs on; it is asked for when the master is back, perhaps another one.
            if !links.is_open(master) {
                continue;
            }
            for page in due.chunks(BATCH) {
                for (key, _) in page {
                    if let Some(lease) = self.leases.get_mut(key) {
                        lease.is_extending = true;
                        lease.asked = Some(now);
                    }
                }
                sent.push(extend(self.place.clone(), page.to_vec()));
            }
        }
        sent
    }

    fn complete_extension(&mut self, extended: Extended) {
        let Extended { keys, sent, answers } = extended;
        let mut lost = Vec::new();
        for (place, (key, extended)) in keys.into_iter().enumerate() {
            // A key that was released and taken again meanwhile has another value, of which the answer says nothing.
            let lease = self.leases.get_mut(&key);
            let Some(lease) = lease.filter(|lease| lease.written.value == extended.value) else {
                continue;
            };
            lease.is_extending = false;
            match answers.get(place).copied().flatten() {
                Some(1) => {
                    lease.valid_until = sent + self.options.validity();
                    lease.extended = sent;
                }
                Some(_) => lost.push(key),
                // No answer: asked again soon, until its time is over.
                _ => {}
            }
        }
        self.lose(&lost, "the server has other values");
        self.note_validity();
    }

    /// Answers with the token of the grant, or draws another one; then the future does.
    fn draw(&mut self, request: TokenRequest) -> Option<impl Future<Output = ()> + Send + use<>> {
        let TokenRequest { keys, reply } = request;
        let leases: Option<Vec<&Lease>> = keys.iter().map(|key| self.leases.get(key)).collect();
        let Some(leases) = leases.filter(|leases| !leases.is_empty()) else {
            let _ = reply.send(Err(Error::lost_lock("the lease of the lock has ended")));
            return None;
        };
        let of_grant: Option<Vec<u64>> = leases.iter().map(|lease| lease.token).collect();
        let written: Vec<Written> = leases.iter().map(|lease| lease.written.clone()).collect();
        for key in &keys {
            if let Some(lease) = self.leases.get_mut(key) {
                lease.token = None;
            }
        }
        let granted = of_grant.and_then(|tokens| tokens.into_iter().max());
        let is_one = written.len() == 1 || !self.place.links.is_cluster();
        if let Some(token) = granted.filter(|_| is_one) {
            let _ = reply.send(Ok(FencingToken::new(token)));
            return None;
        }
        let place = self.place.clone();
        Some(async move {
            let token = place.draw(&written, granted).await;
            // Fails for a dropped future; the number is skipped.
            let _ = reply.send(token.map(FencingToken::new));
        })
    }
}

async fn exchange(place: TakePlace, what: Exchange) -> Exchanged {
    let Exchange {
        batch,
        master,
        released,
        taken,
    } = what;
    let (unreleased, taken) = match master {
        Some(_) => place.exchange(released, taken).await,
        None => (released, place.take_together(taken).await),
    };
    Exchanged {
        batch,
        master,
        unreleased,
        taken,
    }
}

async fn extend(place: TakePlace, keys: Vec<(LockKey, Written)>) -> Extended {
    let sent = LeaseTime::now();
    let written: Vec<Written> = keys.iter().map(|(_, written)| written.clone()).collect();
    let answered = place.links.run(&place.form.extend(&written)).await;
    let per_call = written.len().div_ceil(answered.len().max(1));
    let of_call = |answer: CallAnswer| {
        let mut values = match answer {
            CallAnswer::Done(Value::Array(values)) => values.into_iter(),
            CallAnswer::Done(_) | CallAnswer::NotRun | CallAnswer::InDoubt => Vec::new().into_iter(),
        };
        let one = move |_| match values.next() {
            Some(Value::Int(answer)) => Some(answer),
            _ => None,
        };
        (0..per_call).map(one).collect::<Vec<_>>()
    };
    Extended {
        keys,
        sent,
        answers: answered.into_iter().flat_map(of_call).collect(),
    }
}

/// Starts the task of a provider.
pub(super) fn start(actor: Actor, parts: BackendParts, closing: CancellationToken) {
    let BackendParts { tokens, end, .. } = parts;
    tokio::spawn(actor.run((tokens, end), closing));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::request::LockMode;
    use crate::lock::table::Backend;
    use crate::redis_server::RedisServer;

    /// An extension was on its way when its lock was released and taken again: whatever it says of the former value, and however late
    /// it was sent, the younger lease stays.
    #[tokio::test]
    async fn the_answer_to_an_extension_says_nothing_of_a_younger_lease() {
        let parts = SharedTable::open(Backend::Leased(4), "redis", LockKey::of);
        let server = RedisServer::parse("redis://127.0.0.1:1").unwrap();
        let options = RedisLockOptions::default();
        let form = Arc::new(CallForm::new("p", String::new(), options.expiry, false));
        let links = Arc::new(RedisLinks::new(server, Arc::clone(&form)));
        let mut actor = Actor::new(&parts.table, &links, options, form, None);
        let written = |value: &str| Written {
            key: "p".to_owned(),
            value: value.to_owned(),
            mode: LockMode::Exclusive,
        };
        let key = LockKey(1);
        let taken = LeaseTime::now();
        let lease = Lease {
            written: written("2"),
            valid_until: taken + Duration::from_secs(30),
            extended: taken,
            is_extending: false,
            asked: None,
            token: None,
        };
        actor.leases.insert(key, lease);
        let mut answer = |value: &str, answer| {
            actor.complete_extension(Extended {
                keys: vec![(key, written(value))],
                sent: LeaseTime::now(),
                answers: vec![Some(answer)],
            });
            actor.leases.get(&key).map(|lease| lease.valid_until)
        };
        for former in [0, 1] {
            assert_eq!(answer("1", former), Some(taken + Duration::from_secs(30)));
        }
        assert_eq!(answer("2", 0), None);
    }
}
