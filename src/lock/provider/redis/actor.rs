//! The task that exchanges batches with the server, and extends what is held.
//!
//! # Invariants
//!
//! - A grant has a value of its own, which no other grant has or had: who owns a key is decided by its value, in scripts.
//! - A lease counts from before its request was sent, on this process' monotonic clock. It is lost when that time is over, and at
//!   once when the server says that the key has another value, or none.
//! - What failed is in doubt. A key that may have been taken counts as missed, and its value is released as soon as the server
//!   answers, unless its time is over anyway.
//! - A value of a registration that is gone is replaced by compare-and-set; that it is gone is read after the value was met.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use redis::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::RedisLockOptions;
use super::link::{RedisLink, Script};
use crate::lock::frontend::{BackendParts, EndGuard, FencingToken, Frontend, TokenRequest};
use crate::lock::key::LockKey;
use crate::lock::owner::LockOwner;
use crate::lock::request::LockMode;
use crate::lock::table::Batch;
use crate::{Error, Result};

/// The most keys to take, or to extend, in one round trip.
const BATCH: usize = 256;
/// The most exchanges in flight.
const DEPTH: usize = 4;
/// How often leases are checked.
const TICK: Duration = Duration::from_millis(200);
/// How long a registration that was found living is not asked about again. Only that it lives is kept, never that it is gone.
const LIVING: Duration = Duration::from_millis(100);
/// The most values that are released later.
const OWED: usize = 4096;
/// How long the end waits for its releases.
const END: Duration = Duration::from_secs(1);

/// What is written for a grant.
#[derive(Clone)]
struct Written {
    key: String,
    value: String,
    mode: LockMode,
}

impl Written {
    fn arguments(&self) -> [String; 2] {
        let mode = match self.mode {
            LockMode::Exclusive => "x",
            LockMode::Shared => "s",
        };
        [self.value.clone(), mode.to_owned()]
    }
}

struct Lease {
    written: Written,
    /// Until when no other process can hold it.
    valid_until: Instant,
    extended: Instant,
    is_extending: bool,
    /// The token of the grant; none: it was given out.
    token: Option<u64>,
}

/// An exchange whose answer has come.
struct Exchanged {
    batch: Batch,
    released: Vec<Written>,
    taken: Vec<Written>,
    sent: Instant,
    /// For each of `taken` its token, or none.
    answer: Result<Vec<Option<u64>>>,
}

struct Extended {
    keys: Vec<LockKey>,
    sent: Instant,
    answer: Result<Vec<i64>>,
}

pub(super) struct Actor {
    pub(super) frontend: Arc<Frontend>,
    pub(super) link: Arc<RedisLink>,
    pub(super) options: RedisLockOptions,
    pub(super) channel: String,
    pub(super) owner: Option<Arc<Holders>>,
    /// Begins each value.
    pub(super) me: String,
    next: u64,
    leases: HashMap<LockKey, Lease>,
    /// Values to release with the next exchange, each until it expires anyway.
    owed: Vec<(Written, Instant)>,
}

/// Which registrations of the cluster live.
pub(super) struct Holders {
    owner: LockOwner,
    living: Mutex<HashMap<i64, Instant>>,
}

impl Holders {
    pub(super) fn new(owner: LockOwner) -> Self {
        Self {
            owner,
            living: Mutex::default(),
        }
    }

    /// The registration that has written a value; none: another cluster, or no engine.
    fn incarnation_of(&self, value: &str) -> Option<i64> {
        let (holder, _) = value.rsplit_once(':')?;
        let (cluster, incarnation) = holder.rsplit_once('/')?;
        let incarnation = incarnation.parse().ok()?;
        (cluster == self.owner.cluster() && incarnation != self.owner.incarnation()).then_some(incarnation)
    }

    /// Which of these are gone. What cannot be read counts as living.
    async fn gone(&self, incarnations: HashSet<i64>) -> HashSet<i64> {
        let now = Instant::now();
        let asked: Vec<i64> = {
            let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
            living.retain(|_, seen| now.duration_since(*seen) < LIVING);
            incarnations
                .into_iter()
                .filter(|one| !living.contains_key(one))
                .collect()
        };
        if asked.is_empty() {
            return HashSet::new();
        }
        let gone: HashSet<i64> = match self.owner.gone(asked.clone()).await {
            Ok(gone) => gone.into_iter().collect(),
            Err(error) => {
                tracing::debug!(%error, "whether the holders of locks live cannot be read");
                return HashSet::new();
            }
        };
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.extend(asked.iter().filter(|one| !gone.contains(one)).map(|one| (*one, now)));
        gone
    }
}

