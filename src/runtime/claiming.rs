//! The loop that finds what is to be done: peek, try the locks in one batch, claim and load what was locked, run it.
//!
//! It looks when something local may have changed (a row was accepted, a burst ended, a delay is over), and at every
//! check-in, whose report says when the next row is due: a wake-up that was lost costs one check-in interval.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::burst::{Locked, give_back};
use super::shift::Shift;
use crate::Result;
use crate::failpoint;
use crate::store::claim::{self, InstanceKey, Return};
use crate::store::commit::Claim;
use crate::store::housekeeping;

/// The most instances that one round takes on.
const ROUND: usize = 64;

/// How long an instance is left alone whose lock somebody else has; jittered.
const ELSEWHERE: Duration = Duration::from_millis(100);

/// How often claims are compared with memory.
const COMPARISON: Duration = Duration::from_secs(10);

/// How often partitions are made ahead.
const PARTITIONS: Duration = Duration::from_secs(3600);

/// Claims and runs until the shift drains or stops.
pub(super) async fn run(shift: Arc<Shift>) {
    let mut reports = shift.reports.clone();
    shift.alarm.now();
    while !shift.is_draining() && !shift.stop.is_cancelled() {
        // All three are cancellation safe.
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = shift.alarm.rings() => {}
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                let report = reports.borrow_and_update().clone();
                if let Some(due) = report.pulse.next_due {
                    shift.alarm.at(report.sent + due);
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

/// One look; true if there may be more.
async fn round(shift: &Arc<Shift>) -> Result<bool> {
    let room = shift.permits.available_permits().min(ROUND);
    if room == 0 || shift.is_draining() {
        // A burst that ends rings the alarm.
        return Ok(false);
    }
    let found = claim::peek(&shift.pool, room, &shift.in_flight.hidden()).await?;
    if found.instances.is_empty() {
        return Ok(false);
    }
    // By rows: one instance with many of them must not hide the others until the next check-in.
    let full = found.full;
    let locked = lock(shift, found.instances).await?;
    if locked.is_empty() {
        return Ok(full);
    }
    failpoint::hit("claim.locked").await?;
    for loaded in Locked::load(shift, locked).await? {
        // Only this loop and the doors take permits; a door may have been faster, then the rest waits for a moment.
        let permit = Arc::clone(&shift.permits).acquire_owned();
        let Ok(permit) = permit.await else { return Ok(false) };
        shift.attend(loaded, permit);
    }
    Ok(full)
}

/// Takes the locks that are free. Instances whose lock somebody else has are left alone for a moment: whoever holds it
/// looks for more after its release.
async fn lock(shift: &Shift, found: Vec<InstanceKey>) -> Result<Vec<Locked>> {
    let keys = found.iter().map(|key| shift.lock_key(key)).collect();
    let guards = shift.locks.try_lock(keys).await?;
    let mut locked = Vec::new();
    for (key, guard) in found.into_iter().zip(guards) {
        match guard {
            Some(guard) => locked.push(Locked::new(key, guard)),
            None => {
                let until = Instant::now() + ELSEWHERE.mul_f64(rand::random_range(0.5..1.5));
                shift.in_flight.leave_alone(key, until);
                shift.alarm.at(until);
            }
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
        if let Err(error) = housekeeping::expire(&shift.pool).await {
            tracing::debug!(%error, "expired rows could not be removed");
        }
        if partitions.elapsed() > PARTITIONS {
            match housekeeping::ensure_partitions(&shift.pool).await {
                Ok(()) => partitions = Instant::now(),
                Err(error) => tracing::error!(%error, "partitions cannot be made ahead; commits fail in a week"),
            }
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
            give_back(shift, &key, &[claim], Return::FREELY).await;
        } else {
            still.insert((key, claim));
        }
    }
    Ok(still)
}
