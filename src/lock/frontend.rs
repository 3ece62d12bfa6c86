//! The side of a provider that its callers use: the table behind its mutex, and what wakes the backend.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::key::{KeyFunction, LockKey};
use super::request::{KeyRequest, LockRequest};
use super::stats::{Counters, LockStats};
use super::table::{Backend, Batch, HeldLock, KeyView, LockMessage, Peer, Step, Table, Ticket};
use crate::{Error, Result};

/// The most tokens that are asked for at the same moment. Further callers wait.
const TOKENS: usize = 64;

/// A number that grows with each holder of a lock. A resource that remembers the highest one it has seen, and refuses a smaller
/// one, stops a former holder that was paused while its lock was released, which the lock alone cannot. Tokens of different
/// names and providers are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub(super) u64);

impl FencingToken {
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

/// Receives a fencing token.
pub(super) type TokenRequest = oneshot::Sender<Result<FencingToken>>;

/// What the backend of a provider needs.
pub(super) struct BackendParts {
    pub(super) frontend: Arc<Frontend>,
    pub(super) tokens: mpsc::Receiver<TokenRequest>,
    pub(super) end: EndGuard,
}

/// Ends the provider when it is dropped: every handle is lost, and every pending request fails.
pub(super) struct EndGuard {
    frontend: Arc<Frontend>,
    lost: watch::Sender<bool>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.lost.send_replace(true);
        self.frontend.end();
    }
}

pub(super) struct Frontend {
    table: Mutex<Table>,
    counters: Arc<Counters>,
    /// Notified when the backend has a batch, or another time to retry.
    backend: Notify,
    lost: watch::Receiver<bool>,
    tokens: mpsc::Sender<TokenRequest>,
    namespace: String,
    key_function: KeyFunction,
    budget: usize,
}

impl Frontend {
    /// Names are hashed together with `namespace`.
    pub(super) fn open(backend: Backend, namespace: &str, key_function: KeyFunction) -> BackendParts {
        let counters = Arc::new(Counters::default());
        let (sender, tokens) = mpsc::channel(TOKENS);
        let (lost_sender, lost) = watch::channel(false);
        let frontend = Arc::new(Self {
            table: Mutex::new(Table::new(backend, Arc::clone(&counters), rand::make_rng())),
            counters,
            backend: Notify::new(),
            lost,
            tokens: sender,
            namespace: namespace.to_owned(),
            key_function,
            budget: backend.budget().unwrap_or(usize::MAX),
        });
        let end = EndGuard {
            frontend: Arc::clone(&frontend),
            lost: lost_sender,
        };
        BackendParts { frontend, tokens, end }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn resolve(&self, request: LockRequest) -> Result<KeyRequest> {
        let request = request.resolve(&self.namespace, self.key_function)?;
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
        let ticket = self.step(|table, step| table.submit(request, waits, reply, step));
        (ticket, answer)
    }

    /// Runs one step of the table, then, unlocked, sends its results.
    pub(super) fn step<T>(&self, run: impl FnOnce(&mut Table, &mut Step) -> T) -> T {
        let (result, step, wake_backend) = {
            let mut table = self.table();
            let mut step = Step::at(Instant::now());
            let result = run(&mut table, &mut step);
            (result, step, table.must_wake_backend())
        };
        if wake_backend {
            self.backend.notify_one();
        }
        // A send fails for a dropped future, which abandons its ticket.
        for (reply, _) in step.granted {
            let _ = reply.send(true);
        }
        for reply in step.refused {
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

    pub(super) fn stats(&self) -> LockStats {
        self.counters.snapshot()
    }

    pub(super) fn view(&self) -> Vec<KeyView> {
        self.table().view(Instant::now())
    }

    pub(super) fn held(&self) -> Vec<HeldLock> {
        self.table().held(Instant::now())
    }

    pub(super) async fn draw_token(&self) -> Result<FencingToken> {
        let lost = || Error::lost_lock("the connection that held the lock was closed");
        if self.is_lost() {
            return Err(lost());
        }
        let (reply, answer) = oneshot::channel();
        self.tokens.send(reply).await.map_err(|_| lost())?;
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

    /// Applies the messages of another process.
    pub(super) fn receive(&self, from: Peer, messages: &[LockMessage]) {
        self.step(|table, step| {
            for message in messages {
                table.receive(from, message, step);
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
