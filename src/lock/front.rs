//! The side of a provider that its users see: the table behind its mutex, and the bell for what stands behind it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::handle::{FencingToken, LockHandle, Waiting};
use super::key::{Keying, LockKey};
use super::request::{LockRequest, Wish};
use super::stats::{Counters, LockStats};
use super::table::{Back, Batch, HeldLock, KeyView, Outbox, Peer, Said, Table, Ticket};
use crate::{Error, Result};

/// Tokens asked for at the same moment; who asks when so many do waits.
const TOKENS: usize = 64;

/// Somebody who wants a fencing token.
pub(super) type TokenRequest = oneshot::Sender<Result<FencingToken>>;

/// What the back of a provider holds: its end of each channel.
pub(super) struct Behind {
    pub(super) front: Arc<Front>,
    pub(super) tokens: mpsc::Receiver<TokenRequest>,
    /// Every handle is lost when this says so, or is dropped.
    pub(super) ended: watch::Sender<bool>,
}

pub(super) struct Front {
    table: Mutex<Table>,
    counters: Arc<Counters>,
    /// Rings when there is a batch.
    bell: Notify,
    lost: watch::Receiver<bool>,
    tokens: mpsc::Sender<TokenRequest>,
    space: String,
    keying: Keying,
    budget: usize,
}

impl Front {
    /// Names are mixed with `space`.
    pub(super) fn open(back: Back, space: &str, keying: Keying) -> Behind {
        let counters = Arc::new(Counters::default());
        let (sender, tokens) = mpsc::channel(TOKENS);
        let (ended, lost) = watch::channel(false);
        let front = Arc::new(Self {
            table: Mutex::new(Table::new(back, Arc::clone(&counters), rand::make_rng())),
            counters,
            bell: Notify::new(),
            lost,
            tokens: sender,
            space: space.to_owned(),
            keying,
            budget: back.budget().unwrap_or(usize::MAX),
        });
        Behind { front, tokens, ended }
    }

    /// Waits for as long as it takes, up to the timeout.
    pub(super) async fn acquire(self: &Arc<Self>, request: LockRequest, timeout: Duration) -> Result<LockHandle> {
        let wish = self.resolve(request)?;
        let name = wish.name.clone();
        let late = || {
            let name = name.text();
            Error::unavailable(
                "lock-timeout",
                format!("the lock {name:?} could not be had within {timeout:?}; somebody else holds it"),
            )
        };
        match tokio::time::timeout(timeout, self.ask(wish, true)).await {
            Ok(answer) => answer?.ok_or_else(late),
            Err(_) => Err(late()),
        }
    }

    pub(super) async fn try_acquire(self: &Arc<Self>, request: LockRequest) -> Result<Option<LockHandle>> {
        let wish = self.resolve(request)?;
        self.ask(wish, false).await
    }

    /// What names are mixed with.
    pub(super) fn space(&self) -> &str {
        &self.space
    }

    fn resolve(&self, request: LockRequest) -> Result<Wish> {
        let wish = request.resolve(&self.space, self.keying)?;
        let at_once = if wish.any { 1 } else { wish.keys.as_slice().len() };
        if at_once > self.budget {
            return Err(Error::invalid(
                "invalid-lock-request",
                format!(
                    "{at_once} locks at once are more than the {} that this node may have",
                    self.budget
                ),
            ));
        }
        Ok(wish)
    }

    /// The question is asked now, not when the future is first polled.
    pub(super) fn ask(self: &Arc<Self>, wish: Wish, waits: bool) -> Waiting {
        let (reply, answer) = oneshot::channel();
        let ticket = self.enter(|table, now, outbox| table.begin(wish, waits, reply, now, outbox));
        Waiting::new(self, ticket, answer)
    }

    /// Runs one step of the table, then, unlocked, tells whom it concerns.
    fn enter<T>(self: &Arc<Self>, step: impl FnOnce(&mut Table, Instant, &mut Outbox) -> T) -> T {
        let mut outbox = Outbox::default();
        let (result, ring) = {
            let mut table = self.table();
            let result = step(&mut table, Instant::now(), &mut outbox);
            (result, table.rings())
        };
        if ring {
            self.bell.notify_one();
        }
        for (reply, ticket) in outbox.granted {
            // Nobody listens any more: the handle is dropped here, and gives back.
            drop(reply.send(Some(LockHandle::new(self, ticket))));
        }
        for reply in outbox.refused {
            drop(reply.send(None));
        }
        result
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn release(self: &Arc<Self>, ticket: Ticket) {
        self.enter(|table, now, outbox| table.release(ticket, now, outbox));
    }

    pub(super) fn abandon(self: &Arc<Self>, ticket: Ticket) {
        self.enter(|table, now, outbox| table.abandon(ticket, now, outbox));
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
        let lost = || Error::lost_lock("the connection that held the lock ended");
        if self.is_lost() {
            return Err(lost());
        }
        let (reply, answer) = oneshot::channel();
        self.tokens.send(reply).await.map_err(|_| lost())?;
        answer.await.map_err(|_| lost())?
    }

    /// Cancellation safe: a ring that nobody heard is kept.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    pub(super) fn keep(&self, key: LockKey) {
        self.table().keep(key);
    }

    pub(super) fn batch(&self, most: usize) -> Option<Batch> {
        let mut table = self.table();
        table.has_batch().then(|| table.batch(most))
    }

    pub(super) fn answer(self: &Arc<Self>, batch: &Batch, missed: &HashSet<LockKey>, full: bool) {
        self.enter(|table, now, outbox| table.answer(batch, missed, full, now, outbox));
    }

    /// Another process, and what it said.
    pub(super) fn hear(self: &Arc<Self>, from: Peer, said: &[Said]) {
        self.enter(|table, now, outbox| {
            for said in said {
                table.hear(from, said, now, outbox);
            }
        });
    }

    /// How long a question to what stands behind took.
    pub(super) fn pace(&self, took: Duration) {
        self.table().pace(took);
    }

    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.table().next_retry()
    }

    pub(super) fn retry(self: &Arc<Self>) {
        self.enter(|table, now, outbox| table.retry(now, outbox));
    }

    /// Asks again for all that others had, due or not.
    pub(super) fn retry_all(self: &Arc<Self>) {
        self.enter(|table, now, outbox| table.retry_all(now, outbox));
    }

    /// Ends everything. Those who wait are told outside the mutex.
    pub(super) fn end(&self) {
        let waiting = self.table().end();
        drop(waiting);
    }
}
