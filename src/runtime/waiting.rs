//! Doors that wait for what becomes of their row, or of the instance that an earlier row became.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Engine;
use super::doors::{Tidings, given_up, unknown};
use super::request::{Executed, ExecutedState};
use super::start::Awaited;
use crate::execution::SubStatus;
use crate::id::{InstanceId, WorkId};
use crate::store::housekeeping;
use crate::store::work::{self, Fate};
use crate::{Error, Result};

/// How soon, and then how often, a door looks whether another node has consumed its row. Bursts of this node tell.
const LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// How long after its deadline a door may take to make sure that it promises nothing that is not kept. Beyond that its
/// answer is that nobody can say.
const LAST_WORD: Duration = Duration::from_secs(1);

impl Engine {
    /// What became of a start.
    pub(super) async fn await_start(&self, awaited: Awaited, deadline: Instant) -> Result<Executed> {
        let Awaited { instance, row } = awaited;
        let Some((work, tidings)) = row else {
            return self.await_first_commit(instance, deadline).await;
        };
        match self.await_row(instance.clone(), work, tidings, deadline).await? {
            Some(executed) => Ok(executed),
            None => self.await_first_commit(instance, deadline).await,
        }
    }

    /// Waits until a row was consumed, by whichever node; none: it met nothing. A row that was given up:
    /// [`Error::is_given_up`].
    pub(super) async fn await_row(
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
                    match look.unwrap_or(Fate::Open) {
                        Fate::Open => continue,
                        Fate::GivenUp => return Err(given_up(&instance)),
                        Fate::Unmet => return Ok(None),
                        Fate::Met => {}
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
                    return self.still_running(instance).await.map(Some);
                }
            }
        }
    }

    /// What became of a row. Not being able to look is no tidings: the deadline decides.
    async fn fate(&self, instance: &InstanceId, work: WorkId) -> Fate {
        let Ok(shift) = self.shift() else { return Fate::Open };
        work::fate(&shift.pool, &self.inner.tenant, instance, work)
            .await
            .unwrap_or(Fate::Open)
    }

    /// A start that was accepted before may still be on its way to its first commit.
    async fn await_first_commit(&self, instance: InstanceId, deadline: Instant) -> Result<Executed> {
        loop {
            match self.executed_by(&instance, deadline).await {
                Ok(Some(executed)) if !executed.pending => return Ok(executed),
                Ok(_) => {}
                Err(missing) => {
                    let shift = self.shift()?;
                    let letter = work::start_given_up(&shift.pool, &self.inner.tenant, &instance);
                    return match tokio::time::timeout_at(deadline, letter).await {
                        Ok(Ok(true)) => Err(given_up(&instance)),
                        Ok(Ok(false)) => Err(missing),
                        Ok(Err(_)) | Err(_) => Err(unknown(instance.as_str())),
                    };
                }
            }
            if Instant::now() >= deadline {
                return self.still_running(instance).await;
            }
            tokio::time::sleep_until(deadline.min(Instant::now() + LOOK)).await;
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
    pub(super) async fn executed(&self, instance: &InstanceId) -> Result<Executed> {
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
    /// and the look at the instance share [`LAST_WORD`].
    async fn still_running(&self, instance: InstanceId) -> Result<Executed> {
        let until = Instant::now() + LAST_WORD;
        let flush = async {
            let shift = self.shift()?;
            if !shift.reports.borrow().is_fresh() {
                // The deadline of the door has passed: it does not wait for others on top of it.
                return Err(Error::unavailable("cut-off", "this node is cut off from its database"));
            }
            housekeeping::flush(&shift.pool).await
        };
        tokio::time::timeout_at(until, flush)
            .await
            .map_err(|_| unknown(instance.as_str()))?
            .map_err(|error: Error| unknown(instance.as_str()).caused_by(error))?;
        let state = match tokio::time::timeout_at(until, self.executed(&instance)).await {
            Ok(Ok(executed)) => executed.state,
            Ok(Err(_)) | Err(_) => ExecutedState::Shown(serde_json::json!({ "id": instance.as_str() })),
        };
        Ok(Executed {
            instance_id: instance,
            state,
            faulted: false,
            pending: true,
        })
    }
}

/// What a door makes of its tidings.
fn answer(instance: InstanceId, tidings: Tidings) -> Result<Option<Executed>> {
    match tidings {
        Tidings::Committed { matched: false, .. } => Ok(None),
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
        Tidings::NoInstance => Err(super::read::no_instance(&instance)),
    }
}
