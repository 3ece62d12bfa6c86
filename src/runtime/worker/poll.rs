//! The loop that finds work: it polls, tries the locks of the found instances in one batch, claims and loads what it locked,
//! and spawns the bursts.
//!
//! It polls when something local may have changed (a row was accepted, a burst ended, a delay is over, this node took over
//! from another one), when another node notifies that work is ready, and when the next row is due, whichever node wrote it:
//! each poll returns that time. The writer of a row that is due earlier notifies the others, and each check-in reports it
//! again: a lost notification costs one check-in interval.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, watch};

use super::claim::{self as worker_claim, Loaded, Locked};
use super::poll_state::{BATCH, MARGIN, PollState};
use super::supported_work::{self, SupportedWork, Without};
use super::{execute, wake_notifications};
use crate::Result;
use crate::cluster::CheckInReport;
use crate::failpoint;
use crate::log::bounded_info;
use crate::runtime::context::claim_state::Workers;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{self, InstanceKey, PolledWork};
use crate::store::commit::{Breaker, ClaimLimit, PROBE_INSTANCES};
use crate::watchdog::WatchedPart;

/// How long a poll waits, while there is a backlog, for permits of bursts that end together: a poll for the first of them
/// alone would cost as much as one for all. As long as the last poll took, within these bounds, and for no more than half
/// of the workers: the others must be busy meanwhile.
const GATHERING: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// How long a node must have run before it claims an isolated row, one that was claimed at two crashes: a crash soon after the
/// start has another cause and must not be counted against the row.
const SETTLED: Duration = Duration::from_secs(10);

/// Rows that are due for less than this do not wait for all older rows of a backlog.
const RECENT: Duration = Duration::from_secs(5);

/// The pause after a poll that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Polls, claims and runs until the incarnation drains or stops; returns when it closes or stops.
pub(crate) async fn run(node: Arc<NodeContext>, watched: WatchedPart) {
    let supported = SupportedWork::default();
    let mut poller = Poller {
        node: &node,
        supported: &supported,
        state: PollState::default(),
    };
    // The other future may be dropped halfway: it has only read.
    tokio::select! {
        () = poller.run(&watched) => {}
        () = supported_work::poll_backlog_periodically(&node, &supported) => {}
    }
    watched.idle(node.lifecycle.drained()).await;
}

/// What a poller does next.
enum Next {
    Poll,
    Wait,
    /// Nothing more is claimed.
    End,
}

/// Polls for work.
struct Poller<'a> {
    node: &'a Arc<NodeContext>,
    supported: &'a SupportedWork,
    state: PollState,
}

