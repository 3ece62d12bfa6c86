//! A lock provider, a cache signal and a wake transport of a program's own, as another crate writes them: with public items
//! alone. They connect the engines of one process through a board in memory; a server takes the place of the board where
//! processes are to be connected.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example providers`
//!
//! A provider shows in a test that it does all that an engine expects, with the feature `testing`:
//! `mainspring::testing::conformance::lock::conforms(async || Members(Board::default())).await`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use mainspring::lock::{FencingToken, HeldLock, LockGrant, LockHandle, LockMode, LockProvider, LockRequest, LockStats};
use mainspring::runtime::StartRequest;
use mainspring::signal::{CacheNotification, CacheSignal, CacheSubscription, DefinitionChange};
use mainspring::wake::{WakeNotification, WakeSubscription, WakeTransport};
use mainspring::{Engine, Error, Result, definition::WorkflowDefinition};
use tokio::sync::{broadcast, oneshot};

/// Who holds which locks, and who waits. Clones are members that see each other's locks.
#[derive(Clone)]
pub(crate) struct Board(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    freed: broadcast::Sender<Arc<str>>,
}

#[derive(Default)]
struct State {
    last: u64,
    held: Vec<Entry>,
    waiting: VecDeque<(Entry, oneshot::Sender<LockHandle>)>,
    stats: LockStats,
}

/// A request that is held or waits.
#[derive(Clone)]
struct Entry {
    number: u64,
    request: LockRequest,
    since: Instant,
}

impl Default for Board {
    fn default() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            freed: broadcast::channel(1024).0,
        }))
    }
}

impl Entry {
    fn mode(&self) -> LockMode {
        let modes = self.request.names().map(|(_, mode)| mode);
        modes.max().unwrap_or(LockMode::Exclusive)
    }

    fn text(&self) -> String {
        let names: Vec<&str> = self.request.names().map(|(name, _)| name).collect();
        names.join(", ")
    }

    /// Whether it keeps another request from this name. A semaphore and a lock of one name are independent.
    fn blocks(&self, name: &str, mode: LockMode) -> bool {
        let mut names = self.request.names();
        let blocks = |(own, held)| own == name && (held == LockMode::Exclusive || mode == LockMode::Exclusive);
        self.request.slots().is_none() && names.any(blocks)
    }

    /// Whether both name a lock that they cannot hold together.
    fn excludes(&self, other: &Self) -> bool {
        self.request.slots().is_none() && self.request.names().any(|(name, mode)| other.blocks(name, mode))
    }
}

impl State {
    /// Whether a request may be granted now. One that came earlier and waits keeps it from the names that it waits for itself: it
    /// holds none of the others meanwhile.
    fn admits(&self, entry: &Entry) -> bool {
        let waiting = || self.waiting.iter().map(|(earlier, _)| earlier);
        if let Some(slots) = entry.request.slots() {
            let same = |other: &&Entry| other.request.slots().is_some() && other.text() == entry.text();
            return self.held.iter().chain(waiting()).filter(same).count() < slots;
        }
        let is_held = |name: &str, mode| self.held.iter().any(|held| held.blocks(name, mode));
        let is_before = |earlier: &Entry| {
            let mut names = earlier.request.names();
            names.any(|(name, mode)| entry.blocks(name, mode) && is_held(name, mode))
        };
        !self.held.iter().any(|held| held.excludes(entry)) && !waiting().any(is_before)
    }
}

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants or queues a request; none where it would have to wait and does not.
    fn submit(&self, request: LockRequest, waits: bool) -> Result<Option<(u64, oneshot::Receiver<LockHandle>)>> {
        request.validate()?;
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        state.last += 1;
        let entry = Entry {
            number: state.last,
            request,
            since: Instant::now(),
        };
        let (number, admitted) = (entry.number, state.admits(&entry));
        if admitted {
            let handle = self.grant(&mut state, entry);
            drop(state);
            // Received by the caller below; a dropped caller releases it.
            let _ = reply.send(handle);
        } else if waits {
            state.stats.contended += 1;
            state.waiting.push_back((entry, reply));
        } else {
            state.stats.refused += 1;
            return Ok(None);
        }
        Ok(Some((number, answer)))
    }

    fn grant(&self, state: &mut State, mut entry: Entry) -> LockHandle {
        state.stats.granted += 1;
        state.stats.acquire.count += 1;
        entry.since = Instant::now();
        let number = entry.number;
        state.held.push(entry);
        LockHandle::new(Grant {
            board: self.clone(),
            number,
        })
    }

    /// Takes a request off the board, held or waiting, and grants what it kept waiting. Whether it was held.
    fn remove(&self, number: u64) -> bool {
        let mut granted = Vec::new();
        let mut state = self.state();
        let found = state.held.iter().position(|entry| entry.number == number);
        let released = found.map(|place| state.held.swap_remove(place));
        if released.is_some() {
            state.stats.hold.count += 1;
        } else {
            state.waiting.retain(|(entry, _)| entry.number != number);
        }
        for (entry, reply) in std::mem::take(&mut state.waiting) {
            if state.admits(&entry) {
                let handle = self.grant(&mut state, entry);
                granted.push((reply, handle));
            } else {
                state.waiting.push_back((entry, reply));
            }
        }
        drop(state);
        for (name, _) in released.iter().flat_map(|entry| entry.request.names()) {
            let _ = self.0.freed.send(name.into());
        }
        // A handle that was not received releases its locks here, outside the mutex.
        for (reply, handle) in granted {
            let _ = reply.send(handle);
        }
        released.is_some()
    }
}

/// A grant. Locks in memory are never lost: the methods say so.
struct Grant {
    board: Board,
    number: u64,
}

