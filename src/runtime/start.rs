//! Starts: execute runs at once and answers with the state, dispatch accepts and answers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Engine;
use super::burst::{Locked, give_back};
use super::doors::{Tidings, unknown};
use super::instruction::StartBody;
use super::request::{Executed, Idempotency, StartRequest};
use super::shift::Shift;
use crate::execution::SubStatus;
use crate::id::{ClaimNo, InstanceId, WorkId};
use crate::store::accept::{Accepted, NewStart, RequestKey};
use crate::store::claim::{ClaimedRow, Return};
use crate::store::commit::Claim;
use crate::store::work::{self, WorkKind};
use crate::{Error, Result};

/// How often a door looks whether another node has consumed its row.
const LOOK: Duration = Duration::from_millis(200);

/// Elsa's column for an instance id is as long; ours has no bound, but a bound there must be.
const LONGEST_ID: usize = 255;

/// A start that was accepted, and where to hear of it.
struct Awaited {
    instance: InstanceId,
    /// None: it was accepted before, under the same idempotency key.
    row: Option<(WorkId, oneshot::Receiver<Tidings>)>,
}

impl Engine {
    /// Starts a workflow, runs it until it waits or ends, and gives its state. The start is accepted durably and the
    /// burst is committed before this returns; a run that takes longer than the answer timeout goes on, and the answer
    /// says `pending`. No published version: [`Error::is_not_found`].
    pub async fn execute(&self, request: StartRequest) -> Result<Executed> {
        let deadline = Instant::now() + self.inner.options.answer_timeout;
        let shift = self.shift()?;
        let start = self.new_start(request, "execute")?;
        let (reply, accepted) = oneshot::channel();
        // A task of the runtime's: a client that hangs up cancels nothing.
        let owned = Arc::clone(&shift);
        shift.tasks.spawn(async move {
            let outcome = tokio::select! {
                () = owned.stop.cancelled() => Err(Error::fenced("this registration of the node is over; try again")),
                outcome = begin(&owned, start, deadline) => outcome,
            };
            let _ = reply.send(outcome);
        });
        let awaited = accepted
            .await
            .map_err(|_| Error::internal("accepting the start failed"))??;
        self.await_start(awaited, deadline).await
    }

    /// Accepts a start durably and gives the id of the instance that it will be. A caller's own id that is taken:
    /// [`Error::is_conflict`].
    pub async fn dispatch(&self, request: StartRequest) -> Result<InstanceId> {
        let shift = self.shift()?;
        let start = self.new_start(request, "dispatch")?;
        let instance = start.instance.clone();
        match shift.durable.accept(start).await? {
            Accepted::New { .. } => {
                shift.alarm.now();
                Ok(instance)
            }
            Accepted::Before { instance } => Ok(instance),
        }
    }

    fn new_start(&self, request: StartRequest, route: &'static str) -> Result<NewStart> {
        let instance = match request.instance_id {
            None => InstanceId::random(),
            Some(id) if id.as_str().is_empty() || id.as_str().len() > LONGEST_ID => {
                return Err(
                    Error::invalid("invalid-instance-id", "an instance id has 1 to 255 bytes")
                        .field("instanceId", "must have 1 to 255 bytes"),
                );
            }
            Some(id) => id,
        };
        let body = StartBody {
            correlation_id: request.correlation_id,
            name: request.name,
            input: request.input,
            variables: request.variables,
            trigger_activity_id: request.trigger_activity_id,
            payload: None,
        };
        Ok(NewStart {
            tenant: self.inner.tenant.clone(),
            instance,
            definition_id: request.definition_id,
            body: serde_json::to_value(&body)
                .map_err(|error| Error::internal("a start cannot be written").caused_by(error))?,
            request: request.idempotency.map(|given| request_key(route, given)),
        })
    }