impl Poller<'_> {
    async fn run(&mut self, watched: &WatchedPart) {
        let node = self.node;
        let (lifecycle, claims) = (&node.lifecycle, &node.claims);
        let breaker = node.commits.writer.breaker();
        let mut reports = lifecycle.reports.clone();
        let mut taken_over = lifecycle.taken_over.clone();
        claims.wake_timer.wake_now();
        claims.wake_timer.wake_at(lifecycle.began + SETTLED);
        while !lifecycle.is_draining() && !lifecycle.stop.is_cancelled() {
            if claims.workers.count == 0 {
                // Other nodes run what this one accepts.
                let ends = async {
                    tokio::select! {
                        () = lifecycle.stop.cancelled() => {}
                        () = lifecycle.draining.cancelled() => {}
                    }
                };
                return watched.idle(ends).await;
            }
            match watched.idle(self.next(&mut reports, &mut taken_over)).await {
                Next::Poll => {}
                Next::Wait => continue,
                Next::End => return,
            }
            let most = match breaker.claim_limit() {
                ClaimLimit::Unlimited => BATCH,
                ClaimLimit::Probe => PROBE_INSTANCES,
                ClaimLimit::PausedUntil(until) => {
                    claims.wake_timer.wake_at(until);
                    continue;
                }
            };
            // Without a free worker nothing is to be polled for.
            let Some(first) = watched.idle(self.first_permit()).await else {
                continue;
            };
            match watched.wait(self.poll_and_spawn(first, most)).await {
                Ok(true) => claims.wake_timer.wake_now(),
                Ok(false) => {}
                Err(error) => {
                    claims.bytes.retry();
                    if error.is_database_fault() {
                        breaker.record_fault(&error);
                    } else {
                        tracing::warn!(%error, "a poll for work failed");
                    }
                    claims.wake_timer.wake_at(Instant::now() + RETRY);
                }
            }
        }
    }

    /// Waits for a reason to poll.
    async fn next(&self, reports: &mut watch::Receiver<CheckInReport>, taken_over: &mut watch::Receiver<u64>) -> Next {
        let (lifecycle, claims) = (&self.node.lifecycle, &self.node.claims);
        // All six are cancellation safe.
        tokio::select! {
            () = lifecycle.stop.cancelled() => return Next::End,
            () = lifecycle.draining.cancelled() => return Next::End,
            is_new = claims.wake_timer.wait() => {
                if is_new {
                    claims.in_flight.note_poll();
                }
            }
            () = self.node.commits.writer.breaker().closed() => {}
            changed = taken_over.changed() => {
                if changed.is_err() {
                    return Next::End;
                }
                taken_over.borrow_and_update();
                claims.in_flight.note_poll();
            }
            changed = reports.changed() => {
                if changed.is_err() {
                    return Next::End;
                }
                let report = reports.borrow_and_update().clone();
                if let Some(due) = report.check_in.next_due {
                    claims.wake_timer.row_due(report.received + due);
                }
                return Next::Wait;
            }
        }
        Next::Poll
    }

    /// A permit for a poll. It queues like every request, so that requests cannot starve it. `None` if nothing more is
    /// claimed.
    async fn first_permit(&self) -> Option<OwnedSemaphorePermit> {
        let (lifecycle, workers) = (&self.node.lifecycle, &self.node.claims.workers);
        if workers.permits.available_permits() == 0 {
            self.node.notifications.wake.no_capacity();
        }
        tokio::select! {
            () = lifecycle.stop.cancelled() => None,
            () = lifecycle.draining.cancelled() => None,
            permit = Arc::clone(&workers.permits).acquire_owned() => permit.ok(),
        }
    }

    /// One poll, for `most` instances; true if there may be more. It polls for no more than it has permits for.
    async fn poll_and_spawn(&mut self, first: OwnedSemaphorePermit, most: usize) -> Result<bool> {
        let node = self.node;
        let (lifecycle, claims, workers) = (&node.lifecycle, &node.claims, &node.claims.workers);
        let mut permits = vec![first];
        if self.state.full && most == BATCH {
            gather(workers, &mut permits, self.state.took).await;
        }
        let began = Instant::now();
        // Before they are taken: too much room for a moment does no harm, the next poll corrects it.
        let polling = PollingPermits::new(workers, BATCH);
        while permits.len() < most
            && let Ok(permit) = Arc::clone(&workers.permits).try_acquire_owned()
        {
            permits.push(permit);
        }
        workers.polling.store(permits.len(), Relaxed);
        let settled = lifecycle.began.elapsed() >= SETTLED;
        // The claim is given the permit whatever the poll shows: rows that wait longer can hide the isolated row for which
        // their instance waits.
        let isolation = Arc::clone(&workers.isolation).try_acquire_owned().ok();
        let isolation = isolation.filter(|_| settled);
        claims.wake_timer.clear_due();
        // What waits for room comes first, and at most half of a claim.
        let limit = permits.len().min(self.state.size.instances());
        let mut waiting = claims.bytes.waiting_to_try();
        waiting.truncate(limit.div_ceil(2));
        let found = self.find(limit, isolation.is_some(), &waiting).await?;
        if found.instances.is_empty() {
            let is_probe = most < BATCH;
            if is_probe && !found.full && found.next_due.is_none_or(|due| due > Breaker::longest()) {
                node.commits.writer.breaker().record_empty_probe();
            }
            // Full of a shard: the other shards are next.
            return Ok(found.full);
        }
        // By rows: one instance with many of them must not hide the others until the next check-in.
        let full = found.full;
        if full && workers.permits.available_permits() == 0 {
            node.notifications.wake.no_capacity();
        }
        if lifecycle.is_draining() {
            return Ok(false);
        }
        let shown = found.instances.len();
        let locked = lock(node, found.instances).await?;
        tracing::trace!(shown, locked = locked.len(), full, "polled for work");
        if locked.is_empty() {
            // Deferred, and polled again.
            claims.bytes.tried(&waiting, Vec::new());
            return Ok(full);
        }
        failpoint::hit("claim.locked").await?;
        let loaded = self.load(locked, isolation, &waiting).await?;
        self.state.took = began.elapsed();
        permits.truncate(loaded.len());
        drop(polling);
        for (loaded, permit) in loaded.into_iter().zip(permits) {
            execute::spawn(node, loaded, permit);
        }
        // What could not be claimed is deferred for a moment or waits for room, so this does not spin.
        Ok(full || claims.bytes.can_retry())
    }

    /// Finds what to claim: what waits for room, and then what the queue shows.
    async fn find(&mut self, limit: usize, isolated: bool, waiting: &[InstanceKey]) -> Result<PolledWork> {
        let (node, room) = (self.node, limit - waiting.len());
        let mut found = self.read_queue(room.max(1), isolated).await?;
        found.instances.truncate(room);
        found.instances.splice(0..0, waiting.iter().cloned());
        if let Some(due) = found.next_due {
            let delay = wake_notifications::due_delay(node);
            node.claims.wake_timer.row_due(Instant::now() + due + delay);
        }
        self.state.full = found.full;
        node.claims.workers.has_backlog.store(found.full, Relaxed);
        Ok(found)
    }

    /// Claims and loads within the bytes that are free; what does not fit waits. `waiting`: what waited for room.
    async fn load(
        &mut self,
        locked: Vec<Locked>,
        isolation: Option<OwnedSemaphorePermit>,
        waiting: &[InstanceKey],
    ) -> Result<Vec<Loaded>> {
        let (claims, size) = (&self.node.claims, &mut self.state.size);
        let bounds = size.bound(claims.bytes.bounds(!waiting.is_empty()));
        let tried = locked.len();
        let (loaded, left_out) = match worker_claim::load(self.node, locked, isolation, bounds).await {
            Ok(loaded) => loaded,
            Err(error) => {
                if error.has_timed_out() {
                    size.timed_out(tried);
                    tracing::info!(
                        tried,
                        next = size.instances(),
                        "a claim timed out; the next ones are smaller"
                    );
                }
                return Err(error);
            }
        };
        size.passed();
        if !waiting.is_empty() || !left_out.is_empty() {
            if left_out.iter().any(|key| !waiting.contains(key)) {
                tracing::debug!(
                    left_out = left_out.len(),
                    "there is no room for the work of some instances"
                );
                self.node.notifications.wake.no_capacity();
            }
            let (not_kept, again) = claims.bytes.tried(waiting, left_out);
            claims.defer(not_kept);
            if let Some(again) = again {
                claims.wake_timer.wake_at(again);
            }
        }
        Ok(loaded)
    }

    /// Reads which instances have work that is due, without those in flight here and without unsupported versions.
    async fn read_queue(&mut self, limit: usize, isolated: bool) -> Result<PolledWork> {
        let (pool, state) = (&self.node.database.pool, &mut self.state);
        let excluded = self.node.claims.excluded();
        let unsupported = self.node.claims.unsupported.versions();
        if !unsupported.is_empty() {
            let without = Without {
                versions: &unsupported,
                instances: &excluded,
            };
            return self.supported.read(self.node, without, limit, isolated).await;
        }
        let (head, peers, rank) = {
            let report = self.node.lifecycle.reports.borrow();
            let check_in = &report.check_in;
            (check_in.head - MARGIN, check_in.worker_peers, check_in.rank)
        };
        let shard = state.shard(peers, rank, Instant::now());
        // The oldest first; but behind a backlog, each second poll is for what has become due recently.
        if std::mem::take(&mut state.recent) {
            let sent = state.excluded_by_database(&excluded);
            let mut recent = claim::poll_recent_work(pool, limit, sent, head, RECENT, shard).await?;
            state.exclude(&mut recent, &excluded, limit);
            if !recent.instances.is_empty() {
                return Ok(PolledWork { full: true, ..recent });
            }
        }
        let since = state.since(head, shard, peers);
        let sent = state.excluded_by_database(&excluded);
        let mut found = claim::poll_work(pool, limit, sent, isolated, since, shard).await?;
        state.exclude(&mut found, &excluded, limit);
        found.full = state.advance(&found, shard);
        Ok(found)
    }
}

