//! The loop that finds what is to be done: peek, try the locks in one batch, claim and load what was locked, run it.
//!
//! It looks when something local may have changed (a row was accepted, a burst ended, a delay is over, this node took
//! over from another one), when another node hints that work waits, and when the next row is due, whoever wrote it: each
//! look tells. What was written since then and is due earlier is hinted at by its writer, and each check-in tells anew:
//! a wake-up that was lost costs one check-in interval.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::OwnedSemaphorePermit;

use crate::Result;
use crate::failpoint;
use crate::runtime::context::hints;
use crate::runtime::context::node_context::Shift;
use crate::runtime::worker::backlog::Memory;
use crate::runtime::worker::execute;
use crate::runtime::worker::steps::Locked;
use crate::store::claim::{self, InstanceKey, PolledWork, Release, Shard, VersionFilter};
use crate::store::commit::{Breaker, Claim, ClaimLimit, PROBE_INSTANCES};
use crate::store::lock as store_lock;

/// The most instances that one round takes on.
const ROUND: usize = 256;

/// How long a round waits, while there is a backlog, for permits of bursts that end together: they were committed together,
/// and a look for the first of them alone would cost as much as one for all. As long as the last round took, but not less
/// and not more than this. Nor for more than half of the workers: the others have to be busy meanwhile.
const GATHERING: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// How long a node has lived before it takes a row that two processes died with: who dies so soon, dies of something
/// else, and the row would get the blame for it.
const SETTLED: Duration = Duration::from_secs(10);

/// How often a node that cannot run every version looks at the whole queue, at most.
const SWEEP: Duration = Duration::from_secs(1);

/// Such a look takes a sixth of the time of a connection at most: what it leaves to others may be many rows.
const SWEEP_REST: u32 = 5;

/// What came in may be older than what was seen before it, by as long as its transaction took.
const MARGIN: Duration = Duration::from_secs(2);

/// The least time until such a node looks for what was not due yet.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// What has waited for less than this does not wait for all that is older.
const FRESH: Duration = Duration::from_secs(5);

/// Between the looks at claims whose answer is lost.
const DOUBT: Duration = Duration::from_secs(1);

/// How often claims are compared with memory.
const COMPARISON: Duration = Duration::from_secs(10);

/// Claims and runs until the shift drains or stops; returns when it closes or stops.
pub(crate) async fn run(shift: Arc<Shift>) {
    let horizon = Horizon::default();
    // Dropped half-way, the other one has read something.
    tokio::select! {
        () = rounds(&shift, &horizon) => {}
        () = sweep(&shift, &horizon) => {}
    }
    if shift.is_draining() {
        tokio::select! {
            () = shift.stop.cancelled() => {}
            () = shift.closed() => {}
        }
    }
}

async fn rounds(shift: &Arc<Shift>, horizon: &Horizon) {
    let mut memory = Memory::default();
    let mut reports = shift.reports.clone();
    let mut taken_over = shift.taken_over.clone();
    shift.alarm.now();
    shift.alarm.at(shift.began + SETTLED);
    while !shift.is_draining() && !shift.stop.is_cancelled() {
        if shift.workers == 0 {
            // Others run what this node accepts.
            tokio::select! {
                () = shift.stop.cancelled() => return,
                () = shift.draining.cancelled() => return,
            }
        }
        // All six are cancellation safe.
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = shift.draining.cancelled() => return,
            news = shift.alarm.rings() => {
                if news {
                    shift.in_flight.looks();
                }
            }
            () = shift.writer.breaker().closed() => {}
            changed = taken_over.changed() => {
                if changed.is_err() {
                    return;
                }
                taken_over.borrow_and_update();
                shift.in_flight.looks();
            }
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                let report = reports.borrow_and_update().clone();
                if let Some(due) = report.check_in.next_due {
                    shift.alarm.due(report.received + due);
                }
                continue;
            }
        }
        let most = match shift.writer.breaker().claim_limit() {
            ClaimLimit::Unlimited => ROUND,
            ClaimLimit::Probe => PROBE_INSTANCES,
            ClaimLimit::PausedUntil(until) => {
                shift.alarm.at(until);
                continue;
            }
        };
        match round(shift, horizon, &mut memory, most).await {
            Ok(true) => shift.alarm.now(),
            Ok(false) => {}
            Err(error) => {
                if error.is_database_fault() {
                    shift.writer.breaker().record_fault(&error);
                } else {
                    tracing::warn!(%error, "looking for work failed");
                }
                shift.alarm.at(Instant::now() + Duration::from_millis(500));
            }
        }
    }
}