    async fn await_start(&self, awaited: Awaited, deadline: Instant) -> Result<Executed> {
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
        loop {
            tokio::select! {
                heard = &mut tidings, if !told => match heard {
                    Ok(tidings) => return answer(instance, tidings),
                    Err(_) => told = true,
                },
                () = tokio::time::sleep(LOOK) => {
                    // Not being able to look is no tidings: the deadline decides.
                    if let Ok(shift) = self.shift()
                        && let Ok(false) = work::exists(&shift.pool, &self.inner.tenant, work).await
                    {
                        // A burst of this node that has just been committed tells more than the row does.
                        if !told && let Ok(Ok(tidings)) = tokio::time::timeout(LOOK / 2, &mut tidings).await {
                            return answer(instance, tidings);
                        }
                        // A burst that yielded has consumed the row, and goes on.
                        let executed = self.executed(&instance).await?;
                        if executed.sub_status() != Some(SubStatus::Executing.as_str()) {
                            return Ok((executed, true));
                        }
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    return Ok((self.still_running(instance).await?, true));
                }
            }
        }
    }

    /// A start that was accepted before may still be on its way to its first commit.
    async fn await_first_commit(&self, instance: InstanceId, deadline: Instant) -> Result<Executed> {
        loop {
            match self.executed(&instance).await {
                Ok(executed) if !executed.pending => return Ok(executed),
                Ok(executed) if Instant::now() >= deadline => return Ok(executed),
                Ok(_) => tokio::time::sleep(LOOK.min(Duration::from_millis(50))).await,
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
            pending: detail.summary.sub_status == SubStatus::Pending.as_str(),
            workflow_state: detail.workflow_state,
        })
    }

    async fn still_running(&self, instance: InstanceId) -> Result<Executed> {
        let state = match self.executed(&instance).await {
            Ok(executed) => executed.workflow_state,
            Err(_) => serde_json::json!({ "id": instance.as_str() }),
        };
        Ok(Executed {
            instance_id: instance,
            workflow_state: state,
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
        Tidings::NoInstance => Err(super::read::no_instance(&instance)),
        Tidings::Unknown => Err(unknown(instance.as_str())),
    }
}

pub(super) fn request_key(route: &'static str, given: Idempotency) -> RequestKey {
    RequestKey {
        route,
        key: given.key,
        fingerprint: given.fingerprint.to_vec(),
    }
}

/// Accepts a start as claimed, locks its instance and gives its burst a task.
async fn begin(shift: &Arc<Shift>, start: NewStart, deadline: Instant) -> Result<Awaited> {
    if shift.workers == 0 {
        return accept_for_others(shift, start).await;
    }
    let permit = tokio::time::timeout_at(deadline, Arc::clone(&shift.permits).acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        return Err(Error::unavailable(
            "busy",
            "all workers of this node are busy; try again",
        ));
    };
    let (key, body) = ((start.tenant.clone(), start.instance.clone()), start.body.clone());
    // The lock needs no answer of the database to be asked for: both travel at once.
    let (accepted, guards) = tokio::join!(
        shift.express.accept(start),
        shift.locks.try_lock(vec![shift.lock_key(&key)])
    );
    let (work, definition) = match accepted? {
        Accepted::New { work, definition } => (work, definition),
        Accepted::Before { instance } => return Ok(Awaited { instance, row: None }),
    };
    let claim = Claim::Work(work, ClaimNo(1));
    let awaited = Awaited {
        instance: key.1.clone(),
        row: Some((work, shift.doors.open(work))),
    };
    match guards.ok().and_then(|mut guards| guards.pop().flatten()) {
        Some(guard) => {
            let instruction = Some((WorkKind::Start, body));
            let row = ClaimedRow {
                claim,
                instruction,
                definition: Some(definition),
                failures: 0,
                crashes: 0,
            };
            shift.attend(Locked::new(key, guard).begin(row), permit);
        }
        // Somebody else has the lock of this new instance: it runs when that is free.
        None => give_back(shift, &key, &[claim], Return::FREELY).await,
    }
    Ok(awaited)
}

async fn accept_for_others(shift: &Arc<Shift>, start: NewStart) -> Result<Awaited> {
    let instance = start.instance.clone();
    Ok(match shift.durable.accept(start).await? {
        Accepted::New { work, .. } => Awaited {
            instance,
            row: Some((work, shift.doors.open(work))),
        },
        Accepted::Before { instance } => Awaited { instance, row: None },
    })
}

/// The body of a resume and the like, as JSON.
pub(super) fn to_body(body: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(body).map_err(|error| Error::internal("an instruction cannot be written").caused_by(error))
}
