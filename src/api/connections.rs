//! The connections of one listener: how many there may be, how long each may keep the server waiting, and which of them
//! ends first when there are too many.
//!
//! A connection is in one of three phases. In `Head` the server waits for the rest of a request's head, in `Idle` for the
//! next request, in `Busy` the server works on one, and bounds of its own hold for the body. Whatever the phase, a client that
//! takes nothing of what is written to it is stalled. One sweep a second ends what is past its time; a connection that comes
//! when there is no room ends those that are worth the least: heads that are not complete, the oldest first, then the idle
//! ones, then the stalled ones. One that the server works on is never ended for another.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Connections that are open at the same time, where the limit of open files allows so many.
const MOST: usize = 8192;
/// And so many in any case.
const LEAST: usize = 16;
/// When there is no room, so many are ended at once: a sixty-fourth of all.
const SHARE: usize = 64;
/// A client that took nothing for so long may be ended for another, in microseconds.
const SLOW: u64 = 1_000_000;
/// The pause between two attempts to find room.
const RETRY: Duration = Duration::from_millis(100);

/// What the connections of a listener may cost.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// Connections that are open at the same time.
    pub most: usize,
    /// How long the head of a request may take, from the beginning of the connection or from its first byte.
    pub head: Duration,
    /// How long a connection may stay open between two requests.
    pub idle: Duration,
    /// How long a client may take nothing of its answer.
    pub stall: Duration,
}

impl ConnectionLimits {
    /// As many connections as this process may have open files (`ulimit -n`) beside `others`, at most 8,192; 10 s for a
    /// head, 60 s between two requests, 30 s without progress.
    pub fn beside(others: usize) -> Self {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let most = open_files(&limits).map_or(MOST, |files| files.saturating_sub(others).clamp(LEAST, MOST));
        Self {
            most,
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            stall: Duration::from_secs(30),
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::beside(64)
    }
}

/// How many files a process may have open, of what `/proc/self/limits` says; none if it is not bounded.
fn open_files(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Head,
    Idle,
    Busy,
}

/// What the server knows of one connection. The times are microseconds since the table was made.
#[derive(Debug)]
pub(super) struct Link {
    /// Counts up: which of two came first.
    id: u64,
    began: Instant,
    phase: AtomicU8,
    /// When this phase began.
    since: AtomicU64,
    /// Since when the client takes nothing of what is written; 0: it does.
    blocked: AtomicU64,
    ending: AtomicBool,
    end: CancellationToken,
}

impl Link {
    fn new(id: u64, began: Instant) -> Self {
        let link = Self {
            id,
            began,
            phase: AtomicU8::new(Phase::Head as u8),
            since: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            end: CancellationToken::new(),
        };
        link.enter(Phase::Head);
        link
    }

    /// Never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros())
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

    fn received(&self) {
        if self.is(Phase::Idle) {
            self.enter(Phase::Head);
        }
    }

    fn sent(&self) {
        if self.blocked.swap(0, Ordering::Relaxed) != 0 && self.is(Phase::Idle) {
            self.enter(Phase::Idle);
        }
    }

    fn cannot_send(&self) {
        let now = self.now();
        let _ = self
            .blocked
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// For how long the client takes nothing.
    fn stalled_for(&self, now: u64) -> Option<u64> {
        let blocked = self.blocked.load(Ordering::Relaxed);
        (blocked != 0).then(|| now.saturating_sub(blocked))
    }

    /// What the connection is worth, the least first, and since when it is so; none if it is not ended for another.
    fn rank(&self) -> Option<(u8, u64, u64)> {
        if self.ending.load(Ordering::Relaxed) {
            return None;
        }
        let (since, stalled) = (self.since.load(Ordering::Relaxed), self.stalled_for(self.now()));
        match stalled {
            Some(stalled) if stalled >= SLOW => Some((2, self.blocked.load(Ordering::Relaxed), self.id)),
            _ if self.is(Phase::Head) => Some((0, since, self.id)),
            _ if self.is(Phase::Idle) => Some((1, since, self.id)),
            _ => None,
        }
    }

    /// Ends the connection, once; `why` is what the metric counts it by.
    fn end(&self, why: &'static str) {
        if !self.ending.swap(true, Ordering::Relaxed) {
            metrics::counter!("mainspring_connections_ended_total", "why" => why).increment(1);
            self.end.cancel();
        }
    }

    /// Returns when the connection is to end. Cancellation safe.
    pub(super) async fn ended(&self) {
        self.end.cancelled().await;
    }

    /// The server works on a request, until the turn is dropped.
    pub(super) fn turn(self: &Arc<Self>) -> Turn {
        self.enter(Phase::Busy);
        Turn(Arc::clone(self))
    }
}

/// A request that the server works on.
#[derive(Debug)]
pub(super) struct Turn(Arc<Link>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

/// All connections of a listener.
#[derive(Debug)]
pub(super) struct Table {
    limits: ConnectionLimits,
    began: Instant,
    links: Mutex<Links>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Links {
    next: u64,
    open: HashMap<u64, Arc<Link>>,
}

/// A connection in the table, until it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    table: Arc<Table>,
    pub(super) link: Arc<Link>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.table.links().open.remove(&self.link.id);
        self.table.left.notify_one();
    }
}

impl Table {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            began: Instant::now(),
            links: Mutex::default(),
            left: Notify::new(),
        })
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(self: &Arc<Self>) -> Entry {
        let mut links = self.links();
        let link = Arc::new(Link::new(links.next, self.began));
        links.next += 1;
        links.open.insert(link.id, Arc::clone(&link));
        drop(links);
        Entry {
            table: Arc::clone(self),
            link,
        }
    }