impl LockGrant for Grant {
    fn is_lost(&self) -> bool {
        false
    }

    fn lost(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn fencing_token(&self) -> BoxFuture<'_, Result<FencingToken>> {
        // One counter for all names, so that what is drawn later is greater.
        let mut state = self.board.state();
        state.last += 1;
        let token = FencingToken::new(state.last);
        Box::pin(std::future::ready(Ok(token)))
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.board.remove(self.number);
    }
}

/// Takes a request off the queue if its caller drops the future.
struct Waiting<'a>(&'a Board, u64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        let waits = state.waiting.iter().any(|(entry, _)| entry.number == self.1);
        if waits {
            state.stats.abandoned += 1;
            drop(state);
            self.0.remove(self.1);
        }
    }
}

impl LockProvider for Board {
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
        Box::pin(async move {
            let timed_out = || {
                let message = format!("the lock was not granted within {timeout:?}");
                Error::unavailable("lock-timeout", message)
            };
            let Some((number, answer)) = self.submit(request, true)? else {
                return Err(timed_out());
            };
            let _waiting = Waiting(self, number);
            match tokio::time::timeout(timeout, answer).await {
                Ok(Ok(handle)) => Ok(handle),
                Ok(Err(_)) => Err(Error::lost_lock("the board has ended")),
                Err(_) => Err(timed_out()),
            }
        })
    }

    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
        Box::pin(async move {
            match self.submit(request, false)? {
                Some((_, answer)) => Ok(answer.await.ok()),
                None => Ok(None),
            }
        })
    }

    fn freed(&self) -> BoxStream<'static, Arc<str>> {
        Box::pin(received(self.0.freed.subscribe()).filter_map(std::future::ready))
    }

    fn stats(&self) -> LockStats {
        self.state().stats
    }

    fn held(&self) -> Vec<HeldLock> {
        let state = self.state();
        let each = state.held.iter().map(|entry| {
            let waiters = state.waiting.iter().filter(|(waiting, _)| waiting.excludes(entry));
            HeldLock::new(entry.text(), entry.mode(), entry.since.elapsed(), waiters.count())
        });
        each.collect()
    }
}

/// What a queue receives; none for what it has lost.
fn received<T: Clone + Send + 'static>(queue: broadcast::Receiver<T>) -> impl Stream<Item = Option<T>> + Send {
    stream::unfold(queue, |mut queue| async {
        match queue.recv().await {
            Ok(message) => Some((Some(message), queue)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some((None, queue)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    })
}

/// A cache signal: each clone is a member of one cluster, and receives what it sends itself, too.
#[derive(Clone)]
pub(crate) struct BoardSignal(broadcast::Sender<CacheNotification>);

impl Default for BoardSignal {
    fn default() -> Self {
        Self(broadcast::channel(1024).0)
    }
}

impl CacheSignal for BoardSignal {
    fn notify(&self, change: DefinitionChange) {
        let _ = self.0.send(CacheNotification::Changed(change));
    }

    fn subscribe(&self) -> CacheSubscription {
        let received = received(self.0.subscribe());
        CacheSubscription::new(received.map(|received| received.unwrap_or(CacheNotification::Invalidate)))
    }
}

/// A message with the number of its sender.
type Sent = (u64, Arc<[WakeNotification]>);

/// A wake transport, of which each [`member`](Self::member) receives what the others send.
pub(crate) struct BoardWake {
    sender: broadcast::Sender<Sent>,
    members: Arc<AtomicU64>,
    own: u64,
}

impl Default for BoardWake {
    fn default() -> Self {
        Self {
            sender: broadcast::channel(1024).0,
            members: Arc::default(),
            own: 0,
        }
    }
}

impl BoardWake {
    /// A further member.
    pub(crate) fn member(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            members: Arc::clone(&self.members),
            own: self.members.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

impl WakeTransport for BoardWake {
    fn notify(&self, notifications: Vec<WakeNotification>) {
        let _ = self.sender.send((self.own, notifications.into()));
    }

    fn subscribe(&self) -> WakeSubscription {
        let own = self.own;
        WakeSubscription::new(received(self.sender.subscribe()).filter_map(move |received| {
            let (from, notifications) = received.unwrap_or_else(|| (0, [WakeNotification::Poll].into()));
            std::future::ready((from != own).then_some(notifications))
        }))
    }
}

/// Runs a workflow on two engines that are connected by these alone; returns its output.
pub(crate) async fn run(url: &str) -> Result<serde_json::Value> {
    let (locks, signal, wake) = (Board::default(), BoardSignal::default(), BoardWake::default());
    let engine = |workers| {
        let builder = Engine::builder(url).schema("mainspring_providers").workers(workers);
        let builder = builder.locks(locks.clone()).signal(signal.clone()).wake(wake.member());
        builder.start()
    };
    let (accepts, runs) = (engine(0).await?, engine(8).await?);
    let definition = br#"{"definitionId": "hello", "outputs": [{"name": "Text", "type": "String"}],
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Delay", "id": "delay", "timeSpan": "00:00:00.05"},
        {"type": "Elsa.SetOutput", "id": "set", "outputName": "Text", "outputValue": "hello"}]}}"#;
    accepts.save(WorkflowDefinition::from_json(definition)?, true).await?;
    let start = StartRequest {
        definition_id: "hello".into(),
        ..StartRequest::default()
    };
    let id = accepts.execute(start).await?.instance_id;
    let output = loop {
        let detail = accepts.instance(&id).await?;
        if detail.summary.sub_status == "Finished" {
            break detail.workflow_state.get("output").cloned().unwrap_or_default();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    accepts.shutdown().await;
    runs.shutdown().await;
    Ok(output)
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    println!("{}", run(&url).await?);
    Ok(())
}
