//! The connections of one listener: their number, their time limits, and the order in which they are closed when there
//! are too many.
//!
//! A connection is in one of four phases. In `Head` the server waits for the rest of a request's head, in `Idle` for the
//! next request, in `Busy` the server works on a request and the limits of the body apply. `Upgraded` is a WebSocket: its
//! handler limits and ends it, and it counts here because it is an open file like the others. In the other phases, a
//! connection whose client takes no byte of what is written to it is stalled, and one whose client takes less than
//! `LEAST_TAKEN` of a response within that time, and not the rest of it, is slow. A check once a second closes each
//! connection that is past its limit. When a new connection finds no room, a few are closed for it: incomplete heads first
//! (the oldest first), then idle connections, then stalled ones. A connection in `Busy` that makes progress is never closed
//! for another one.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::open_files;

/// The upper bound of the connection limit, if the limit of open files allows it.
const MAX_CONNECTIONS: usize = 8192;
/// The lower bound of the connection limit, whatever the limit of open files.
const MIN_CONNECTIONS: usize = 16;
/// Without room, this fraction (1/64) of the connection limit is closed at once.
const SHED_DIVISOR: usize = 64;
/// A client that has taken nothing for this long may be closed for another one, in microseconds.
const STALLED_AFTER: u64 = 1_000_000;
/// What a client takes of a response within the limit of a stall, at least, in bytes.
const LEAST_TAKEN: u64 = 64 * 1024;
/// The pause between two attempts to make room.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The limits of a listener's connections.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// The number of connections that are open at the same time.
    pub max_connections: usize,
    /// The time limit of a request's head, from the start of the connection or from its first byte.
    pub head: Duration,
    /// How long a connection may stay open between two requests.
    pub idle: Duration,
    /// How long a client may take nothing of its response, and less than 64 KiB of it where that is not all.
    pub stall: Duration,
}

impl ConnectionLimits {
    /// As many connections as this process may have open files (`ulimit -n`) besides `reserved` ones, at most 8,192; 10 s for a
    /// head, 60 s between two requests, 30 s without progress.
    pub fn with_reserved_files(reserved: usize) -> Self {
        let max_connections = open_files::limit().map_or(MAX_CONNECTIONS, |files| {
            files.saturating_sub(reserved).clamp(MIN_CONNECTIONS, MAX_CONNECTIONS)
        });
        Self {
            max_connections,
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            stall: Duration::from_secs(30),
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::with_reserved_files(64)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Head,
    Idle,
    Busy,
    Upgraded,
}

/// The state of one connection. Times are in microseconds since the table was created.
#[derive(Debug)]
pub(super) struct ConnectionState {
    /// Increases with each connection, so the smaller of two is the older.
    id: u64,
    epoch: Instant,
    phase: AtomicU8,
    /// The start of the current phase.
    since: AtomicU64,
    /// Since when the client takes nothing of what is written; 0 if it does.
    blocked: AtomicU64,
    /// Since when more is to be written than the client takes at once; 0 if it has taken all, or enough since then.
    slow: AtomicU64,
    /// The bytes that it has taken since then.
    taken: AtomicU64,
    ending: AtomicBool,
    end: CancellationToken,
}

impl ConnectionState {
    fn new(id: u64, epoch: Instant) -> Self {
        let state = Self {
            id,
            epoch,
            phase: AtomicU8::new(Phase::Head as u8),
            since: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            slow: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            end: CancellationToken::new(),
        };
        state.enter(Phase::Head);
        state
    }

    /// Never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .max(1)
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    fn enter(&self, phase: Phase) {
        self.since.store(self.now(), Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn record_read(&self) {
        if self.is(Phase::Idle) {
            self.enter(Phase::Head);
        }
    }

    fn record_write(&self, bytes: usize) {
        if self.slow.load(Ordering::Relaxed) != 0 {
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            if self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= LEAST_TAKEN {
                self.record_flush();
            }
        }
        if self.blocked.swap(0, Ordering::Relaxed) != 0 && self.is(Phase::Idle) {
            self.enter(Phase::Idle);
        }
    }

    /// The client has taken all that there is, or enough of it.
    fn record_flush(&self) {
        self.slow.store(0, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
    }

    fn record_blocked_write(&self) {
        let now = self.now();
        let _ = self.slow.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        let _ = self
            .blocked
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// How long the client has taken nothing, if it is blocked.
    fn stalled_for(&self, now: u64) -> Option<u64> {
        let blocked = self.blocked.load(Ordering::Relaxed);
        (blocked != 0).then(|| now.saturating_sub(blocked))
    }

    /// How long the client has taken less than it must, if it does.
    fn slow_for(&self, now: u64) -> Option<u64> {
        let slow = self.slow.load(Ordering::Relaxed);
        (slow != 0).then(|| now.saturating_sub(slow))
    }

    /// The key by which connections are closed for another one, the smallest first; `None` if this one is not.
    fn shed_priority(&self) -> Option<(u8, u64, u64)> {
        if self.ending.load(Ordering::Relaxed) || self.is(Phase::Upgraded) {
            return None;
        }
        let (since, stalled) = (self.since.load(Ordering::Relaxed), self.stalled_for(self.now()));
        match stalled {
            Some(stalled) if stalled >= STALLED_AFTER => Some((2, self.blocked.load(Ordering::Relaxed), self.id)),
            _ if self.is(Phase::Head) => Some((0, since, self.id)),
            _ if self.is(Phase::Idle) => Some((1, since, self.id)),
            _ => None,
        }
    }

    /// Ends the connection, once; `reason` labels the metric.
    fn end(&self, reason: &'static str) {
        if !self.ending.swap(true, Ordering::Relaxed) {
            metrics::counter!("mainspring_connections_ended_total", "reason" => reason).increment(1);
            self.end.cancel();
        }
    }

    /// Returns when the connection must end. Cancellation safe.
    pub(super) async fn ended(&self) {
        self.end.cancelled().await;
    }

    /// The handler of a WebSocket continues with the stream.
    pub(super) fn upgrade(&self) {
        self.enter(Phase::Upgraded);
    }

    /// Whether the connection is marked to end and is about to be closed. One that became a WebSocket in that instant is not.
    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed) && !self.is(Phase::Upgraded)
    }

    /// Enters `Busy` until the returned guard is dropped.
    pub(super) fn begin_request(self: &Arc<Self>) -> ActiveRequest {
        self.enter(Phase::Busy);
        ActiveRequest(Arc::clone(self))
    }
}

/// A request that the server works on; dropping it returns the connection to `Idle`.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<ConnectionState>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if self.0.is(Phase::Busy) {
            self.0.enter(Phase::Idle);
        }
    }
}

/// All connections of a listener.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    limits: ConnectionLimits,
    epoch: Instant,
    connections: Mutex<OpenConnections>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next_id: u64,
    by_id: HashMap<u64, Arc<ConnectionState>>,
}

