//! The loop that finds what is to be done: peek, try the locks in one batch, claim and load what was locked, run it.
//!
//! It looks when something local may have changed (a row was accepted, a burst ended, a delay is over), when another
//! node hints that work waits, and at every check-in, whose report says when the next row is due: a wake-up that was
//! lost costs one check-in interval.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attend;
use super::burst::Locked;
use super::shift::Shift;
use crate::Result;
use crate::failpoint;
use crate::store::claim::{self, InstanceKey, Return};
use crate::store::commit::Claim;
use crate::store::housekeeping;

/// The most instances that one round takes on.
const ROUND: usize = 64;

/// How often claims are compared with memory.
const COMPARISON: Duration = Duration::from_secs(10);

/// How often partitions are made ahead.
const PARTITIONS: Duration = Duration::from_secs(3600);

/// Claims and runs until the shift drains or stops.
pub(super) async fn run(shift: Arc<Shift>) {
    let mut reports = shift.reports.clone();
    shift.alarm.now();
    while !shift.is_draining() && !shift.stop.is_cancelled() {
        if shift.workers == 0 {
            // Others run what this node accepts.
            tokio::select! {
                () = shift.stop.cancelled() => return,
                () = shift.draining.cancelled() => return,
            }
        }
        // All four are cancellation safe.
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = shift.draining.cancelled() => return,
            () = shift.alarm.rings() => {}
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
        match round(&shift).await {
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
async fn round(shift: &Arc<Shift>) -> Result<bool> {
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
    let found = claim::peek(&shift.pool, permits.len(), &shift.in_flight.hidden()).await?;
    if found.instances.is_empty() {
        return Ok(false);
    }
    // By rows: one instance with many of them must not hide the others until the next check-in.
    let full = found.full;
    if full && shift.permits.available_permits() == 0 {
        shift.wake.overflow();
    }
    let locked = lock(shift, found.instances).await?;
    if locked.is_empty() {
        return Ok(full);
    }
    failpoint::hit("claim.locked").await?;
    for (loaded, permit) in Locked::load(shift, locked).await?.into_iter().zip(permits) {
        attend::spawn(shift, loaded, permit);
    }
    // What could not be had just now is left alone for a moment, so this does not spin.
    Ok(full)
}

/// Takes the locks that are free.
async fn lock(shift: &Shift, found: Vec<InstanceKey>) -> Result<Vec<Locked>> {
    let keys = found.iter().map(|key| shift.lock_key(key)).collect();
    let guards = shift.locks.try_lock(keys).await?;
    let mut locked = Vec::new();
    for (key, guard) in found.into_iter().zip(guards) {
        match guard {
            Some(guard) => locked.push(Locked::new(key, guard)),
            None => shift.leave_alone(key),
        }
    }
    Ok(locked)
}

/// Compares claims with memory, makes partitions ahead and forgets what expired, until the shift stops.
pub(super) async fn keep_house(shift: Arc<Shift>) {
    let mut suspects = HashSet::new();
    let mut partitions = Instant::now();
    loop {
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = tokio::time::sleep(COMPARISON.mul_f64(rand::random_range(0.8..1.2))) => {}
        }
        match compare(&shift, &suspects).await {
            Ok(still) => suspects = still,
            Err(error) => tracing::debug!(%error, "claims could not be compared with memory"),
        }
        match expire(&shift).await {
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, "expired rows could not be removed"),
        }
        if partitions.elapsed() > PARTITIONS {
            match housekeeping::ensure_partitions(&shift.pool).await {
                Ok(()) => partitions = Instant::now(),
                Err(error) => tracing::error!(%error, "partitions cannot be made ahead; commits fail in a week"),
            }
        }
    }
}

/// Removes what has expired, batch after batch.
async fn expire(shift: &Shift) -> Result<()> {
    while !shift.stop.is_cancelled() && housekeeping::expire(&shift.pool).await? >= housekeeping::EXPIRED_AT_ONCE {}
    Ok(())
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