/// One look, for `most` instances; true if there may be more. It queues for permits like every door, so that doors cannot
/// starve it, and looks for no more than it has permits for.
async fn round(shift: &Arc<Shift>, horizon: &Horizon, memory: &mut Memory, most: usize) -> Result<bool> {
    if shift.permits.available_permits() == 0 {
        shift.wake.overflow();
    }
    let first = tokio::select! {
        () = shift.stop.cancelled() => return Ok(false),
        () = shift.draining.cancelled() => return Ok(false),
        permit = Arc::clone(&shift.permits).acquire_owned() => permit,
    };
    let Ok(first) = first else { return Ok(false) };
    let mut permits = vec![first];
    if memory.full && most == ROUND {
        gather(shift, &mut permits, memory.took).await;
    }
    let began = Instant::now();
    // Before they are taken: too much room for a moment does no harm, the next look tells.
    let looking = Looking::new(shift, ROUND);
    while permits.len() < most
        && let Ok(permit) = Arc::clone(&shift.permits).try_acquire_owned()
    {
        permits.push(permit);
    }
    shift.looking.store(permits.len(), Relaxed);
    let settled = shift.began.elapsed() >= SETTLED;
    let suspicion = Arc::clone(&shift.suspects).try_acquire_owned().ok().filter(|_| settled);
    shift.alarm.ask_anew();
    let found = peek(shift, horizon, memory, permits.len(), suspicion.is_some()).await?;
    if let Some(due) = found.next_due {
        shift.alarm.due(Instant::now() + due + hints::spread(shift));
    }
    memory.full = found.full;
    shift.crowded.store(found.full, Relaxed);
    if found.instances.is_empty() {
        if most < ROUND && !found.full && found.next_due.is_none_or(|due| due > Breaker::longest()) {
            shift.writer.breaker().record_empty_probe();
        }
        // Of a share: the rest is next.
        return Ok(found.full);
    }
    // By rows: one instance with many of them must not hide the others until the next check-in.
    let full = found.full;
    if full && shift.permits.available_permits() == 0 {
        shift.wake.overflow();
    }
    let suspicion = suspicion.filter(|_| found.isolated);
    if shift.is_draining() {
        return Ok(false);
    }
    let shown = found.instances.len();
    let locked = lock(shift, found.instances).await?;
    tracing::trace!(shown, had = locked.len(), full, "looked for work");
    if locked.is_empty() {
        return Ok(full);
    }
    failpoint::hit("claim.locked").await?;
    let loaded = Locked::load(shift, locked, suspicion).await?;
    memory.took = began.elapsed();
    permits.truncate(loaded.len());
    drop(looking);
    for (loaded, permit) in loaded.into_iter().zip(permits) {
        execute::spawn(shift, loaded, permit);
    }
    // What could not be had just now is left alone for a moment, so this does not spin.
    Ok(full)
}

/// Waits a moment until enough is free for a look to be worth its while. One by one: whoever came to a door meanwhile has
/// its turn.
async fn gather(shift: &Shift, permits: &mut Vec<OwnedSemaphorePermit>, took: Duration) {
    let enough = ROUND.min(shift.workers / 2);
    let until = Instant::now() + took.clamp(GATHERING.0, GATHERING.1);
    while permits.len() < enough {
        let more = Arc::clone(&shift.permits).acquire_owned();
        match tokio::time::timeout_at(until.into(), more).await {
            Ok(Ok(permit)) => permits.push(permit),
            _ => return,
        }
    }
}

/// Permits that a look has in hands; none when it is dropped.
struct Looking<'a>(&'a Shift);

impl<'a> Looking<'a> {
    fn new(shift: &'a Shift, permits: usize) -> Self {
        shift.looking.store(permits, Relaxed);
        Self(shift)
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.looking.store(0, Relaxed);
    }
}

