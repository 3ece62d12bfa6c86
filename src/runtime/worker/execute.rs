//! Drives a burst through its steps, one consuming type each: `Loaded`, `Prepared`, `Finished`, `Committed`. A step releases
//! what it drops.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;

use super::backoff::backoff;
use super::claim::{Loaded, Locked};
use super::commit::Committed;
use super::release::{give_back, release_claims};
use super::run::{self, RunEnd};
use super::{complete, prepare, volatile};
use crate::error::panic_text;
use crate::execution::{Status, SubStatus};
use crate::failpoint;
use crate::id::WorkId;
use crate::runtime::context::in_flight::BurstClaims;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{ClaimedRow, LoadedRow, Release, ReleaseCause};
use crate::store::code::{PauseMode, WorkKind};
use crate::trace::ClaimTime;
use crate::{Error, Result};

/// How long rows rest whose lock was lost before their burst began.
const AFTER_LOSS: Duration = Duration::from_millis(100);

/// How long rows rest that a draining cluster returns: a node that does not know of the resume yet would return them again.
const AFTER_DRAIN: Duration = Duration::from_millis(100);

/// Runs a burst in a task of its own, which no dropped request ends. It ends with the incarnation.
pub(crate) fn spawn(node: &Arc<NodeContext>, mut loaded: Loaded, permit: OwnedSemaphorePermit) {
    loaded.locked.lock.keep_worker(permit);
    let node = Arc::clone(node);
    let incarnation = node.database.incarnation;
    let span = tracing::debug_span!(
        "burst",
        instance = %loaded.locked.key.1,
        definition = loaded.definition_id(),
        %incarnation
    );
    let (tasks, polled) = (node.lifecycle.tasks.clone(), loaded.claims.polled());
    // Boxed from the beginning, as it is large and moved several times until it runs. Rare waits in it are boxed, too.
    let task = Box::pin(async move {
        let mut wakes = WakeOnDrop {
            node: Arc::clone(&node),
            polls_again: true,
        };
        wakes.polls_again = execute(&node, loaded).await;
    });
    tasks.spawn(tracing::Instrument::instrument(polled.around(task), span));
}

/// Wakes the poller when a burst has released everything, however it ended: more work may be ready for its instance.
struct WakeOnDrop {
    node: Arc<NodeContext>,
    polls_again: bool,
}

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        if self.polls_again || self.node.claims.bytes.can_retry() {
            self.node.claims.wake_timer.wake_again();
        }
        if self.node.lifecycle.is_draining() {
            // Other nodes take over what is left of its instance.
            self.node.notifications.wake.no_capacity();
        }
    }
}

/// Runs an instance until it waits or ends, and replies to the callers. Returns false if no work is left for it.
async fn execute(node: &Arc<NodeContext>, loaded: Loaded) -> bool {
    let Loaded {
        locked,
        rows,
        state,
        claims,
        charge: _charge,
        isolation,
        claim,
    } = loaded;
    let key = locked.key.clone();
    let failures = rows.iter().map(|row| row.failures).max().unwrap_or(0);
    record_latency(&rows);
    // A panic counts against the rows: without an end of its own the burst would be repeated forever.
    let steps = AssertUnwindSafe(run_steps(node, locked, rows, state, claim, &claims)).catch_unwind();
    let executed = steps.await.unwrap_or_else(|panic| {
        metrics::counter!("mainspring_burst_panics_total").increment(1);
        Err(Error::internal(format!("the burst panicked: {}", panic_text(&*panic))))
    });
    if let Err(error) = &executed {
        let reason = error.to_string();
        let how = if error.is_database_fault() {
            node.commits.writer.breaker().record_instance_fault(&key, error);
            complete::after_database_fault(node, failures)
        } else {
            tracing::error!(%error, "a burst could not be run; it is retried later");
            Release::after(error, &reason, backoff(failures))
        };
        Box::pin(release_claims(node, &key, &claims.claims(), how)).await;
    }
    // An instance that has ended may have work that polls left out meanwhile, one that waits may have met another stimulus.
    // And a poll leaves out all isolated rows while one of them runs.
    let has_ended = matches!(executed, Ok(Some(Status::Finished)));
    if matches!(executed, Ok(Some(_))) {
        node.claims.vacuum.count_burst();
    }
    claims.remove() || isolation.is_some() || !has_ended
}

/// Records how long the rows of a burst that begins have been due.
fn record_latency(rows: &[ClaimedRow]) {
    for row in rows.iter().filter(|row| row.is_from_outside()) {
        let waited = row.clock.now().signed_duration_since(row.due).to_std();
        metrics::histogram!("mainspring_dispatch_latency_seconds").record(waited.unwrap_or_default());
    }
}

