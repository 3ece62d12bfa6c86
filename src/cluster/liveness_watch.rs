//! The watch over the liveness lock of a neighbour.
//!
//! The registered incarnations form a ring, in order. Each node waits, on its own connection, for the liveness lock of the
//! next one: a process that ends releases its lock with its socket, within milliseconds, and the waiting node takes over. A
//! wait is bounded and repeated; see `wait_for_lock`. The check-ins bring the members of the ring.
//!
//! # How long a wait takes
//!
//! A waiting statement holds a snapshot, as any statement does. Rows that any session of the database deletes or updates in
//! the meantime are not vacuumed, and each poll of the queue reads past them. So the more is written, the shorter a wait is.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;

use super::check_in::CheckInReport;
use super::take_over::TakeOver;
use crate::Result;
use crate::db::Session;
use crate::id::Incarnation;
use crate::store::lock as store_lock;

/// The shortest and the longest wait, without the jitter: the longest for a nearly idle database, the shortest so that
/// the waits cost little.
const WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A wait lasts for this many writing transactions of the server, within its bounds.
const WRITES_PER_WAIT: f64 = 10.0;

/// The pause after a failure of the watch; jittered.
const PAUSE: Duration = Duration::from_millis(500);

/// Watches the neighbours, one after another, while the check-ins continue.
pub(super) async fn watch(own: Incarnation, take_over: TakeOver, mut reports: watch::Receiver<CheckInReport>) {
    let (mut connection, mut removed) = (None, BTreeSet::new());
    loop {
        let next = next_in_ring(own, &reports.borrow_and_update().check_in.members, &mut removed);
        let Some(neighbour) = next else {
            if reports.changed().await.is_err() {
                return;
            }
            continue;
        };
        match wait_for_end(own, neighbour, &take_over, &mut connection, &mut reports, &mut removed).await {
            Ok(true) => {
                removed.insert(neighbour);
            }
            Ok(false) => {}
            Err(error) => {
                connection = None;
                tracing::warn!(%error, %neighbour, "the liveness watch over a neighbour failed");
                tokio::time::sleep(PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
            }
        }
    }
}

/// The next member of the ring; none if this node is the only one. The last check-in may still show the `removed` ones.
fn next_in_ring(own: Incarnation, members: &[Incarnation], removed: &mut BTreeSet<Incarnation>) -> Option<Incarnation> {
    removed.retain(|node| members.contains(node));
    let others = || {
        members
            .iter()
            .copied()
            .filter(|other| *other != own && !removed.contains(other))
    };
    others().filter(|other| *other > own).min().or_else(|| others().min())
}

/// The longest wait at so many writing transactions per second; the shortest while the number is unknown.
fn wait_timeout(writes: Option<f64>) -> Duration {
    let (shortest, longest) = WAIT;
    let wanted = writes.map_or(0.0, |writes| WRITES_PER_WAIT / writes);
    Duration::from_secs_f64(wanted.clamp(shortest.as_secs_f64(), longest.as_secs_f64()))
}

/// Waits once for the end of a neighbour, and takes over from it; true if it has ended. Returns early when another member
/// becomes the next one.
async fn wait_for_end(
    own: Incarnation,
    neighbour: Incarnation,
    take_over: &TakeOver,
    connection: &mut Option<Session>,
    reports: &mut watch::Receiver<CheckInReport>,
    removed: &mut BTreeSet<Incarnation>,
) -> Result<bool> {
    let session = match connection {
        Some(session) => session,
        None => {
            let session = take_over.connector().open().await?;
            store_lock::prepare_waits(&session.client).await?;
            connection.insert(session)
        }
    };
    // Jittered, so that nodes that were started together do not repeat their waits together.
    let timeout = wait_timeout(reports.borrow().writes).mul_f64(rand::random_range(1.0..2.5));
    let wait = store_lock::wait_until_free(&session.client, take_over.liveness(neighbour).0, timeout);
    tokio::pin!(wait);
    let ended = loop {
        tokio::select! {
            ended = &mut wait => break ended?,
            changed = reports.changed() => {
                if changed.is_err() {
                    return Ok(false);
                }
                let next = next_in_ring(own, &reports.borrow_and_update().check_in.members, removed);
                if next != Some(neighbour) {
                    take_over.stop_waiting(&session.client).await?;
                    // Cancelled, or just granted: then the neighbour has ended, and is taken over from all the same.
                    break wait.await.unwrap_or(false);
                }
            }
        }
    };
    if ended {
        take_over.take_over_ended(&session.client, neighbour).await?;
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_written_the_shorter_is_a_wait() {
        let (shortest, longest) = WAIT;
        assert_eq!(wait_timeout(None), shortest);
        assert_eq!(wait_timeout(Some(0.0)), longest);
        assert_eq!(wait_timeout(Some(2.0)), longest);
        assert_eq!(wait_timeout(Some(20.0)), Duration::from_millis(500));
        assert_eq!(wait_timeout(Some(1e9)), shortest);
    }

    #[test]
    fn the_ring_wraps_and_leaves_out_removed_nodes() {
        let ring = [3, 5, 8].map(Incarnation);
        let next = |own, members: &[Incarnation], removed: &[i64]| {
            let mut removed = removed.iter().copied().map(Incarnation).collect();
            next_in_ring(Incarnation(own), members, &mut removed).map(|next| next.0)
        };
        assert_eq!(next(3, &ring, &[]), Some(5));
        assert_eq!(next(8, &ring, &[]), Some(3));
        assert_eq!(next(3, &ring, &[5]), Some(8));
        assert_eq!(next(5, &ring, &[3, 8]), None);
        assert_eq!(next(3, &ring[..1], &[]), None);
        assert_eq!(next(3, &[], &[]), None);
    }
}
