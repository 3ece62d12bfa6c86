//! The watch over a neighbour.
//!
//! The live incarnations are a ring, in order. Each node waits on a connection of its own for the liveness lock of the
//! next one: a process that dies frees it with its socket, within milliseconds, and whoever waited takes over. The wait
//! is bounded and issued again; see `wait_for_lock`. Who belongs to the ring is learned from the check-ins.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;

use super::check_in::CheckInReport;
use super::take_over::TakeOver;
use crate::Result;
use crate::db::Session;
use crate::id::Incarnation;
use crate::store::lock as store_lock;

/// How long one wait takes at most, but for the jitter: as in DESIGN where hardly anything is written, and at least long
/// enough to cost nothing that counts.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// In so many transactions that write. A statement that waits has a snapshot, as any: meanwhile nothing that was deleted or
/// updated since, by anybody in the database, is cleared away, and each look at the queue walks over it.
const PINNED: f64 = 10.0;

/// Between two failures of the watch; jittered.
const PAUSE: Duration = Duration::from_millis(500);

/// Owns the task.
pub(super) struct LivenessWatch(#[allow(dead_code, reason = "held for its drop")] AbortOnDropHandle<()>);

impl LivenessWatch {
    /// Watches until dropped. `ends` is dropped with the task, however that ends.
    pub(super) fn start(
        own: Incarnation,
        take_over: TakeOver,
        mut reports: watch::Receiver<CheckInReport>,
        ends: DropGuard,
    ) -> Self {
        Self(AbortOnDropHandle::new(tokio::spawn(async move {
            let _ends = ends;
            let (mut line, mut gone) = (None, BTreeSet::new());
            loop {
                let next = successor(own, &reports.borrow_and_update().check_in.members, &mut gone);
                let Some(neighbour) = next else {
                    if reports.changed().await.is_err() {
                        return;
                    }
                    continue;
                };
                match watch_over(own, neighbour, &take_over, &mut line, &mut reports, &mut gone).await {
                    Ok(true) => {
                        gone.insert(neighbour);
                    }
                    Ok(false) => {}
                    Err(error) => {
                        line = None;
                        tracing::warn!(%error, %neighbour, "the watch over a neighbour failed");
                        tokio::time::sleep(PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
                    }
                }
            }
        })))
    }
}

/// The next in the ring; none if there is nobody else. `gone` are those whom the last check-in may still show.
fn successor(own: Incarnation, members: &[Incarnation], gone: &mut BTreeSet<Incarnation>) -> Option<Incarnation> {
    gone.retain(|dead| members.contains(dead));
    let others = || {
        members
            .iter()
            .copied()
            .filter(|other| *other != own && !gone.contains(other))
    };
    others().filter(|other| *other > own).min().or_else(|| others().min())
}

/// How long a wait takes at most, of so many transactions a second that write; not known yet: they may be many.
fn patience(writes: Option<f64>) -> Duration {
    let (least, most) = PATIENCE;
    let wanted = writes.map_or(0.0, |writes| PINNED / writes);
    Duration::from_secs_f64(wanted.clamp(least.as_secs_f64(), most.as_secs_f64()))
}

/// Waits once for a neighbour's end; true if it came, and was seen to. Returns early when somebody else is next.
async fn watch_over(
    own: Incarnation,
    neighbour: Incarnation,
    take_over: &TakeOver,
    line: &mut Option<Session>,
    reports: &mut watch::Receiver<CheckInReport>,
    gone: &mut BTreeSet<Incarnation>,
) -> Result<bool> {
    let session = match line {
        Some(session) => session,
        None => line.insert(take_over.connector().open().await?),
    };
    // Jittered, so that a cluster that started together does not come back together.
    let patience = patience(reports.borrow().writes).mul_f64(rand::random_range(1.0..2.5));
    let waits = store_lock::wait_until_free(&session.client, take_over.liveness(neighbour).0, patience);
    tokio::pin!(waits);
    let free = loop {
        tokio::select! {
            free = &mut waits => break free?,
            changed = reports.changed() => {
                if changed.is_err() {
                    return Ok(false);
                }
                let next = successor(own, &reports.borrow_and_update().check_in.members, gone);
                if next != Some(neighbour) {
                    take_over.stop_waiting(&session.client).await?;
                    // Cancelled, or just won: then it is dead, and is seen to all the same.
                    break waits.await.unwrap_or(false);
                }
            }
        }
    };
    if free {
        take_over.of_the_dead(&session.client, neighbour).await?;
    }
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_written_the_shorter_is_a_wait() {
        let (least, most) = PATIENCE;
        assert_eq!(patience(None), least);
        assert_eq!(patience(Some(0.0)), most);
        assert_eq!(patience(Some(2.0)), most);
        assert_eq!(patience(Some(20.0)), Duration::from_millis(500));
        assert_eq!(patience(Some(1e9)), least);
    }

    #[test]
    fn the_ring_wraps_and_leaves_out_who_is_gone() {
        let ring = [3, 5, 8].map(Incarnation);
        let next = |own, members: &[Incarnation], gone: &[i64]| {
            let mut gone = gone.iter().copied().map(Incarnation).collect();
            successor(Incarnation(own), members, &mut gone).map(|next| next.0)
        };
        assert_eq!(next(3, &ring, &[]), Some(5));
        assert_eq!(next(8, &ring, &[]), Some(3));
        assert_eq!(next(3, &ring, &[5]), Some(8));
        assert_eq!(next(5, &ring, &[3, 8]), None);
        assert_eq!(next(3, &ring[..1], &[]), None);
        assert_eq!(next(3, &[], &[]), None);
    }
}