/// Returns the status of the instance after its last commit; none if that commit did not come.
async fn run_steps(
    node: &Arc<NodeContext>,
    locked: Locked,
    rows: Vec<ClaimedRow>,
    state: Option<LoadedRow>,
    claim: Option<ClaimTime>,
    claims: &BurstClaims,
) -> Result<Option<Status>> {
    let key = locked.key.clone();
    let has_cancel = rows
        .iter()
        .any(|row| matches!(row.instruction, Some((WorkKind::Cancel, _))));
    if node.pause.mode() == PauseMode::Draining && !has_cancel {
        let how = Release {
            cause: ReleaseCause::None,
            pause: AFTER_DRAIN,
        };
        Box::pin(give_back(node, &key, &rows, how)).await;
        return Ok(None);
    }
    let files = volatile::hold(node, &rows);
    let Some(mut prepared) = prepare::prepare(node, locked, rows, state, claim, files.as_ref()).await? else {
        return Ok(None);
    };
    let mut consumed: Vec<(WorkId, bool)> = Vec::new();
    loop {
        failpoint::hit("burst.before").await?;
        failpoint::hit_of("burst.instance.", key.1.as_str()).await?;
        if prepared.locked.lock.is_lost() {
            tracing::debug!("the lock was lost before the burst began; its claims are released");
            let (cause, pause) = (ReleaseCause::None, AFTER_LOSS);
            Box::pin(give_back(node, &key, &prepared.rows, Release { cause, pause })).await;
            return Ok(None);
        }
        // Before the commit nothing was written: the next claim runs the rows again.
        let finished = tokio::select! {
            biased;
            () = node.lifecycle.stop.cancelled() => return Ok(None),
            () = claims.cancelled() => {
                tracing::debug!("the instance was cancelled or deleted; its burst stops");
                Box::pin(release_claims(node, &key, &claims.claims(), Release::IMMEDIATE)).await;
                return Ok(None);
            }
            // Boxed: it is large and mostly short, and the next burst reuses its memory while it is in the cache.
            ran = Box::pin(run::run(node, prepared)) => match ran? {
                RunEnd::Finished(finished) => *finished,
                RunEnd::Lost { outcome, rows } => {
                    Box::pin(complete::release_lost(node, &key, outcome, rows)).await;
                    return Ok(None);
                }
                RunEnd::Deferred(pause) => {
                    tracing::debug!(?pause, "there is no capacity for a script of the burst; it is retried later");
                    let cause = ReleaseCause::None;
                    Box::pin(release_claims(node, &key, &claims.claims(), Release { cause, pause })).await;
                    return Ok(None);
                }
            },
        };
        failpoint::hit("burst.after").await?;
        match finished.commit(node, claims).await? {
            Committed::Done {
                lock,
                consumed: last,
                state,
                commit,
            } => {
                consumed.extend(last);
                let (status, sub_status) = (state.status(), state.sub_status());
                tracing::debug!(?status, ?sub_status, rows = consumed.len(), "a burst is committed");
                complete::reply_committed(node, consumed, state, commit);
                if commit.released_schedule {
                    node.overlap_ended();
                }
                if sub_status == SubStatus::Cancelled {
                    // Under the instance's lock, so that no other node claims it meanwhile.
                    Box::pin(complete::delete_cancelled_work(node, &key)).await;
                }
                drop(lock);
                return Ok(Some(status));
            }
            Committed::Yielded {
                mut next,
                consumed: more,
                has_more,
            } => {
                consumed.extend(more);
                let is_paused = node.pause.mode() != PauseMode::Running;
                let lock = &next.locked.lock;
                let is_given_up = is_paused || lock.is_lost() || !lock.has_worker();
                let is_over = has_more || is_given_up || node.lifecycle.is_draining();
                if is_over || !Box::pin(next.lock(node)).await {
                    // The next claim includes the other work (a cancel, say); a node that drains leaves it to others; a
                    // burst that had to wait for its commit has no worker any more; another node may hold a lost lock.
                    Box::pin(give_back(node, &key, &next.rows, Release::IMMEDIATE)).await;
                    return Ok(None);
                }
                // What the commit has woken waits for this thread, which the next activity may keep.
                tokio::task::yield_now().await;
                prepared = *next;
            }
            Committed::Lost { outcome, rows } => {
                Box::pin(complete::release_lost(node, &key, outcome, rows)).await;
                return Ok(None);
            }
        }
    }
}