/// Waits a moment until enough permits are free for a poll to be worth its cost. One by one, so that a request that came
/// meanwhile is tried.
async fn gather(workers: &Workers, permits: &mut Vec<OwnedSemaphorePermit>, took: Duration) {
    let enough = BATCH.min(workers.count / 2);
    let until = Instant::now() + took.clamp(GATHERING.0, GATHERING.1);
    while permits.len() < enough {
        let more = Arc::clone(&workers.permits).acquire_owned();
        match tokio::time::timeout_at(until.into(), more).await {
            Ok(Ok(permit)) => permits.push(permit),
            _ => return,
        }
    }
}

/// The permits that a poll holds; none when it is dropped.
struct PollingPermits<'a>(&'a Workers);

impl<'a> PollingPermits<'a> {
    fn new(workers: &'a Workers, permits: usize) -> Self {
        workers.polling.store(permits, Relaxed);
        Self(workers)
    }
}

impl Drop for PollingPermits<'_> {
    fn drop(&mut self) {
        self.0.polling.store(0, Relaxed);
    }
}

/// Takes the locks that are free, and defers the other instances.
async fn lock(node: &NodeContext, found: Vec<InstanceKey>) -> Result<Vec<Locked>> {
    let guards = match node.locks.instances.try_instances(&found).await {
        Ok(guards) => guards,
        Err(error) if node.locks.instances.is_provided() && error.is_transient() => {
            // Nothing is claimed yet: it is found again, at this node or another one. The provider says once that it is away.
            tracing::debug!(%error, instances = found.len(), "no lock can be taken now; whatever needs one waits");
            metrics::counter!("mainspring_lock_tries_failed_total").increment(1);
            node.claims.defer(found);
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let (mut locked, mut elsewhere) = (Vec::new(), Vec::new());
    let contended = node.claims.in_flight.contended(&found);
    for (key, guard) in found.into_iter().zip(guards) {
        match guard {
            Some(guard) => {
                let is_contended = contended.contains(&key);
                locked.push(Locked::new(key, guard, is_contended));
            }
            None => {
                let id = &key.1;
                if node.claims.in_flight.should_log(&key) {
                    bounded_info!("Lock acquisition failed; resume already in progress for workflow {id}");
                } else {
                    tracing::debug!("the lock of instance {id} is still held elsewhere");
                }
                elsewhere.push(key);
            }
        }
    }
    node.claims.defer(elsewhere);
    Ok(locked)
}