impl Actor {
    pub(super) fn new(
        frontend: &Arc<Frontend>,
        link: &Arc<RedisLink>,
        options: RedisLockOptions,
        channel: String,
        owner: Option<LockOwner>,
    ) -> Self {
        let me = match &owner {
            Some(owner) => format!("{}/{}", owner.cluster(), owner.incarnation()),
            None => format!("process-{}", uuid::Uuid::new_v4().simple()),
        };
        Self {
            frontend: Arc::clone(frontend),
            link: Arc::clone(link),
            options,
            channel,
            owner: owner.map(|owner| Arc::new(Holders::new(owner))),
            me,
            next: 0,
            leases: HashMap::new(),
            owed: Vec::new(),
        }
    }

    /// Runs until the provider is closed; then releases everything.
    pub(super) async fn run(mut self, parts: (mpsc::Receiver<TokenRequest>, EndGuard), closing: CancellationToken) {
        let (mut tokens, end) = parts;
        let mut exchanges = FuturesOrdered::new();
        let mut extensions = FuturesUnordered::new();
        let mut drawn = FuturesUnordered::new();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            while exchanges.len() < DEPTH
                && let Some((batch, names)) = self.frontend.named_batch(BATCH)
            {
                exchanges.push_back(self.exchange(batch, &names));
            }
            let frontend = Arc::clone(&self.frontend);
            let has_room = exchanges.len() < DEPTH;
            let retry = async {
                match frontend.next_retry() {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            // All are cancellation safe.
            tokio::select! {
                () = closing.cancelled() => break,
                Some(exchanged) = exchanges.next() => self.complete(exchanged),
                Some(extended) = extensions.next() => self.complete_extension(extended),
                Some(()) = drawn.next() => {}
                () = frontend.batch_ready(), if has_room => {}
                Some(request) = tokens.recv() => drawn.extend(self.draw(request)),
                _ = tick.tick() => {
                    self.lose_expired();
                    extensions.extend(self.extend());
                    // What is owed goes with the next exchange, or alone.
                    if exchanges.is_empty() && !self.owed.is_empty() && self.link.check().is_ok() {
                        exchanges.push_back(self.exchange(Batch::default(), &[]));
                    }
                }
                () = retry => frontend.step(|table, step| table.retry(step)),
            }
        }
        // Every handle is lost before its key is released.
        drop(end);
        self.owed
            .extend(self.leases.drain().map(|(_, lease)| (lease.written, lease.valid_until)));
        let release = async {
            while let Some(exchanged) = exchanges.next().await {
                if exchanged.answer.is_ok() {
                    let until = exchanged.sent + self.options.expiry;
                    self.owed
                        .extend(exchanged.taken.into_iter().map(|taken| (taken, until)));
                }
            }
            for owed in std::mem::take(&mut self.owed).chunks(BATCH) {
                let owed: Vec<Written> = owed.iter().map(|(written, _)| written.clone()).collect();
                let (keys, arguments) = self.exchange_arguments(&owed, &[]);
                let _: Result<Value> = self.link.run(Script::Exchange, &keys, &arguments).await;
            }
        };
        let _ = tokio::time::timeout(END, release).await;
    }

    fn counter(&self) -> String {
        format!("mainspring:tokens:{}", self.options.prefix)
    }

    fn exchange_arguments(&self, released: &[Written], taken: &[Written]) -> (Vec<String>, Vec<String>) {
        let mut keys = vec![self.counter()];
        let mut arguments = vec![
            self.options.expiry.as_millis().to_string(),
            released.len().to_string(),
            self.channel.clone(),
            self.options.prefix.len().to_string(),
        ];
        for written in released.iter().chain(taken) {
            keys.push(written.key.clone());
            arguments.extend(written.arguments());
        }
        (keys, arguments)
    }

    /// Sends a batch. The future runs by itself.
    fn exchange(&mut self, batch: Batch, names: &[Arc<str>]) -> impl Future<Output = Exchanged> + Send + use<> {
        let now = Instant::now();
        self.owed.retain(|(_, until)| *until > now);
        let owed = self.owed.split_off(self.owed.len().saturating_sub(BATCH));
        let mut released: Vec<Written> = owed.into_iter().map(|(written, _)| written).collect();
        let freed = batch.free.iter().filter_map(|(key, _)| self.leases.remove(key));
        released.extend(freed.map(|lease| lease.written));
        let mut taken = Vec::with_capacity(batch.take.len());
        for ((_, mode), name) in batch.take.iter().zip(names) {
            self.next += 1;
            taken.push(Written {
                key: format!("{}{name}", self.options.prefix),
                value: format!("{}:{}", self.me, self.next),
                mode: *mode,
            });
        }
        let (keys, arguments) = self.exchange_arguments(&released, &taken);
        let (link, owner) = (Arc::clone(&self.link), self.owner.clone());
        let (expiry, counter) = (self.options.expiry, self.counter());
        async move {
            let sent = Instant::now();
            let answer = link.run::<Vec<Value>>(Script::Exchange, &keys, &arguments).await;
            let answer = match answer {
                Ok(answers) => Ok(take_over(&link, owner.as_deref(), &counter, expiry, &taken, answers).await),
                Err(error) => Err(error),
            };
            Exchanged {
                batch,
                released,
                taken,
                sent,
                answer,
            }
        }
    }

    fn complete(&mut self, exchanged: Exchanged) {
        let Exchanged {
            batch,
            released,
            taken,
            sent,
            answer,
        } = exchanged;
        let took = sent.elapsed();
        let is_late = took > self.options.expiry.saturating_sub(self.options.min_validity);
        let until = sent + self.options.expiry;
        let (tokens, failed) = match answer {
            Ok(tokens) => (tokens, false),
            Err(_) => (vec![None; taken.len()], true),
        };
        if failed {
            self.owe(released, Instant::now() + self.options.expiry);
        } else {
            self.frontend.record_round_trip(took);
        }
        let mut missed = HashSet::new();
        for (((key, _), written), token) in batch.take.iter().zip(taken).zip(tokens) {
            match token {
                Some(token) if !is_late => {
                    let lease = Lease {
                        written,
                        valid_until: sent + self.options.validity(),
                        extended: sent,
                        is_extending: false,
                        token: Some(token),
                    };
                    self.leases.insert(*key, lease);
                }
                token => {
                    missed.insert(*key);
                    if failed || token.is_some() {
                        self.owe(vec![written], until);
                    }
                }
            }
        }
        self.note_validity();
        self.frontend
            .step(|table, step| table.complete(&batch, &missed, false, step));
    }

    fn owe(&mut self, written: Vec<Written>, until: Instant) {
        let room = OWED.saturating_sub(self.owed.len());
        self.owed
            .extend(written.into_iter().take(room).map(|written| (written, until)));
    }

    /// Until when every lease is valid: a process that was paused for longer has lost them before this task runs again.
    fn note_validity(&self) {
        let first = self.leases.values().map(|lease| lease.valid_until).min();
        self.frontend.set_valid_until(first);
    }

    fn lose_expired(&mut self) {
        let now = Instant::now();
        let expired = self.leases.iter().filter(|(_, lease)| lease.valid_until <= now);
        let expired: Vec<LockKey> = expired.map(|(key, _)| *key).collect();
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
                self.owe(vec![lease.written], Instant::now() + self.options.expiry);
            }
        }
        self.frontend.lose(keys);
        self.note_validity();
    }

    /// Extends what is due.
    fn extend(&mut self) -> Vec<impl Future<Output = Extended> + Send + use<>> {
        let now = Instant::now();
        if self.link.check().is_err() {
            return Vec::new();
        }
        let is_due =
            |lease: &Lease| !lease.is_extending && now.duration_since(lease.extended) >= self.options.extension;
        let mut due: Vec<(LockKey, Written)> = Vec::new();
        for (key, lease) in self.leases.iter_mut().filter(|(_, lease)| is_due(lease)) {
            lease.is_extending = true;
            due.push((*key, lease.written.clone()));
        }
        let expiry = self.options.expiry.as_millis().to_string();
        let send = |page: &[(LockKey, Written)]| {
            let link = Arc::clone(&self.link);
            let keys: Vec<LockKey> = page.iter().map(|(key, _)| *key).collect();
            let names: Vec<String> = page.iter().map(|(_, written)| written.key.clone()).collect();
            let mut arguments = vec![expiry.clone()];
            arguments.extend(page.iter().flat_map(|(_, written)| written.arguments()));
            async move {
                let sent = Instant::now();
                let answer = link.run(Script::Extend, &names, &arguments).await;
                Extended { keys, sent, answer }
            }
        };
        due.chunks(BATCH).map(send).collect()
    }

    fn complete_extension(&mut self, extended: Extended) {
        let Extended { keys, sent, answer } = extended;
        let answers = answer.unwrap_or_default();
        let mut lost = Vec::new();
        for (place, key) in keys.into_iter().enumerate() {
            let Some(lease) = self.leases.get_mut(&key) else {
                continue;
            };
            lease.is_extending = false;
            match answers.get(place) {
                Some(1) => {
                    lease.valid_until = sent + self.options.validity();
                    lease.extended = sent;
                }
                // A key that was released and taken again meanwhile has a younger lease.
                Some(_) if lease.extended <= sent => lost.push(key),
                // No answer: asked again at the next tick, until its time is over.
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
        if let Some(token) = of_grant.and_then(|tokens| tokens.into_iter().max()) {
            let _ = reply.send(Ok(FencingToken::new(token)));
            return None;
        }
        let mut names = vec![self.counter()];
        names.extend(written.iter().map(|written| written.key.clone()));
        let arguments: Vec<String> = written.iter().flat_map(Written::arguments).collect();
        let link = Arc::clone(&self.link);
        Some(async move {
            let drawn = link.run::<Option<u64>>(Script::Token, &names, &arguments).await;
            let token = drawn.and_then(|token| {
                let token = token.ok_or_else(|| Error::lost_lock("the server has another value for the lock"));
                token.map(FencingToken::new)
            });
            // Fails for a dropped future; the number is skipped.
            let _ = reply.send(token);
        })
    }
}

/// The tokens of an exchange, after locks of registrations that are gone were taken over.
async fn take_over(
    link: &RedisLink,
    holders: Option<&Holders>,
    counter: &str,
    expiry: Duration,
    taken: &[Written],
    answers: Vec<Value>,
) -> Vec<Option<u64>> {
    let mut tokens = Vec::with_capacity(answers.len());
    let mut met = Vec::new();
    for (place, answer) in answers.into_iter().enumerate() {
        tokens.push(match answer {
            Value::Int(token) => u64::try_from(token).ok(),
            Value::BulkString(value) => {
                met.extend(String::from_utf8(value).ok().map(|value| (place, value)));
                None
            }
            _ => None,
        });
    }
    let Some(holders) = holders else { return tokens };
    let candidates = met.into_iter().filter_map(|(place, value)| {
        let written = taken.get(place).filter(|written| written.mode == LockMode::Exclusive)?;
        let incarnation = holders.incarnation_of(&value)?;
        Some((place, written, value, incarnation))
    });
    let candidates: Vec<_> = candidates.collect();
    let incarnations: HashSet<i64> = candidates.iter().map(|(.., incarnation)| *incarnation).collect();
    let gone = holders.gone(incarnations).await;
    let theirs: Vec<_> = candidates.into_iter().filter(|(.., one)| gone.contains(one)).collect();
    if theirs.is_empty() {
        return tokens;
    }
    let mut keys = vec![counter.to_owned()];
    let mut arguments = vec![expiry.as_millis().to_string()];
    for (_, written, value, _) in &theirs {
        keys.push(written.key.clone());
        arguments.extend([value.clone(), written.value.clone()]);
    }
    let answered = link.run::<Vec<u64>>(Script::TakeOver, &keys, &arguments).await;
    for ((place, ..), token) in theirs.iter().zip(answered.unwrap_or_default()) {
        if let Some(slot) = tokens.get_mut(*place).filter(|_| token > 0) {
            *slot = Some(token);
        }
    }
    tokens
}

/// Starts the task of a provider.
pub(super) fn start(actor: Actor, parts: BackendParts, closing: CancellationToken) {
    let BackendParts { tokens, end, .. } = parts;
    tokio::spawn(actor.run((tokens, end), closing));
}
