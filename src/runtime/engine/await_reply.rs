//! Doors that wait for what becomes of their row, or of the instance that an earlier row became.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::execution::SubStatus;
use crate::id::{Incarnation, InstanceId, WorkId};
use crate::runtime::context::replies::{Tidings, given_up, lost, unknown};
use crate::runtime::context::request::{Executed, ExecutedState};
use crate::runtime::engine::Engine;
use crate::runtime::engine::instances::no_instance;
use crate::runtime::engine::start::Awaited;
use crate::store::maintenance;
use crate::store::work::{self, WorkStatus};
use crate::{Error, Result};

/// How soon, and then how often, a door looks whether another node has consumed its row. Bursts of this node tell.
const LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// How long after its deadline a door may take to make sure that it promises nothing that is not kept. Beyond that its
/// answer is that nobody can say.
const LAST_WORD: Duration = Duration::from_secs(1);

impl Engine {
    /// What became of a start.
    pub(crate) async fn await_start(&self, awaited: Awaited, deadline: Instant) -> Result<Executed> {
        let Awaited {
            instance,
            row,
            accepted_by,
        } = awaited;
        if let Some((work, tidings)) = row {
            match self.await_row(instance.clone(), work, tidings, deadline).await {
                Ok(Some(executed)) => return Ok(executed),
                Ok(None) => {}
                // A delete says so of the row that it took; who only finds nothing does not know why.
                Err(missing) if missing.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        self.await_first_commit(instance, accepted_by, deadline).await
    }

    /// Waits until a row was consumed, by whichever node; none: it met nothing. A row that was given up:
    /// [`Error::is_dead_lettered`].
    pub(crate) async fn await_row(
        &self,
        instance: InstanceId,
        work: WorkId,
        mut tidings: oneshot::Receiver<Tidings>,
        deadline: Instant,
    ) -> Result<Option<Executed>> {
        let mut told = false;
        let mut pause = LOOK;
        loop {
            tokio::select! {
                heard = &mut tidings, if !told => match heard {
                    Ok(Tidings::Elsewhere) => (told, pause) = (true, Duration::ZERO),
                    Ok(tidings) => return answer(instance, tidings),
                    Err(_) => told = true,
                },
                () = tokio::time::sleep(pause) => {
                    pause = (pause * 3 / 2).clamp(LOOK, LONGEST_LOOK);
                    // A look over a connection that has gone silent does not outlive the deadline.
                    let look = tokio::time::timeout_at(deadline, self.fate(&instance, work)).await;
                    match look.unwrap_or(WorkStatus::Pending) {
                        WorkStatus::Pending => continue,
                        WorkStatus::DeadLettered => return Err(given_up(&instance)),
                        WorkStatus::Unmatched => return Ok(None),
                        WorkStatus::Consumed | WorkStatus::Deleted | WorkStatus::Unknown => {}
                    }
                    // A burst of this node that has just been committed tells more than the row does.
                    if !told {
                        match tokio::time::timeout(LOOK, &mut tidings).await {
                            Ok(Ok(Tidings::Elsewhere) | Err(_)) => told = true,
                            Ok(Ok(tidings)) => return answer(instance, tidings),
                            Err(_) => {}
                        }
                    }
                    // A burst that yielded has consumed the row, and goes on.
                    if let Some(executed) = self.executed_by(&instance, deadline).await?
                        && !executed.pending
                    {
                        return Ok(Some(executed));
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    return self.still_running(instance, deadline).await.map(Some);
                }
            }
        }
    }

    /// What became of a row. Not being able to look is no tidings: the deadline decides.
    async fn fate(&self, instance: &InstanceId, work: WorkId) -> WorkStatus {
        let Ok(shift) = self.shift() else {
            return WorkStatus::Pending;
        };
        work::status(&shift.pool, &self.inner.tenant, instance, work)
            .await
            .unwrap_or(WorkStatus::Pending)
    }

    /// A start that was accepted before may still be on its way to its first commit. One that left no trace may have been
    /// lost, and is not made again: whoever asked for it decides.
    async fn await_first_commit(
        &self,
        instance: InstanceId,
        accepted_by: Incarnation,
        deadline: Instant,
    ) -> Result<Executed> {
        loop {
            let shown = match self.executed_by(&instance, deadline).await {
                Ok(Some(executed)) if !executed.pending => return Ok(executed),
                // Promised only if it is still there once all was flushed.
                Ok(_) if Instant::now() >= deadline => self.still_running(instance.clone(), deadline).await,
                Ok(_) => {
                    tokio::time::sleep_until(deadline.min(Instant::now() + LOOK)).await;
                    continue;
                }
                Err(missing) => Err(missing),
            };
            match shown {
                Err(missing) if missing.is_not_found() => {}
                shown => return shown,
            }
            // A row that became an instance between two looks is there now.
            match self.start_fate(&instance, accepted_by, deadline).await {
                WorkStatus::Pending if Instant::now() < deadline => {}
                WorkStatus::Pending => return Err(unknown(instance.as_str())),
                WorkStatus::DeadLettered => return Err(given_up(&instance)),
                WorkStatus::Deleted => return Err(no_instance(&instance)),
                WorkStatus::Consumed | WorkStatus::Unmatched | WorkStatus::Unknown => return Err(lost(&instance)),
            }
        }
    }

    /// What became of a start that was not found. Not being able to look says nothing about it.
    async fn start_fate(&self, instance: &InstanceId, accepted_by: Incarnation, deadline: Instant) -> WorkStatus {
        let Ok(shift) = self.shift() else {
            return WorkStatus::Unknown;
        };
        let fate = work::start_status(&shift.pool, &self.inner.tenant, instance, accepted_by);
        match tokio::time::timeout_at(deadline + LAST_WORD, fate).await {
            Ok(Ok(fate)) => fate,
            Ok(Err(_)) | Err(_) => WorkStatus::Unknown,
        }
    }

    /// The instance as it stands; none: nobody could say by the deadline. That there is no such instance is an answer.
    async fn executed_by(&self, instance: &InstanceId, deadline: Instant) -> Result<Option<Executed>> {
        match tokio::time::timeout_at(deadline, self.executed(instance)).await {
            Ok(Ok(executed)) => Ok(Some(executed)),
            Ok(Err(error)) if error.is_not_found() => Err(error),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a door could not read its instance; it tries again");
                Ok(None)
            }
            Err(_) => Ok(None),
        }
    }

    /// The instance as it stands.
    pub(crate) async fn executed(&self, instance: &InstanceId) -> Result<Executed> {
        let detail = self.instance(instance).await?;
        Ok(Executed {
            instance_id: instance.clone(),
            faulted: detail.summary.sub_status == SubStatus::Faulted.as_str(),
            pending: [SubStatus::Pending, SubStatus::Executing]
                .iter()
                .any(|unfinished| detail.summary.sub_status == unfinished.as_str()),
            state: ExecutedState::Shown(detail.workflow_state),
        })
    }

    /// The answer at the deadline. A start may have been accepted without a flush, for the sake of a burst whose commit
    /// has not come yet: the answer promises that it is kept, so everything written so far is flushed first. Both that
    /// and the look at the instance share [`LAST_WORD`]. Only what that look shows is promised: a crash before the flush takes
    /// the row with it.
    async fn still_running(&self, instance: InstanceId, deadline: Instant) -> Result<Executed> {
        let until = deadline + LAST_WORD;
        let flush = async {
            let shift = self.shift()?;
            if !shift.reports.borrow().is_fresh() {
                // The deadline of the door has passed: it does not wait for others on top of it.
                return Err(Error::unavailable("cut-off", "this node is cut off from its database"));
            }
            maintenance::flush(&shift.pool).await
        };
        tokio::time::timeout_at(until, flush)
            .await
            .map_err(|_| unknown(instance.as_str()))?
            .map_err(|error: Error| unknown(instance.as_str()).caused_by(error))?;
        match tokio::time::timeout_at(until, self.executed(&instance)).await {
            Ok(Ok(executed)) => Ok(Executed {
                instance_id: instance,
                state: executed.state,
                faulted: false,
                pending: true,
            }),
            Ok(Err(missing)) if missing.is_not_found() => Err(missing),
            Ok(Err(error)) => Err(unknown(instance.as_str()).caused_by(error)),
            Err(_) => Err(unknown(instance.as_str())),
        }
    }
}

/// What a door makes of its tidings.
fn answer(instance: InstanceId, tidings: Tidings) -> Result<Option<Executed>> {
    match tidings {
        Tidings::Committed { matched: false, .. } | Tidings::Unmet => Ok(None),
        Tidings::Committed { state, meta, .. } => {
            let executed = Executed {
                faulted: state.sub_status() == SubStatus::Faulted,
                state: ExecutedState::Committed(state, meta),
                instance_id: instance,
                pending: false,
            };
            Ok(Some(executed))
        }
        Tidings::Elsewhere | Tidings::Unknown => Err(unknown(instance.as_str())),
        Tidings::NoInstance => Err(no_instance(&instance)),
    }
}