/// How far back a node looks that cannot run every version: what it leaves to others may be many rows, at the head of the
/// queue. They are walked over by the first look, and now and then beside the looks, which stay cheap.
#[derive(Default)]
struct Horizon(Mutex<Option<DateTime<Utc>>>);

impl Horizon {
    fn get(&self) -> Option<DateTime<Utc>> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing for this node is older than `oldest`, but for what comes in late.
    fn set(&self, oldest: DateTime<Utc>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(oldest - MARGIN);
    }
}

/// Looks for what is to be done, but for what this node has in its hands or cannot run.
async fn peek(
    shift: &Shift,
    horizon: &Horizon,
    memory: &mut Memory,
    limit: usize,
    isolated: bool,
) -> Result<PolledWork> {
    let hidden = shift.in_flight.hidden();
    let beyond = shift.capability.beyond();
    if beyond.is_empty() {
        let (head, share, alone) = {
            let report = shift.reports.borrow();
            let check_in = &report.check_in;
            let share = memory.share(check_in.worker_peers, check_in.rank, Instant::now());
            (check_in.head - MARGIN, share, check_in.worker_peers == 0)
        };
        let sent: &[InstanceKey] = if memory.leaving_out > 0 { &hidden } else { &[] };
        // The oldest first; but behind a backlog, each second look is for what has come due since.
        if std::mem::take(&mut memory.fresh) {
            let mut fresh = claim::poll_recent_work(&shift.pool, limit, sent, head, FRESH, share).await?;
            memory.leave_out(&mut fresh, &hidden, limit);
            if !fresh.instances.is_empty() {
                return Ok(PolledWork { full: true, ..fresh });
            }
        }
        if share == Shard::WHOLE && !alone {
            memory.place = None;
        }
        let since = memory.since(head);
        let sent: &[InstanceKey] = if memory.leaving_out > 0 { &hidden } else { &[] };
        let mut seen = claim::poll_work(&shift.pool, limit, sent, isolated, since, share).await?;
        memory.leave_out(&mut seen, &hidden, limit);
        let was_full = seen.full;
        seen.full = memory.came_to(&seen);
        memory.fresh = seen.full;
        if !was_full && share != Shard::WHOLE {
            seen.full = true;
            memory.own_is_done();
        }
        return Ok(seen);
    }
    let since = horizon.get();
    let partial = VersionFilter {
        unsupported: &beyond,
        since,
    };
    let began = Instant::now();
    let (mut seen, oldest) = claim::poll_supported_work(&shift.pool, limit, &hidden, isolated, &partial).await?;
    if since.is_none() {
        horizon.set(oldest);
    }
    // A check-in tells of the head of the queue, which may be nothing for this node. The question walks over many rows.
    match memory.asked.map(|asked| asked + LEAST_PAUSE) {
        Some(again) if again > began => {
            shift.alarm.due(again);
        }
        _ if seen.full => {}
        _ => {
            memory.asked = Some(began);
            let due = claim::next_supported_due(&shift.pool, &beyond).await?;
            seen.next_due = due.map(|due| due.max(LEAST_PAUSE));
        }
    }
    Ok(seen)
}

/// Looks at the whole queue now and then, for what came in behind the horizon. Never returns.
async fn sweep(shift: &Shift, horizon: &Horizon) {
    loop {
        let began = Instant::now();
        if shift.workers > 0
            && horizon.get().is_some()
            && let Err(error) = sweep_once(shift, horizon).await
        {
            tracing::debug!(%error, "the whole queue could not be looked at");
        }
        tokio::time::sleep(SWEEP.max(began.elapsed() * SWEEP_REST)).await;
    }
}

async fn sweep_once(shift: &Shift, horizon: &Horizon) -> Result<()> {
    let beyond = shift.capability.beyond();
    let hidden = shift.in_flight.hidden();
    let partial = VersionFilter {
        unsupported: &beyond,
        since: None,
    };
    let (seen, oldest) = claim::poll_supported_work(&shift.pool, 1, &hidden, true, &partial).await?;
    horizon.set(oldest);
    if !seen.instances.is_empty() {
        shift.alarm.now();
    }
    Ok(())
}