/// A connection in the table; dropping it removes it.
#[derive(Debug)]
pub(super) struct TrackedConnection {
    table: Arc<ConnectionTable>,
    pub(super) state: Arc<ConnectionState>,
}

impl Drop for TrackedConnection {
    fn drop(&mut self) {
        self.table.connections().by_id.remove(&self.state.id);
        self.table.closed.notify_one();
    }
}

impl ConnectionTable {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            epoch: Instant::now(),
            connections: Mutex::default(),
            closed: Notify::new(),
        })
    }

    fn connections(&self) -> MutexGuard<'_, OpenConnections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection.
    pub(super) fn track(self: &Arc<Self>) -> TrackedConnection {
        let mut connections = self.connections();
        let state = Arc::new(ConnectionState::new(connections.next_id, self.epoch));
        connections.next_id += 1;
        connections.by_id.insert(state.id, Arc::clone(&state));
        drop(connections);
        TrackedConnection {
            table: Arc::clone(self),
            state,
        }
    }

    /// Returns when there is room for one more connection; closes others for it. Cancellation safe: nothing is reserved.
    pub(super) async fn wait_for_room(&self) {
        while self.connections().by_id.len() >= self.limits.max_connections {
            let closed = self.closed.notified();
            self.shed();
            // A change of phase notifies nothing, so another attempt follows.
            let _ = tokio::time::timeout(RETRY_INTERVAL, closed).await;
        }
    }

    /// Ends a few connections, in the order of `shed_priority`.
    pub(super) fn shed(&self) {
        let connections = self.connections();
        let ending = connections.by_id.values().filter(|state| state.is_ending()).count();
        let count = (self.limits.max_connections / SHED_DIVISOR)
            .max(1)
            .saturating_sub(ending);
        let candidates = connections
            .by_id
            .values()
            .filter_map(|state| Some((state.shed_priority()?, state)));
        let mut candidates: Vec<_> = candidates.collect();
        candidates.sort_unstable_by_key(|&(priority, _)| priority);
        for (_, state) in candidates.into_iter().take(count) {
            state.end("crowded");
        }
    }

    /// Ends each connection that is past a limit.
    pub(super) fn close_overdue(&self) {
        for state in self.connections().by_id.values() {
            if state.is(Phase::Upgraded) {
                continue;
            }
            let now = state.now();
            let waited = Duration::from_micros(now.saturating_sub(state.since.load(Ordering::Relaxed)));
            let stalled = state.stalled_for(now).map(Duration::from_micros);
            let slow = state.slow_for(now).map(Duration::from_micros);
            if stalled.is_some_and(|stalled| stalled > self.limits.stall) {
                state.end("stalled");
            } else if slow.is_some_and(|slow| slow > self.limits.stall) {
                state.end("slow");
            } else if state.is(Phase::Head) && waited > self.limits.head {
                state.end("head");
            } else if state.is(Phase::Idle) && stalled.is_none() && waited > self.limits.idle {
                state.end("idle");
            }
        }
    }

    /// The interval between two checks of the limits.
    pub(super) fn limit_check_interval(&self) -> Duration {
        let least = self.limits.head.min(self.limits.idle).min(self.limits.stall);
        (least / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

/// The stream of a connection; it records reads and writes in the connection's state. The connection is in the table as long
/// as the stream is open, also as a WebSocket, which outlives the server's part of it.
#[derive(Debug)]
pub(super) struct TrackedStream<S> {
    pub(super) stream: S,
    pub(super) tracked: TrackedConnection,
}

impl<S> TrackedStream<S> {
    fn record(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => self.tracked.state.record_blocked_write(),
            Poll::Ready(written) => {
                let bytes = written.as_ref().copied().unwrap_or_default();
                self.tracked.state.record_write(bytes);
            }
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.tracked.state.record_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.record(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The server flushes when it has written all that it has.
        self.tracked.state.record_flush();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_files_leave_the_fewest_connections() {
        let limits = ConnectionLimits::with_reserved_files(usize::MAX);
        assert_eq!(limits.max_connections, MIN_CONNECTIONS);
        assert!((MIN_CONNECTIONS..=MAX_CONNECTIONS).contains(&ConnectionLimits::default().max_connections));
    }

    #[test]
    fn connections_are_shed_in_the_order_of_their_priority() {
        let mut table = ConnectionTable::new(ConnectionLimits {
            max_connections: 1,
            ..ConnectionLimits::default()
        });
        // So that a stall of long ago has a time.
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        Arc::get_mut(&mut table).unwrap().epoch = long_ago;
        let tracked: Vec<TrackedConnection> = (0..5).map(|_| table.track()).collect();
        let [busy, stalled, idle, head, old] = [0, 1, 2, 3, 4].map(|at: usize| &tracked[at].state);
        let _requests = [busy.begin_request(), stalled.begin_request()];
        stalled.blocked.store(1, Ordering::Relaxed);
        drop(idle.begin_request());
        old.since.store(1, Ordering::Relaxed);
        for next in [old, head, idle, stalled] {
            table.shed();
            assert!(next.ending.load(Ordering::Relaxed));
            // One at a time: a connection that ends makes room soon.
            table.shed();
            let all = tracked.iter().filter(|one| one.state.ending.load(Ordering::Relaxed));
            assert_eq!(all.count(), 1);
            next.ending.store(false, Ordering::Relaxed);
            next.enter(Phase::Busy);
            next.blocked.store(0, Ordering::Relaxed);
        }
        table.shed();
        assert!(!tracked.iter().any(|one| one.state.ending.load(Ordering::Relaxed)));
    }

    #[test]
    fn the_phase_follows_reads_and_writes() {
        let table = ConnectionTable::new(ConnectionLimits::default());
        let tracked = table.track();
        let state = &tracked.state;
        assert!(state.is(Phase::Head));
        let request = state.begin_request();
        state.record_read();
        assert!(state.is(Phase::Busy));
        drop(request);
        assert!(state.is(Phase::Idle));
        state.record_blocked_write();
        let since = state.stalled_for(state.now() + 5);
        assert!(since.is_some_and(|stalled| stalled >= 5));
        state.record_write(1);
        assert_eq!(state.stalled_for(state.now()), None);
        // It has taken a byte, and that is not enough; all or much of it is.
        assert!(state.slow_for(state.now() + 5).is_some());
        state.record_flush();
        assert_eq!(state.slow_for(state.now()), None);
        state.record_blocked_write();
        state.record_write(60 * 1024);
        assert!(state.slow_for(state.now()).is_some());
        state.record_write(4 * 1024);
        assert_eq!(state.slow_for(state.now()), None);
        state.record_read();
        assert!(state.is(Phase::Head));
        drop(tracked);
        assert!(table.connections().by_id.is_empty());
    }

    #[test]
    fn a_websocket_counts_and_is_not_closed_for_another_connection() {
        let table = ConnectionTable::new(ConnectionLimits {
            max_connections: 1,
            idle: Duration::ZERO,
            ..ConnectionLimits::default()
        });
        let websocket = table.track();
        drop(websocket.state.begin_request());
        websocket.state.upgrade();
        websocket.state.record_blocked_write();
        table.shed();
        table.close_overdue();
        assert!(!websocket.state.ending.load(Ordering::Relaxed));
        // Marked to end in the instant of its upgrade, it does not end, and another one makes room.
        websocket.state.end("crowded");
        let idle = table.track();
        drop(idle.state.begin_request());
        table.shed();
        assert!(idle.state.ending.load(Ordering::Relaxed));
        assert_eq!(table.connections().by_id.len(), 2);
    }
}
