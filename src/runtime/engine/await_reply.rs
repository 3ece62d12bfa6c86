//! Waits for the result of a row of work, or of the instance that an earlier start created.

use std::time::Duration;

use tokio::time::Instant;

use super::Engine;
use super::instances::no_instance;
use crate::execution::SubStatus;
use crate::id::{Incarnation, InstanceId, WorkId};
use crate::runtime::context::replies::{PendingReply, Reply};
use crate::runtime::context::request::{Executed, ExecutedState};
use crate::store::maintenance;
use crate::store::work::{self, WorkStatus};
use crate::{Error, Result};

/// How soon, and then how often, a caller reads whether another node has consumed its row. Bursts of this node reply.
const READ_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// How long after its deadline a caller may take to make sure that a pending answer is durable. Beyond that the outcome is
/// unknown.
pub(super) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

impl Engine {
    /// Waits for the first burst of a start that was accepted under a registration of this node.
    pub(super) async fn await_start(
        &self,
        instance: InstanceId,
        reply: Option<PendingReply>,
        accepted_by: Incarnation,
        deadline: Instant,
    ) -> Result<Executed> {
        if let Some(reply) = reply {
            match self.await_row(reply, deadline).await {
                Ok(Some(executed)) => return Ok(executed),
                Ok(None) => {}
                // The reply of a delete. A caller that only finds no row reads the instance for the reason.
                Err(missing) if missing.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        self.await_first_commit(instance, accepted_by, deadline).await
    }

    /// Waits until any node has consumed a row; `None` if it matched nothing. A row that became a dead letter:
    /// [`Error::is_dead_lettered`].
    pub(super) async fn await_row(&self, reply: PendingReply, deadline: Instant) -> Result<Option<Executed>> {
        let PendingReply {
            instance,
            work,
            mut receiver,
        } = reply;
        let mut received = false;
        let mut pause = READ_INTERVAL;
        loop {
            tokio::select! {
                reply = &mut receiver, if !received => match reply {
                    Ok(Reply::Elsewhere) => (received, pause) = (true, Duration::ZERO),
                    Ok(reply) => return executed_of(instance, reply),
                    Err(_) => received = true,
                },
                () = tokio::time::sleep(pause) => {
                    pause = (pause * 3 / 2).clamp(READ_INTERVAL, LONGEST_INTERVAL);
                    // A read over an unresponsive connection ends at the deadline.
                    let status = tokio::time::timeout_at(deadline, self.work_status(&instance, work)).await;
                    match status.unwrap_or(WorkStatus::Pending) {
                        WorkStatus::Pending => continue,
                        WorkStatus::DeadLettered => return Err(dead_lettered(&instance)),
                        WorkStatus::Unmatched | WorkStatus::Discarded => return Ok(None),
                        WorkStatus::Consumed | WorkStatus::Deleted | WorkStatus::Unknown => {}
                    }
                    // A burst of this node that has just been committed replies with more than the row shows.
                    if !received {
                        match tokio::time::timeout(READ_INTERVAL, &mut receiver).await {
                            Ok(Ok(Reply::Elsewhere) | Err(_)) => received = true,
                            Ok(Ok(reply)) => return executed_of(instance, reply),
                            Err(_) => {}
                        }
                    }
                    // A burst that yielded has consumed the row, and continues.
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

    /// The status of a row; pending if it cannot be read, so that the deadline decides.
    pub(super) async fn work_status(&self, instance: &InstanceId, work: WorkId) -> WorkStatus {
        let Ok(node) = self.node() else {
            return WorkStatus::Pending;
        };
        work::status(&node.database.pool, &self.tenant, instance, work)
            .await
            .unwrap_or(WorkStatus::Pending)
    }

    /// Waits for the first commit of a start that was accepted before. A start that left no trace may be lost, and is not
    /// repeated: that is for the client to decide.
    async fn await_first_commit(
        &self,
        instance: InstanceId,
        accepted_by: Incarnation,
        deadline: Instant,
    ) -> Result<Executed> {
        loop {
            let shown = match self.executed_by(&instance, deadline).await {
                Ok(Some(executed)) if !executed.pending => return Ok(executed),
                // Pending only if it still exists once everything is flushed.
                Ok(_) if Instant::now() >= deadline => self.still_running(instance.clone(), deadline).await,
                Ok(_) => {
                    tokio::time::sleep_until(deadline.min(Instant::now() + READ_INTERVAL)).await;
                    continue;
                }
                Err(missing) => Err(missing),
            };
            match shown {
                Err(missing) if missing.is_not_found() => {}
                shown => return shown,
            }
            // The row may have become an instance between two reads.
            match self.start_without_instance(&instance, accepted_by, deadline).await {
                Some(why) => return Err(why),
                None if Instant::now() < deadline => {}
                None => return Err(unknown(instance.as_str())),
            }
        }
    }

    /// Why a start has no instance; `None` if its row or its instance is there after all.
    pub(super) async fn start_without_instance(
        &self,
        instance: &InstanceId,
        accepted_by: Incarnation,
        deadline: Instant,
    ) -> Option<Error> {
        match self.start_status(instance, accepted_by, deadline).await {
            WorkStatus::Pending => None,
            WorkStatus::DeadLettered => Some(dead_lettered(instance)),
            WorkStatus::Deleted => Some(no_instance(instance)),
            WorkStatus::Consumed | WorkStatus::Unmatched | WorkStatus::Discarded | WorkStatus::Unknown => {
                Some(lost(instance))
            }
        }
    }

    /// The status of a start without an instance; unknown if it cannot be read.
    async fn start_status(&self, instance: &InstanceId, accepted_by: Incarnation, deadline: Instant) -> WorkStatus {
        let Ok(node) = self.node() else {
            return WorkStatus::Unknown;
        };
        let status = work::start_status(&node.database.pool, &self.tenant, instance, accepted_by);
        match tokio::time::timeout_at(deadline + FLUSH_TIMEOUT, status).await {
            Ok(Ok(status)) => status,
            Ok(Err(_)) | Err(_) => WorkStatus::Unknown,
        }
    }

    /// The committed state of the instance; `None` if it could not be read by the deadline. Errors: not found.
    async fn executed_by(&self, instance: &InstanceId, deadline: Instant) -> Result<Option<Executed>> {
        match tokio::time::timeout_at(deadline, self.executed(instance)).await {
            Ok(Ok(executed)) => Ok(Some(executed)),
            Ok(Err(error)) if error.is_not_found() => Err(error),
            Ok(Err(error)) => {
                tracing::debug!(%error, "an instance could not be read for its caller; it is read again");
                Ok(None)
            }
            Err(_) => Ok(None),
        }
    }

    /// The committed state of the instance.
    pub(super) async fn executed(&self, instance: &InstanceId) -> Result<Executed> {
        let detail = self.instance_by_key(instance).await?;
        Ok(Executed {
            instance_id: instance.clone(),
            faulted: detail.summary.sub_status == SubStatus::Faulted.as_str(),
            pending: [SubStatus::Pending, SubStatus::Executing]
                .iter()
                .any(|unfinished| detail.summary.sub_status == unfinished.as_str()),
            state: ExecutedState::Shown(detail.workflow_state),
        })
    }

    /// The pending answer at the deadline. A direct start may have been accepted without a flush, so everything written so
    /// far is flushed first, and then the instance is read, both within [`FLUSH_TIMEOUT`]: a crash before the flush loses
    /// the row, and only what is read after the flush is durable.
    pub(super) async fn still_running(&self, instance: InstanceId, deadline: Instant) -> Result<Executed> {
        let until = deadline + FLUSH_TIMEOUT;
        let flush = async {
            let node = self.node()?;
            if !node.lifecycle.reports.borrow().is_fresh() {
                // The deadline has passed: this does not wait any longer for a connection.
                return Err(Error::unavailable("cut-off", "this node is cut off from its database"));
            }
            maintenance::flush(&node.database.pool).await
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

/// What a request returns for a reply; `None` if the row matched nothing.
fn executed_of(instance: InstanceId, reply: Reply) -> Result<Option<Executed>> {
    match reply {
        Reply::Committed { matched: false, .. } | Reply::Unmatched => Ok(None),
        Reply::Committed { state, timestamps, .. } => {
            let executed = Executed {
                faulted: state.sub_status() == SubStatus::Faulted,
                state: ExecutedState::Committed(state, timestamps),
                instance_id: instance,
                pending: false,
            };
            Ok(Some(executed))
        }
        Reply::Elsewhere | Reply::Unknown => Err(unknown(instance.as_str())),
        Reply::NoInstance => Err(no_instance(&instance)),
    }
}

/// The error of a request whose outcome is unknown.
fn unknown(instance: &str) -> Error {
    Error::unknown_outcome("the database went away while the workflow was committed; look the instance up")
        .instance(instance)
}

/// The error of a request whose start left no trace.
fn lost(instance: &InstanceId) -> Error {
    Error::unknown_outcome(
        "nothing shows what happened to the start: it was deleted, or the database crashed before it was flushed; \
         look the instance up before trying again",
    )
    .instance(instance.as_str())
}

/// The error of a request whose row became a dead letter.
pub(super) fn dead_lettered(instance: &InstanceId) -> Error {
    Error::dead_lettered(
        "it failed too often, or crashed too many processes, and became a dead letter: see the dead letters of the \
         instance; replaying one tries it again",
    )
    .instance(instance.as_str())
}
