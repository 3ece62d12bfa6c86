//! Who attends to a burst from its claim to its last commit, tells the doors, and gives back what was not consumed.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::Result;
use crate::execution::{InstanceState, InstanceTimestamps, Status, SubStatus};
use crate::failpoint;
use crate::id::WorkId;
use crate::runtime::context::in_flight::Hold;
use crate::runtime::context::node_context::{Shift, pause};
use crate::runtime::context::replies::Tidings;
use crate::runtime::worker::steps::{self, Loaded, Locked, Ran, Settled};
use crate::store::claim::{ClaimedRow, InstanceKey, LoadedRow, Release, ReleaseCause};
use crate::store::commit::{Claim, Commit, CommitOutcome};
use crate::store::work;

/// Gives a burst a task of its own, which nobody's hanging up ends. It ends with the shift.
pub(crate) fn spawn(shift: &Arc<Shift>, loaded: Loaded, permit: OwnedSemaphorePermit) {
    let shift = Arc::clone(shift);
    let span = tracing::debug_span!("burst", instance = %loaded.locked.key.1, incarnation = %shift.incarnation);
    let tasks = shift.tasks.clone();
    // On the heap from the beginning: it is large, and moved several times until it runs. For the same reason what it seldom
    // waits for has a place of its own.
    let task = Box::pin(async move {
        let mut rings = Rings {
            shift: Arc::clone(&shift),
            news: true,
        };
        rings.news = attend(&shift, loaded).await;
        drop(permit);
    });
    tasks.spawn(tracing::Instrument::instrument(task, span));
}

/// Rings when a burst has let go of everything, however it ended: more may have come for its instance.
struct Rings {
    shift: Arc<Shift>,
    news: bool,
}

impl Drop for Rings {
    fn drop(&mut self) {
        if self.news {
            self.shift.alarm.again();
        }
        if self.shift.is_draining() {
            // Others do what it has left to do.
            self.shift.wake.overflow();
        }
    }
}

/// Runs an instance until it waits or ends, and tells the doors. False: there is nothing left to do for it.
async fn attend(shift: &Shift, loaded: Loaded) -> bool {
    let Loaded {
        locked,
        rows,
        standing,
        hold,
        suspicion,
    } = loaded;
    let key = locked.key.clone();
    let failures = rows.iter().map(|row| row.failures).max().unwrap_or(0);
    let driven = drive(shift, locked, rows, standing, &hold).await;
    if let Err(error) = &driven {
        let reason = error.to_string();
        let how = if error.is_database_fault() {
            shift.writer.breaker().record_instance_fault(&key, error);
            after_fault(shift, failures)
        } else {
            tracing::error!(%error, "a burst could not be run; it is tried again later");
            Release::after(error, &reason, pause(failures))
        };
        Box::pin(shift.give_back(&key, &hold.claims(), how)).await;
    }
    // What has ended is left with what a look may have passed over meanwhile; what waits may have met something else. And a
    // look passes over all suspects while one of them runs.
    let has_ended = matches!(driven, Ok(Some(Status::Finished)));
    if matches!(driven, Ok(Some(_))) {
        shift.tidy.ran();
    }
    hold.release() || suspicion.is_some() || !has_ended
}

/// The status that it came to, unless it came to nothing.
async fn drive(
    shift: &Shift,
    locked: Locked,
    rows: Vec<ClaimedRow>,
    standing: Option<LoadedRow>,
    hold: &Hold,
) -> Result<Option<Status>> {
    let key = locked.key.clone();
    let Some(mut prepared) = steps::prepare(shift, locked, rows, standing).await? else {
        return Ok(None);
    };
    let mut told: Vec<(WorkId, bool)> = Vec::new();
    loop {
        failpoint::hit("burst.before").await?;
        failpoint::hit_of("burst.instance.", key.1.as_str()).await?;
        // Before the commit nothing was done that matters: the rows go to whoever comes next.
        let finished = tokio::select! {
            biased;
            () = shift.stop.cancelled() => return Ok(None),
            () = hold.lost() => {
                tracing::debug!("the instance was cancelled or deleted; its burst stops");
                Box::pin(shift.give_back(&key, &hold.claims(), Release::IMMEDIATE)).await;
                return Ok(None);
            }
            // It needs much room, and seldom for long: what it gives back is the next one's, still warm.
            ran = Box::pin(interpret(shift, prepared)) => match ran? {
                Ran::Finished(finished) => *finished,
                Ran::Deferred(pause) => {
                    tracing::debug!(?pause, "there is no room for a script of the burst; it is tried again later");
                    let cause = ReleaseCause::None;
                    Box::pin(shift.give_back(&key, &hold.claims(), Release { cause, pause })).await;
                    return Ok(None);
                }
            },
        };
        failpoint::hit("burst.after").await?;
        match finished.commit(shift, hold).await? {
            Settled::Done {
                guard,
                told: last,
                state,
                commit,
            } => {
                told.extend(last);
                let (status, sub_status) = (state.status(), state.sub_status());
                tell(shift, told, state, commit);
                if commit.released_schedule {
                    shift.freed();
                }
                if sub_status == SubStatus::Cancelled {
                    // Under the instance's lock, so that no other node claims it meanwhile.
                    Box::pin(delete_the_rest(shift, &key)).await;
                }
                drop(guard);
                return Ok(Some(status));
            }
            Settled::GoesOn {
                mut next,
                told: more,
                others_wait,
            } => {
                told.extend(more);
                if others_wait || shift.is_draining() || !Box::pin(next.lock(shift)).await {
                    // What came meanwhile (a cancel, say) is taken along by the next burst; whoever drains hands over.
                    let claims: Vec<Claim> = next.rows.iter().map(|row| row.claim.clone()).collect();
                    Box::pin(shift.give_back(&key, &claims, Release::IMMEDIATE)).await;
                    return Ok(None);
                }
                prepared = *next;
            }
            Settled::Lost { outcome, rows } => {
                Box::pin(settle_loss(shift, &key, outcome, rows)).await;
                return Ok(None);
            }
        }
    }
}

