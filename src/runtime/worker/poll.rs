//! The loop that finds work: it polls, tries the locks of what it found in one batch, claims and loads what it locked, and
//! spawns the bursts.
//!
//! It polls when something local may have changed (a row was accepted, a burst ended, a delay is over, this node took over
//! from another one), when another node notifies that work is ready, and when the next row is due, whichever node wrote it:
//! each poll returns when that is. The writer of a row that is due earlier notifies the others, and each check-in reports
//! it again: a lost notification costs one check-in interval.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::OwnedSemaphorePermit;

use super::claim::{self as worker_claim, Loaded, Locked};
use super::poll_state::{BATCH, PollState};
use super::{execute, wake_notifications};
use crate::Result;
use crate::failpoint;
use crate::runtime::context::claim_state::Workers;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{self, InstanceKey, PolledWork, Shard, VersionFilter};
use crate::store::commit::{Breaker, ClaimLimit, PROBE_INSTANCES};
use crate::watchdog::WatchedPart;

/// How long a poll waits, while there is a backlog, for permits of bursts that end together: a poll for the first of them
/// alone would cost as much as one for all. As long as the last poll took, within these bounds, and for no more than half
/// of the workers: the others must be busy meanwhile.
const GATHERING: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// How long a node must have run before it claims an isolated row, one that was claimed at two crashes: a crash soon after the
/// start has another cause and must not be counted against the row.
const SETTLED: Duration = Duration::from_secs(10);

/// How often a node that does not support every version polls the whole backlog, at most.
const WHOLE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Such a poll takes at most a sixth of the time of a connection: it may pass over many rows of other nodes.
const WHOLE_POLL_REST: u32 = 5;

/// A row may become visible after younger ones, by as long as its transaction took.
const MARGIN: Duration = Duration::from_secs(2);

/// The least time until a node that does not support every version polls for rows that were not due yet.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// Rows that are due for less than this do not wait for all older rows of a backlog.
const RECENT: Duration = Duration::from_secs(5);

