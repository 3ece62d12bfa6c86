//! The loop that finds what is to be done: peek, try the locks in one batch, claim and load what was locked, run it.
//!
//! It looks when something local may have changed (a row was accepted, a burst ended, a delay is over, this node took
//! over from another one), when another node hints that work waits, and at every check-in, whose report says when the
//! next row is due: a wake-up that was lost costs one check-in interval.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use super::attend;
use super::burst::Locked;
use super::shift::Shift;
use crate::Result;
use crate::failpoint;
use crate::store::claim::{self, InstanceKey, Partial, Return, Seen};
use crate::store::commit::Claim;

/// The most instances that one round takes on.
const ROUND: usize = 64;

/// How long a node has lived before it takes a row that two processes died with: who dies so soon, dies of something
/// else, and the row would get the blame for it.
const SETTLED: Duration = Duration::from_secs(10);

/// How often a node that cannot run every version looks at the whole queue.
const SWEEP: Duration = Duration::from_secs(1);

/// What came in may be older than what was seen before it, by as long as its transaction took.
const MARGIN: Duration = Duration::from_secs(2);

/// The least time until such a node looks for what was not due yet.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// What has waited for less than this does not wait for all that is older.
const FRESH: Duration = Duration::from_secs(5);

/// How often claims are compared with memory.
const COMPARISON: Duration = Duration::from_secs(10);

/// Claims and runs until the shift drains or stops; returns when it closes or stops.
pub(super) async fn run(shift: Arc<Shift>) {
    rounds(&shift).await;
    if shift.is_draining() {
        tokio::select! {
            () = shift.stop.cancelled() => {}
            () = shift.closed() => {}
        }
    }
}

async fn rounds(shift: &Arc<Shift>) {
    let mut reports = shift.reports.clone();
    let mut taken_over = shift.taken_over.clone();
    let mut horizon = Horizon::default();
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
        // All five are cancellation safe.
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = shift.draining.cancelled() => return,
            () = shift.alarm.rings() => {}
            changed = taken_over.changed() => {
                if changed.is_err() {
                    return;
                }
                taken_over.borrow_and_update();
            }
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                let report = reports.borrow_and_update().clone();
                if let Some(due) = report.pulse.next_due {
                    shift.alarm.at(report.received + due);
                }
                continue;
            }
        }
        match round(shift, &mut horizon).await {
            Ok(true) => shift.alarm.now(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "looking for work failed");
                shift.alarm.at(Instant::now() + Duration::from_millis(500));
            }
        }
    }
}

/// One look; true if there may be more. It queues for permits like every door, so that doors cannot starve it, and
/// looks for no more than it has permits for.
async fn round(shift: &Arc<Shift>, horizon: &mut Horizon) -> Result<bool> {
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
    while permits.len() < ROUND
        && let Ok(permit) = Arc::clone(&shift.permits).try_acquire_owned()
    {
        permits.push(permit);
    }
    let settled = shift.began.elapsed() >= SETTLED;
    let suspicion = Arc::clone(&shift.suspects).try_acquire_owned().ok().filter(|_| settled);
    let found = peek(shift, horizon, permits.len(), suspicion.is_some()).await?;
    if found.instances.is_empty() {
        return Ok(false);
    }
    // By rows: one instance with many of them must not hide the others until the next check-in.
    let full = found.full;
    if full && shift.permits.available_permits() == 0 {
        shift.wake.overflow();
    }
    let suspicion = suspicion.filter(|_| found.suspects);
    if shift.is_draining() {
        return Ok(false);
    }
    let locked = lock(shift, found.instances).await?;
    if locked.is_empty() {
        return Ok(full);
    }
    failpoint::hit("claim.locked").await?;
    for (loaded, permit) in Locked::load(shift, locked, suspicion).await?.into_iter().zip(permits) {
        attend::spawn(shift, loaded, permit);
    }
    // What could not be had just now is left alone for a moment, so this does not spin.
    Ok(full)
}