/// Takes the locks that are free.
async fn lock(shift: &Shift, found: Vec<InstanceKey>) -> Result<Vec<Locked>> {
    let guards = shift.locks.try_instances(&found).await?;
    let (mut locked, mut elsewhere) = (Vec::new(), Vec::new());
    for (key, guard) in found.into_iter().zip(guards) {
        match guard {
            Some(guard) => locked.push(Locked::new(key, guard)),
            None => {
                let id = &key.1;
                if shift.in_flight.is_news(&key) {
                    tracing::info!("Lock acquisition failed; resume already in progress for workflow {id}");
                } else {
                    tracing::debug!("the lock of workflow {id} is still elsewhere");
                }
                elsewhere.push(key);
            }
        }
    }
    shift.leave_alone(elsewhere);
    Ok(locked)
}

/// Compares claims with memory until the shift stops.
pub(crate) async fn keep_house(shift: Arc<Shift>) {
    let mut suspects = HashSet::new();
    loop {
        // Both are cancellation safe.
        tokio::select! {
            () = shift.stop.cancelled() => return,
            doubtful = shift.in_flight.in_doubt() => {
                tokio::select! {
                    () = shift.stop.cancelled() => return,
                    () = settle_doubt(&shift, &doubtful) => {}
                }
                continue;
            }
            () = tokio::time::sleep(COMPARISON.mul_f64(rand::random_range(0.8..1.2))) => {}
        }
        match compare(&shift, &suspects).await {
            Ok(still) => suspects = still,
            Err(error) => tracing::debug!(%error, "claims could not be compared with memory"),
        }
        name_foreign_locks(&shift).await;
    }
}

/// Hands back what was claimed of these instances by a claim whose answer is lost, as soon as the database tells. Seen twice,
/// as a claim that is under way may take another row of them.
async fn settle_doubt(shift: &Shift, doubtful: &HashSet<InstanceKey>) {
    let mut before: Option<HashSet<(InstanceKey, Claim)>> = None;
    loop {
        tokio::time::sleep(DOUBT).await;
        let mine = match claim::claimed_by(&shift.pool, shift.incarnation).await {
            Ok(mine) => mine,
            Err(error) => {
                tracing::debug!(%error, "claims in doubt cannot be asked for yet");
                continue;
            }
        };
        let is_loose =
            |(key, claim): &(InstanceKey, Claim)| doubtful.contains(key) && !shift.in_flight.holds(key, claim);
        let loose: HashSet<_> = mine.into_iter().filter(is_loose).collect();
        let Some(before) = before.replace(loose.clone()) else {
            continue;
        };
        for (key, claim) in before.intersection(&loose) {
            tracing::info!(instance = %key.1, "a row was claimed and the answer lost; it is handed back");
            shift
                .give_back(key, std::slice::from_ref(claim), Release::IMMEDIATE)
                .await;
        }
        return;
    }
}

/// Who is no node and holds what claiming has missed lately, or any key by which nodes exclude each other for a moment.
async fn name_foreign_locks(shift: &Shift) {
    let keys: Vec<i64> = shift.missed().iter().map(|(key, _)| key.0).collect();
    store_lock::log_foreign_locks(&shift.pool, &shift.schema, &keys).await;
}

/// Rows that the database shows as ours but that no burst has in its hands: an answer was lost on its way, or a task
/// was. Seen twice, ten seconds apart, they are handed back.
async fn compare(shift: &Shift, suspects: &HashSet<(InstanceKey, Claim)>) -> Result<HashSet<(InstanceKey, Claim)>> {
    let mut still = HashSet::new();
    for (key, claim) in claim::claimed_by(&shift.pool, shift.incarnation).await? {
        if shift.in_flight.holds(&key, &claim) {
            continue;
        }
        if suspects.contains(&(key.clone(), claim.clone())) {
            tracing::warn!(instance = %key.1, "a claimed row was in nobody's hands; it is handed back");
            shift.give_back(&key, &[claim], Release::IMMEDIATE).await;
        } else {
            still.insert((key, claim));
        }
    }
    Ok(still)
}