/// The pause after a poll that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Polls, claims and runs until the incarnation drains or stops; returns when it closes or stops.
pub(crate) async fn run(node: Arc<NodeContext>, watched: WatchedPart) {
    let horizon = Horizon::default();
    let mut poller = Poller {
        node: &node,
        horizon: &horizon,
        state: PollState::default(),
    };
    // Dropped half-way, the other one has read something.
    tokio::select! {
        () = poller.run(&watched) => {}
        () = poll_backlog_periodically(&node, &horizon) => {}
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
    horizon: &'a Horizon,
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
            // All six are cancellation safe.
            let next = async {
                tokio::select! {
                    () = lifecycle.stop.cancelled() => return Next::End,
                    () = lifecycle.draining.cancelled() => return Next::End,
                    is_new = claims.wake_timer.wait() => {
                        if is_new {
                            claims.in_flight.note_poll();
                        }
                    }
                    () = breaker.closed() => {}
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
            };
            match watched.idle(next).await {
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

    /// A permit for a poll. It queues like every request, so that requests cannot starve it. None: nothing more is claimed.
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
        let isolation = Arc::clone(&workers.isolation).try_acquire_owned().ok();
        let isolation = isolation.filter(|_| settled);
        claims.wake_timer.clear_due();
        // What waits for room comes first, and at most half of a claim.
        let limit = permits.len().min(self.state.size.instances());
        let mut waiting = claims.bytes.waiting_to_try();
        waiting.truncate(limit.div_ceil(2));
        let mut found = self
            .read_queue((limit - waiting.len()).max(1), isolation.is_some())
            .await?;
        found.instances.truncate(limit - waiting.len());
        found.instances.splice(0..0, waiting.iter().cloned());
        if let Some(due) = found.next_due {
            let delay = wake_notifications::due_delay(node);
            claims.wake_timer.row_due(Instant::now() + due + delay);
        }
        self.state.full = found.full;
        workers.has_backlog.store(found.full, Relaxed);
        if found.instances.is_empty() {
            if most < BATCH && !found.full && found.next_due.is_none_or(|due| due > Breaker::longest()) {
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
        let isolation = isolation.filter(|_| found.isolated);
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
        let (node, state) = (self.node, &mut self.state);
        let (pool, claims) = (&node.database.pool, &node.claims);
        let excluded = claims.excluded();
        let unsupported = claims.unsupported.versions();
        if unsupported.is_empty() {
            let (head, shard, is_alone) = {
                let report = node.lifecycle.reports.borrow();
                let check_in = &report.check_in;
                let shard = state.shard(check_in.worker_peers, check_in.rank, Instant::now());
                (check_in.head - MARGIN, shard, check_in.worker_peers == 0)
            };
            let sent: &[InstanceKey] = if state.excluding > 0 { &excluded } else { &[] };
            // The oldest first; but behind a backlog, each second poll is for what has become due recently.
            if std::mem::take(&mut state.recent) {
                let mut recent = claim::poll_recent_work(pool, limit, sent, head, RECENT, shard).await?;
                state.exclude(&mut recent, &excluded, limit);
                if !recent.instances.is_empty() {
                    return Ok(PolledWork { full: true, ..recent });
                }
            }
            if shard == Shard::WHOLE && !is_alone {
                state.position = None;
            }
            let since = state.since(head);
            let sent: &[InstanceKey] = if state.excluding > 0 { &excluded } else { &[] };
            let mut found = claim::poll_work(pool, limit, sent, isolated, since, shard).await?;
            state.exclude(&mut found, &excluded, limit);
            let was_full = found.full;
            found.full = state.advance(&found);
            state.recent = found.full;
            if !was_full && shard != Shard::WHOLE {
                found.full = true;
                state.own_shard_is_done();
            }
            return Ok(found);
        }
        let since = self.horizon.get();
        let filter = VersionFilter {
            unsupported: &unsupported,
            since,
        };
        let began = Instant::now();
        let (mut found, oldest) = claim::poll_supported_work(pool, limit, &excluded, isolated, &filter).await?;
        if since.is_none() {
            self.horizon.set(oldest);
        }
        // A check-in reports the head of the queue, which may be unsupported. This question passes over many rows.
        match state.asked_due.map(|asked| asked + LEAST_PAUSE) {
            Some(again) if again > began => {
                claims.wake_timer.row_due(again);
            }
            _ if found.full => {}
            _ => {
                state.asked_due = Some(began);
                let due = claim::next_supported_due(pool, &unsupported).await?;
                found.next_due = due.map(|due| due.max(LEAST_PAUSE));
            }
        }
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

/// From which time on a node polls that does not support every version: many rows of other nodes may be at the head of the
/// queue. The first poll and those of the whole backlog pass over them, so that the other polls stay cheap.
#[derive(Default)]
struct Horizon(Mutex<Option<DateTime<Utc>>>);

impl Horizon {
    fn get(&self) -> Option<DateTime<Utc>> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No supported work is older than `oldest`, except what becomes visible late.
    fn set(&self, oldest: DateTime<Utc>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(oldest - MARGIN);
    }
}

/// Polls the whole backlog from time to time, for what became visible behind the horizon. Never returns.
async fn poll_backlog_periodically(node: &NodeContext, horizon: &Horizon) {
    loop {
        let began = Instant::now();
        if node.claims.workers.count > 0
            && horizon.get().is_some()
            && let Err(error) = poll_whole_backlog(node, horizon).await
        {
            tracing::debug!(%error, "the whole backlog could not be polled");
        }
        tokio::time::sleep(WHOLE_POLL_INTERVAL.max(began.elapsed() * WHOLE_POLL_REST)).await;
    }
}

async fn poll_whole_backlog(node: &NodeContext, horizon: &Horizon) -> Result<()> {
    let unsupported = node.claims.unsupported.versions();
    let excluded = node.claims.excluded();
    let filter = VersionFilter {
        unsupported: &unsupported,
        since: None,
    };
    let (found, oldest) = claim::poll_supported_work(&node.database.pool, 1, &excluded, true, &filter).await?;
    horizon.set(oldest);
    if !found.instances.is_empty() {
        node.claims.wake_timer.wake_now();
    }
    Ok(())
}

/// Takes the locks that are free, and defers the other instances.
async fn lock(node: &NodeContext, found: Vec<InstanceKey>) -> Result<Vec<Locked>> {
    let guards = match node.locks.instances.try_instances(&found).await {
        Ok(guards) => guards,
        Err(error) if node.locks.instances.is_provided() && error.is_transient() => {
            // Nothing is claimed yet: it is found again, at this node or another one. The provider says once that it is away.
            tracing::debug!(%error, instances = found.len(), "no lock can be taken now; what needs one waits");
            metrics::counter!("mainspring_lock_tries_failed_total").increment(1);
            node.claims.defer(found);
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let (mut locked, mut elsewhere) = (Vec::new(), Vec::new());
    for (key, guard) in found.into_iter().zip(guards) {
        match guard {
            Some(guard) => locked.push(Locked::new(key, guard)),
            None => {
                let id = &key.1;
                if node.claims.in_flight.should_log(&key) {
                    tracing::info!("Lock acquisition failed; resume already in progress for workflow {id}");
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