/// What a node remembers from one look to the next.
#[derive(Default)]
struct Horizon {
    /// It found more than it could take on.
    crowded: bool,
    /// How far back a node looks that cannot run every version: what it leaves to others may be many rows, at the head of
    /// the queue, and they are walked over once a second, not at each look.
    since: Option<DateTime<Utc>>,
    swept: Option<Instant>,
}

/// Looks for what is to be done, but for what this node has in its hands or cannot run.
async fn peek(shift: &Shift, horizon: &mut Horizon, limit: usize, suspects: bool) -> Result<Seen> {
    let hidden = shift.in_flight.hidden();
    let beyond = shift.capability.beyond();
    if beyond.is_empty() {
        // The oldest first; but behind a backlog, each second look is for what has come due since.
        if std::mem::take(&mut horizon.crowded) {
            let instances = claim::peek_fresh(&shift.pool, limit, &hidden, FRESH).await?;
            if !instances.is_empty() {
                return Ok(Seen {
                    instances,
                    full: true,
                    suspects: false,
                });
            }
        }
        let seen = claim::peek(&shift.pool, limit, &hidden, suspects).await?;
        horizon.crowded = seen.full;
        return Ok(seen);
    }
    let sweeps = horizon.swept.is_none_or(|at| at.elapsed() >= SWEEP);
    let partial = Partial {
        beyond: &beyond,
        since: horizon.since.filter(|_| !sweeps),
    };
    let began = Instant::now();
    let (seen, oldest) = claim::peek_partial(&shift.pool, limit, &hidden, suspects, &partial).await?;
    if sweeps {
        horizon.since = Some(oldest - MARGIN);
        horizon.swept = Some(began);
    } else if let Some(swept) = horizon.swept {
        // Whatever came in behind the horizon.
        shift.alarm.at(swept + SWEEP);
    }
    if seen.instances.is_empty()
        && let Some(due) = claim::next_partial(&shift.pool, &beyond).await?
    {
        // A check-in tells of the head of the queue, which may be nothing for this node.
        shift.alarm.at(Instant::now() + due.max(LEAST_PAUSE));
    }
    Ok(seen)
}

/// Takes the locks that are free.
async fn lock(shift: &Shift, found: Vec<InstanceKey>) -> Result<Vec<Locked>> {
    let guards = shift.locks.try_instances(&found).await?;
    let mut locked = Vec::new();
    for (key, guard) in found.into_iter().zip(guards) {
        match guard {
            Some(guard) => locked.push(Locked::new(key, guard)),
            None => {
                if shift.in_flight.is_news(&key) {
                    let id = &key.1;
                    tracing::info!("Lock acquisition failed; resume already in progress for workflow {id}");
                }
                shift.leave_alone(key);
            }
        }
    }
    Ok(locked)
}

/// Compares claims with memory until the shift stops.
pub(super) async fn keep_house(shift: Arc<Shift>) {
    let mut suspects = HashSet::new();
    loop {
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = tokio::time::sleep(COMPARISON.mul_f64(rand::random_range(0.8..1.2))) => {}
        }
        match compare(&shift, &suspects).await {
            Ok(still) => suspects = still,
            Err(error) => tracing::debug!(%error, "claims could not be compared with memory"),
        }
    }
}

/// Rows that the database shows as ours but that no burst has in its hands: an answer was lost on its way, or a task
/// was. Seen twice, ten seconds apart, they are handed back.
async fn compare(shift: &Shift, suspects: &HashSet<(InstanceKey, Claim)>) -> Result<HashSet<(InstanceKey, Claim)>> {
    let mut still = HashSet::new();
    for (key, claim) in claim::mine(&shift.pool, shift.incarnation).await? {
        if shift.in_flight.holds(&key, &claim) {
            continue;
        }
        if suspects.contains(&(key.clone(), claim.clone())) {
            tracing::warn!(instance = %key.1, "a claimed row was in nobody's hands; it is handed back");
            shift.give_back(&key, &[claim], Return::FREELY).await;
        } else {
            still.insert((key, claim));
        }
    }
    Ok(still)
}