    /// Returns when one more connection may come; ends others for it. Cancellation safe: nothing is reserved.
    pub(super) async fn room(&self) {
        while self.links().open.len() >= self.limits.most {
            let left = self.left.notified();
            self.shed();
            // A phase that changes tells nothing.
            let _ = tokio::time::timeout(RETRY, left).await;
        }
    }

    /// Ends a few connections, those that are worth the least.
    pub(super) fn shed(&self) {
        let links = self.links();
        let ending = links
            .open
            .values()
            .filter(|link| link.ending.load(Ordering::Relaxed))
            .count();
        let wanted = (self.limits.most / SHARE).max(1).saturating_sub(ending);
        let ranked = links.open.values().filter_map(|link| Some((link.rank()?, link)));
        let mut worst: Vec<_> = ranked.collect();
        worst.sort_unstable_by_key(|&(rank, _)| rank);
        for (_, link) in worst.into_iter().take(wanted) {
            link.end("crowded");
        }
    }

    /// Ends what is past its time.
    pub(super) fn sweep(&self) {
        for link in self.links().open.values() {
            let now = link.now();
            let waited = Duration::from_micros(now.saturating_sub(link.since.load(Ordering::Relaxed)));
            let stalled = link.stalled_for(now).map(Duration::from_micros);
            if stalled.is_some_and(|stalled| stalled > self.limits.stall) {
                link.end("stalled");
            } else if link.is(Phase::Head) && waited > self.limits.head {
                link.end("head");
            } else if link.is(Phase::Idle) && stalled.is_none() && waited > self.limits.idle {
                link.end("idle");
            }
        }
    }

    /// How often to sweep.
    pub(super) fn interval(&self) -> Duration {
        let least = self.limits.head.min(self.limits.idle).min(self.limits.stall);
        (least / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

/// A connection's stream, which notes in its link what passes.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) stream: TcpStream,
    pub(super) link: Arc<Link>,
}

impl Noted {
    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => self.link.cannot_send(),
            Poll::Ready(_) => self.link.sent(),
        }
        written
    }
}

impl AsyncRead for Noted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.link.received();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Noted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
    fn the_limit_of_open_files_is_read() {
        let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max open files            1024                 524288               files     \n";
        assert_eq!(open_files(table), Some(1024));
        assert_eq!(open_files(&table.replace("1024 ", "unlimited ")), None);
        assert_eq!(open_files(""), None);
        let limits = ConnectionLimits::beside(usize::MAX);
        assert_eq!(limits.most, LEAST);
        assert!((LEAST..=MOST).contains(&ConnectionLimits::default().most));
    }

    #[test]
    fn what_is_worth_the_least_ends_first() {
        let mut table = Table::new(ConnectionLimits {
            most: 1,
            ..ConnectionLimits::default()
        });
        // So that a stall of long ago has a time.
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        Arc::get_mut(&mut table).unwrap().began = long_ago;
        let entries: Vec<Entry> = (0..5).map(|_| table.enter()).collect();
        let [busy, stalled, idle, head, old] = [0, 1, 2, 3, 4].map(|at: usize| &entries[at].link);
        let _turns = [busy.turn(), stalled.turn()];
        stalled.blocked.store(1, Ordering::Relaxed);
        drop(idle.turn());
        old.since.store(1, Ordering::Relaxed);
        for next in [old, head, idle, stalled] {
            table.shed();
            assert!(next.ending.load(Ordering::Relaxed));
            // One at a time: what is ending makes room soon.
            table.shed();
            let all = entries.iter().filter(|entry| entry.link.ending.load(Ordering::Relaxed));
            assert_eq!(all.count(), 1);
            next.ending.store(false, Ordering::Relaxed);
            next.enter(Phase::Busy);
            next.blocked.store(0, Ordering::Relaxed);
        }
        table.shed();
        assert!(!entries.iter().any(|entry| entry.link.ending.load(Ordering::Relaxed)));
    }

    #[test]
    fn a_phase_follows_what_passes() {
        let table = Table::new(ConnectionLimits::default());
        let entry = table.enter();
        let link = &entry.link;
        assert!(link.is(Phase::Head));
        let turn = link.turn();
        link.received();
        assert!(link.is(Phase::Busy));
        drop(turn);
        assert!(link.is(Phase::Idle));
        link.cannot_send();
        let since = link.stalled_for(link.now() + 5);
        assert!(since.is_some_and(|stalled| stalled >= 5));
        link.sent();
        assert_eq!(link.stalled_for(link.now()), None);
        link.received();
        assert!(link.is(Phase::Head));
        drop(entry);
        assert!(table.links().open.is_empty());
    }
}