/// Deletes what is left to do for an instance that was cancelled, page by page. What a failure leaves meets nothing in a
/// burst of its own.
async fn delete_the_rest(shift: &Shift, key: &InstanceKey) {
    let mut after = WorkId(i64::MIN);
    loop {
        match work::delete_cancelled_page(&shift.pool, &key.0, &key.1, after).await {
            Ok(page) => {
                let Some(last) = page.last() else { return };
                after = *last;
                metrics::counter!("mainspring_cancelled_work_deleted_total").increment(page.len() as u64);
                for work in page {
                    match shift.doors.take(&key.1, work) {
                        Some(door) => drop(door.send(Tidings::Unmet)),
                        None => shift.wake.consumed(work),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "what is left to do for a cancelled instance could not be deleted; bursts consume it");
                return;
            }
        }
    }
}

async fn interpret(shift: &Shift, prepared: steps::Prepared) -> Result<Ran> {
    failpoint::hit("burst.running").await?;
    steps::run(shift, prepared).await
}

fn tell(shift: &Shift, told: Vec<(WorkId, bool)>, state: Box<InstanceState>, commit: Commit) {
    let finished_at = (state.status() == Status::Finished).then_some(commit.committed_at);
    let meta = InstanceTimestamps {
        created_at: commit.created_at,
        updated_at: commit.committed_at,
        finished_at,
    };
    let mut open = Vec::new();
    for (work, matched) in told {
        match shift.doors.take(state.instance_id(), work) {
            Some(door) => open.push((door, matched)),
            None => shift.wake.consumed(work),
        }
    }
    let last = open.pop();
    let tidings = |state, matched| Tidings::Committed { state, meta, matched };
    for (door, matched) in open {
        let _ = door.send(tidings(state.clone(), matched));
    }
    if let Some((door, matched)) = last {
        let _ = door.send(tidings(state, matched));
    }
}

/// How rows come back that met a fault of the database: without blame, while all of this node does.
fn after_fault(shift: &Shift, failures: i32) -> Release<'static> {
    let breaker = shift.writer.breaker();
    if breaker.is_open() {
        return Release {
            cause: ReleaseCause::None,
            pause: breaker.pause(),
        };
    }
    Release {
        cause: ReleaseCause::Transient,
        pause: pause(failures),
    }
}

/// A burst that wrote nothing gives back what it was born of, with the blame that it earned.
async fn settle_loss(shift: &Shift, key: &InstanceKey, outcome: CommitOutcome, rows: Vec<ClaimedRow>) {
    let claims: Vec<Claim> = rows.iter().map(|row| row.claim.clone()).collect();
    let failures = rows.iter().map(|row| row.failures).max().unwrap_or(0);
    match outcome {
        CommitOutcome::Committed(_) => {}
        CommitOutcome::ClaimLost | CommitOutcome::VersionConflict => {
            tracing::debug!(instance = %key.1, ?outcome, "a burst lost to another writer; nothing was written");
            shift.give_back(key, &claims, Release::IMMEDIATE).await;
        }
        CommitOutcome::Busy => {
            let how = Release {
                cause: ReleaseCause::Transient,
                pause: pause(failures),
            };
            shift.give_back(key, &claims, how).await;
        }
        CommitOutcome::Refused(error) => {
            tracing::error!(instance = %key.1, %error, "the database refuses what a burst would write");
            let reason = error.to_string();
            let how = Release::after(&error, &reason, pause(failures));
            shift.give_back(key, &claims, how).await;
        }
        CommitOutcome::DatabaseFault(error) => {
            tracing::debug!(instance = %key.1, %error, "the database does not take a commit; its burst is run again later");
            shift.give_back(key, &claims, after_fault(shift, failures)).await;
        }
        CommitOutcome::Fenced => {
            tracing::warn!(instance = %key.1, "this incarnation was declared dead; a burst was refused");
            shift.stop.cancel();
        }
        CommitOutcome::Unknown => {
            for work in rows.iter().filter_map(|row| match row.claim {
                Claim::Work(work, _) => Some(work),
                Claim::Timer(..) => None,
            }) {
                if let Some(door) = shift.doors.take(&key.1, work) {
                    let _ = door.send(Tidings::Unknown);
                }
            }
            let how = Release {
                cause: ReleaseCause::Transient,
                pause: pause(failures),
            };
            shift.give_back(key, &claims, how).await;
        }
    }
}
