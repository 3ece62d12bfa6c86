//! The side of a provider that its callers use: the table behind its mutex, and the signal that wakes the backend.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::key::{KeyFunction, LockKey};
#[cfg(feature = "redis")]
use super::lease_time::LeaseTime;
use super::request::{KeyRequest, LockRequest};
use super::stats::{Counters, LockStats};
#[cfg(feature = "redis")]
use super::table::NamedKey;
use super::table::{Backend, Batch, HeldLock, KeyView, LockMessage, Peer, Table, TableResults, Ticket};
use crate::{Error, Result};

/// The most tokens that are asked for at the same moment. Further callers wait.
const TOKENS: usize = 64;

/// A number that grows with each holder of a lock. A resource that remembers the highest token it has seen, and refuses a
/// smaller one, stops a former holder that was paused while its lock was released; the lock alone cannot do that. Tokens of
/// different names and providers are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub(super) u64);

impl FencingToken {
    /// The token with this number, which a provider has drawn.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, for a column or a header.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fencing token is asked for.
pub(super) struct TokenRequest {
    /// The keys of the handle that it is for.
    #[cfg_attr(
        not(feature = "redis"),
        allow(dead_code, reason = "other backends hold all keys or none")
    )]
    pub(super) keys: Vec<LockKey>,
    pub(super) reply: oneshot::Sender<Result<FencingToken>>,
}

/// What the backend of a provider needs.
pub(super) struct BackendParts {
    pub(super) table: Arc<SharedTable>,
    pub(super) tokens: mpsc::Receiver<TokenRequest>,
    pub(super) end: EndGuard,
}

/// Ends the provider when it is dropped: every handle is lost, and every pending request fails.
pub(super) struct EndGuard {
    table: Arc<SharedTable>,
    lost: watch::Sender<bool>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.lost.send_replace(true);
        self.table.end();
    }
}

pub(super) struct SharedTable {
    table: Mutex<Table>,
    counters: Arc<Counters>,
    /// Notified when the backend has a batch, or another time to retry.
    backend: Notify,
    lost: watch::Receiver<bool>,
    /// The handles whose leases have ended, each until it is dropped.
    ended_leases: watch::Sender<HashSet<Ticket>>,
    /// Until when every lease is valid, in nanoseconds of the clock of leases.
    #[cfg(feature = "redis")]
    valid_until: std::sync::atomic::AtomicU64,
    tokens: mpsc::Sender<TokenRequest>,
    namespace: String,
    key_function: KeyFunction,
    budget: usize,
    keeps_names: bool,
}

