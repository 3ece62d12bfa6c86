//! Doors that wait for what becomes of their row, or of the instance that an earlier row became.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Engine;
use super::doors::{Tidings, unknown};
use super::request::Executed;
use super::start::Awaited;
use crate::execution::SubStatus;
use crate::id::{InstanceId, WorkId};
use crate::store::{housekeeping, work};
use crate::{Error, Result};

/// How soon, and then how often, a door looks whether another node has consumed its row. Bursts of this node tell.
const LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

impl Engine {
    /// What became of a start.
    pub(super) async fn await_start(&self, awaited: Awaited, deadline: Instant) -> Result<Executed> {
        let Awaited { instance, row } = awaited;
        match row {
            Some((work, tidings)) => Ok(self.await_row(instance, work, tidings, deadline).await?.0),
            None => self.await_first_commit(instance, deadline).await,
        }
    }

    /// Waits until a row was consumed, by whichever node; the flag says whether it met what it was meant for, as far as
    /// this node can know.
    pub(super) async fn await_row(
        &self,
        instance: InstanceId,
        work: WorkId,
        mut tidings: oneshot::Receiver<Tidings>,
        deadline: Instant,
    ) -> Result<(Executed, bool)> {
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
                    if !self.is_consumed(work).await {
                        continue;
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
                    let executed = self.executed(&instance).await?;
                    if !executed.pending {
                        return Ok((executed, true));
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    return Ok((self.still_running(instance).await?, true));
                }
            }
        }
    }

    /// Whether a row is gone. Not being able to look is no tidings: the deadline decides.
    async fn is_consumed(&self, work: WorkId) -> bool {
        let Ok(shift) = self.shift() else { return false };
        matches!(work::exists(&shift.pool, &self.inner.tenant, work).await, Ok(false))
    }

    /// A start that was accepted before may still be on its way to its first commit.
    async fn await_first_commit(&self, instance: InstanceId, deadline: Instant) -> Result<Executed> {
        loop {
            match self.executed(&instance).await {
                Ok(executed) if !executed.pending => return Ok(executed),
                Ok(executed) if Instant::now() >= deadline => return Ok(executed),
                Ok(_) => tokio::time::sleep(LOOK).await,
                Err(error) => return Err(error),
            }
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
            workflow_state: detail.workflow_state,
        })
    }

    /// The answer at the deadline. A start may have been accepted without a flush, for the sake of a burst whose commit
    /// has not come yet: the answer promises that it is kept, so everything written so far is flushed first.
    async fn still_running(&self, instance: InstanceId) -> Result<Executed> {
        let flushed = async { housekeeping::flush(&self.shift()?.pool).await };
        flushed
            .await
            .map_err(|error: Error| unknown(instance.as_str()).caused_by(error))?;
        let workflow_state = match self.executed(&instance).await {
            Ok(executed) => executed.workflow_state,
            Err(_) => serde_json::json!({ "id": instance.as_str() }),
        };
        Ok(Executed {
            instance_id: instance,
            workflow_state,
            faulted: false,
            pending: true,
        })
    }
}

/// What a door makes of its tidings.
fn answer(instance: InstanceId, tidings: Tidings) -> Result<(Executed, bool)> {
    match tidings {
        Tidings::Committed { state, meta, matched } => {
            let executed = Executed {
                faulted: state.sub_status() == SubStatus::Faulted,
                workflow_state: state.workflow_state(meta),
                instance_id: instance,
                pending: false,
            };
            Ok((executed, matched))
        }
        Tidings::Elsewhere | Tidings::Unknown => Err(unknown(instance.as_str())),
        Tidings::NoInstance => Err(super::read::no_instance(&instance)),
    }
}
