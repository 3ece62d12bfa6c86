//! Who fires schedules. Unless told otherwise every node with the role does: an occurrence is moved on by
//! compare-and-set, so that it fires once however many try. Where one shall be active at a time, the candidates elect it.
//!
//! # Invariants
//!
//! - The active one holds a lock of the database on the session of its registration. The server gives it to the next
//!   candidate in line when that session ends, however it ends: there is no lease that must run out first.
//! - A term is a number that the database has given out over that very session, greater than those of all before.
//! - It trusts its term only for as long as a check-in that was *sent* within the tolerance was answered, by the monotonic
//!   clock: others take a node for dead after that at the earliest. Slow answers extend nothing.
//! - All this spares the database work; that an occurrence fires once does not rest on it.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Membership;
use super::check_in::CheckInReport;
use crate::Result;
use crate::db::Pool;
use crate::id::Incarnation;
use crate::lock::{LockGuard, SessionLocks};
use crate::store::node;

/// How long a candidate stands in line before it asks anew.
const IN_LINE: Duration = Duration::from_secs(3600);

/// After a question that the database did not answer.
const AGAIN: Duration = Duration::from_millis(500);

/// Whether and how a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FiringMode {
    /// It fires nothing.
    Off,
    /// It fires, as do all others that may.
    EveryNode,
    /// It fires while it is the one that was elected.
    Leader,
}

/// In which right a node fires: greater than that of whoever did before. Zero where everybody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term(pub(crate) u64);

/// The right to fire. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Election {
    mode: FiringMode,
    reports: watch::Receiver<CheckInReport>,
    elected: watch::Receiver<Option<Term>>,
}

impl Election {
    /// The term in which this node may fire at this moment; none: it may not. Ask before each round of firing.
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

    /// Changes when this node is elected, and when it is so no more: then it is time to look what is due.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<Term>> {
        self.elected.clone()
    }
}

/// Takes part until `resigns`. The task ends with the handle.
pub(crate) fn start(
    membership: &Membership,
    pool: &Pool,
    mode: FiringMode,
    resigns: CancellationToken,
) -> (Election, AbortOnDropHandle<()>) {
    let (sender, elected) = watch::channel(None);
    let scheduler = Election {
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
            let mut stands = Box::pin(candidate.stand());
            tokio::select! {
                () = resigns.cancelled() => {}
                () = &mut stands => {}
            }
            let was_elected = candidate.elected.send_replace(None).is_some();
            // With the lock: the next one may begin.
            drop(stands);
            if was_elected {
                tracing::info!("this node has resigned as the active scheduler");
                candidate.tell(None).await;
            }
        }
        // Whoever watches takes an end for a failure.
        std::future::pending().await
    };
    (scheduler, AbortOnDropHandle::new(tokio::spawn(task)))
}

struct Candidate {
    locks: SessionLocks,
    pool: Pool,
    incarnation: Incarnation,
    taken_over: watch::Receiver<u64>,
    elected: watch::Sender<Option<Term>>,
}

impl Candidate {
    /// Stands in line, and holds the office for as long as the session lasts.
    async fn stand(&self) {
        let mut taken_over = self.taken_over.clone();
        loop {
            // A place in line hears of a release at once. Who is dead says nothing: whoever took over from it asks anew.
            let stood = tokio::select! {
                stood = self.is_elected() => stood,
                changed = taken_over.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            match stood {
                Ok((lock, term)) => {
                    tracing::info!(term = term.0, "this node is the active scheduler");
                    self.elected.send_replace(Some(term));
                    self.tell(Some(term)).await;
                    lock.lost().await;
                    tracing::warn!(
                        term = term.0,
                        "this node is the active scheduler no more: its session was lost"
                    );
                    self.elected.send_replace(None);
                }
                Err(error) if error.code() == "lock-timeout" => {}
                Err(error) => {
                    tracing::debug!(%error, "no election yet");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn is_elected(&self) -> Result<(LockGuard, Term)> {
        let lock = self.locks.scheduler(IN_LINE).await?;
        let term = Term(lock.fencing_token().await?.get());
        Ok((lock, term))
    }

    /// For those who look; nothing depends on it.
    async fn tell(&self, term: Option<Term>) {
        if let Err(error) = node::report_term(&self.pool, self.incarnation, term.map(|term| term.0)).await {
            tracing::debug!(%error, "nobody could be told who is the active scheduler");
        }
    }
}

#[cfg(test)]
mod tests;