impl SharedTable {
    /// Names are hashed together with `namespace`.
    pub(super) fn open(backend: Backend, namespace: &str, key_function: KeyFunction) -> BackendParts {
        let counters = Arc::new(Counters::default());
        let (sender, tokens) = mpsc::channel(TOKENS);
        let (lost_sender, lost) = watch::channel(false);
        let table = Arc::new(Self {
            table: Mutex::new(Table::new(backend, Arc::clone(&counters), rand::make_rng())),
            counters,
            backend: Notify::new(),
            lost,
            ended_leases: watch::Sender::default(),
            #[cfg(feature = "redis")]
            valid_until: u64::MAX.into(),
            tokens: sender,
            namespace: namespace.to_owned(),
            key_function,
            budget: backend.budget().unwrap_or(usize::MAX),
            keeps_names: backend.keeps_names(),
        });
        let end = EndGuard {
            table: Arc::clone(&table),
            lost: lost_sender,
        };
        BackendParts { table, tokens, end }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn resolve(&self, request: LockRequest) -> Result<KeyRequest> {
        let request = request.resolve(&self.namespace, self.key_function, self.keeps_names)?;
        let at_once = if request.any { 1 } else { request.keys.as_slice().len() };
        if at_once > self.budget {
            return Err(Error::invalid(
                "invalid-lock-request",
                format!(
                    "{at_once} locks at once are more than the {} that this node may hold",
                    self.budget
                ),
            ));
        }
        Ok(request)
    }

    /// Adds a request. The receiver gets whether it was granted, and fails when the provider ends; no ticket: it has.
    pub(super) fn submit(&self, request: KeyRequest, waits: bool) -> (Option<Ticket>, oneshot::Receiver<bool>) {
        let (reply, answer) = oneshot::channel();
        let ticket = self.step(|table, results| table.submit(request, waits, reply, results));
        (ticket, answer)
    }

    /// Runs one step of the table, then, unlocked, sends its results.
    pub(super) fn step<T>(&self, run: impl FnOnce(&mut Table, &mut TableResults) -> T) -> T {
        let (result, results, wake_backend) = {
            let mut table = self.table();
            let mut results = TableResults::at(Instant::now());
            let result = run(&mut table, &mut results);
            (result, results, table.must_wake_backend())
        };
        if wake_backend {
            self.backend.notify_one();
        }
        // A send fails for a dropped future, which abandons its ticket.
        for (reply, _) in results.granted {
            let _ = reply.send(true);
        }
        for reply in results.refused {
            let _ = reply.send(false);
        }
        result
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.lost.borrow() || self.lost.has_changed().is_err()
    }

    pub(super) fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    /// Whether this handle was lost, alone or with all others.
    pub(super) fn is_lease_lost(&self, ticket: Ticket) -> bool {
        #[cfg(feature = "redis")]
        if self.is_any_lease_over() {
            return true;
        }
        self.is_lost() || self.ended_leases.borrow().contains(&ticket)
    }

    /// Whether the time of a lease that the backend has not ended yet is over, because the process was paused or the machine
    /// suspended. All leases then count as lost until the backend has ended it.
    #[cfg(feature = "redis")]
    fn is_any_lease_over(&self) -> bool {
        let until = self.valid_until.load(std::sync::atomic::Ordering::Relaxed);
        until != u64::MAX && LeaseTime::now().nanos() >= until
    }

    /// Until when every lease is valid; `None` if there are no leases.
    #[cfg(feature = "redis")]
    pub(super) fn set_valid_until(&self, until: Option<LeaseTime>) {
        let until = until.map_or(u64::MAX, LeaseTime::nanos);
        self.valid_until.store(until, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns when this handle is lost.
    pub(super) fn lease_lost(&self, ticket: Ticket) -> impl Future<Output = ()> + Send + 'static {
        let (mut lost, mut leases) = (self.lost.clone(), self.ended_leases.subscribe());
        async move {
            // A sender that is gone means that its task has ended: the lock is lost, too.
            let all = async { drop(lost.wait_for(|lost| *lost).await) };
            let one = async {
                if leases.wait_for(|ended| ended.contains(&ticket)).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            futures_util::future::select(std::pin::pin!(all), std::pin::pin!(one)).await;
        }
    }

    /// The leases of these keys have ended: so have the handles that own them.
    pub(super) fn lose(&self, keys: &[LockKey]) {
        let tickets = self.step(|table, results| table.lose(keys, results));
        if !tickets.is_empty() {
            self.ended_leases.send_modify(|ended| ended.extend(tickets));
        }
    }

    /// The handle was dropped.
    pub(super) fn release(&self, ticket: Ticket) {
        self.step(|table, results| table.release(ticket, results));
        if !self.ended_leases.borrow().is_empty() {
            self.ended_leases.send_if_modified(|ended| {
                ended.remove(&ticket);
                false
            });
        }
    }

    pub(super) fn stats(&self) -> LockStats {
        self.counters.snapshot()
    }

    pub(super) fn view(&self) -> Vec<KeyView> {
        self.table().view(Instant::now())
    }

    pub(super) fn held(&self) -> Vec<HeldLock> {
        self.table().held(Instant::now())
    }

    pub(super) async fn draw_token(&self, ticket: Ticket) -> Result<FencingToken> {
        let lost = || Error::lost_lock("the connection or the lease that held the lock has ended");
        if self.is_lease_lost(ticket) {
            return Err(lost());
        }
        let keys = self.table().keys_of(ticket);
        let (reply, answer) = oneshot::channel();
        self.tokens
            .send(TokenRequest { keys, reply })
            .await
            .map_err(|_| lost())?;
        answer.await.map_err(|_| lost())?
    }

    /// Waits until the backend has a batch. Cancellation safe: a notification is kept until it is received.
    pub(super) async fn batch_ready(&self) {
        self.backend.notified().await;
    }

    pub(super) fn keep(&self, key: LockKey) {
        self.table().keep(key);
    }

    pub(super) fn batch(&self, most: usize) -> Option<Batch> {
        let mut table = self.table();
        table.has_batch().then(|| table.batch(most))
    }

    /// The same with the names of what is taken, in its order.
    #[cfg(feature = "redis")]
    pub(super) fn named_batch(&self, most: usize) -> Option<(Batch, Vec<NamedKey>)> {
        let mut table = self.table();
        table.has_batch().then(|| {
            let batch = table.batch(most);
            let names = table.names_of(&batch);
            (batch, names)
        })
    }

    /// A lock of this name was released by another process.
    #[cfg(feature = "redis")]
    pub(super) fn retry_name(&self, name: &str) {
        let key = (self.key_function)(&[&self.namespace, "name", name]);
        self.step(|table, results| table.retry_now(key, results));
    }

    /// Applies the messages of another process.
    pub(super) fn receive(&self, from: Peer, messages: &[LockMessage]) {
        self.step(|table, results| {
            for message in messages {
                table.receive(from, message, results);
            }
        });
    }

    pub(super) fn record_round_trip(&self, took: Duration) {
        self.table().record_round_trip(took);
    }

    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.table().next_retry()
    }

    /// Ends the table. The replies are dropped outside the mutex.
    fn end(&self) {
        let waiting = self.table().end();
        drop(waiting);
    }
}
