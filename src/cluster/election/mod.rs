//! Which node fires schedules. By default every node with the role does: an occurrence is advanced by compare-and-set, so
//! it fires once however many nodes try. With a single scheduler, the candidates elect a leader.
//!
//! # Invariants
//!
//! - The leader holds a lock of the database on the session of its registration. When that session ends, however it ends,
//!   the server grants the lock to the next candidate: failover does not wait for a lease to expire.
//! - A term is a number that the database issued over that session, greater than those of all earlier leaders.
//! - A leader relies on its term only while a check-in that was *sent* within the tolerance is answered, by the monotonic
//!   clock: other nodes remove it no earlier than that. A slow answer does not extend it.
//! - An election only reduces the load on the database. The guarantee that an occurrence fires once does not depend on it.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::check_in::CheckInReport;
use super::membership::Membership;
use crate::Result;
use crate::db::Pool;
use crate::id::Incarnation;
use crate::lock::{LockHandle, SessionLocks};
use crate::store::node;

/// How long a candidate waits for the lock before it asks again.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3600);

/// The pause after a database error.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Whether and when a node fires schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FiringMode {
    /// Never.
    Off,
    /// Always, as do all others with the role.
    EveryNode,
    /// While it is the leader.
    Leader,
}

/// The number of a leadership, greater than that of every earlier leader. Zero where every node fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term(pub(crate) u64);

/// Whether this node may fire. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Election {
    mode: FiringMode,
    reports: watch::Receiver<CheckInReport>,
    elected: watch::Receiver<Option<Term>>,
}

impl Election {
    /// The term in which this node may fire at this moment; `None` if it may not. Ask before each batch of fires.
    pub(crate) fn may_fire(&self) -> Option<Term> {
        if !self.reports.borrow().is_fresh() {
            return None;
        }
        match self.mode {
            FiringMode::Off => None,
            FiringMode::EveryNode => Some(Term(0)),
            FiringMode::Leader => *self.elected.borrow(),
        }
    }

    /// Changes when this node becomes the leader, or is no longer: schedules may be due.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<Term>> {
        self.elected.clone()
    }
}

/// Takes part until `resign` is cancelled. The task ends with the handle.
pub(crate) fn start(
    membership: &Membership,
    pool: &Pool,
    mode: FiringMode,
    resign: CancellationToken,
) -> (Election, AbortOnDropHandle<()>) {
    let (sender, elected) = watch::channel(None);
    let election = Election {
        mode,
        reports: membership.reports(),
        elected,
    };
    let candidate = Candidate {
        locks: membership.locks.clone(),
        pool: pool.clone(),
        incarnation: membership.incarnation,
        taken_over: membership.taken_over(),
        elected: sender,
    };
    let task = async move {
        if mode == FiringMode::Leader {
            let mut campaign = Box::pin(candidate.campaign());
            tokio::select! {
                () = resign.cancelled() => {}
                () = &mut campaign => {}
            }
            let was_leader = candidate.elected.send_replace(None).is_some();
            // It holds the lock: the next leader may begin.
            drop(campaign);
            if was_leader {
                tracing::info!("this node has resigned as the leader of the schedulers");
                candidate.record_term(None).await;
            }
        }
        // The end of this task would count as a failure.
        std::future::pending().await
    };
    (election, AbortOnDropHandle::new(tokio::spawn(task)))
}

struct Candidate {
    locks: SessionLocks,
    pool: Pool,
    incarnation: Incarnation,
    taken_over: watch::Receiver<u64>,
    elected: watch::Sender<Option<Term>>,
}

impl Candidate {
    /// Waits for the lock, and leads while its session lasts; again and again.
    async fn campaign(&self) {
        let mut taken_over = self.taken_over.clone();
        loop {
            // A release notifies the next candidate at once. A process that crashes does not: after a take-over from one the
            // candidate asks again.
            let elected = tokio::select! {
                elected = self.win() => elected,
                changed = taken_over.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            match elected {
                Ok((lock, term)) => {
                    tracing::info!(term = term.0, "this node is elected leader of the schedulers");
                    self.elected.send_replace(Some(term));
                    self.record_term(Some(term)).await;
                    lock.lost().await;
                    tracing::warn!(
                        term = term.0,
                        "this node is no longer the leader of the schedulers: its lock session was lost"
                    );
                    self.elected.send_replace(None);
                }
                Err(error) if error.code() == "lock-timeout" => {}
                Err(error) => {
                    tracing::debug!(%error, "the election failed; it is retried");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    async fn win(&self) -> Result<(LockHandle, Term)> {
        let lock = self.locks.acquire_leadership(LOCK_TIMEOUT).await?;
        let term = Term(lock.fencing_token().await?.get());
        Ok((lock, term))
    }

    /// Shows the term to operators. Nothing depends on it.
    async fn record_term(&self, term: Option<Term>) {
        if let Err(error) = node::report_term(&self.pool, self.incarnation, term.map(|term| term.0)).await {
            tracing::debug!(%error, "the term of the leader could not be recorded");
        }
    }
}

#[cfg(test)]
mod tests;
