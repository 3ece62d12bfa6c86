//! Starts: execute runs at once and answers with the state, dispatch accepts and answers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::id::{ClaimNo, Incarnation, InstanceId, WorkId};
use crate::runtime::context::node_context::Shift;
use crate::runtime::context::replies::Tidings;
use crate::runtime::context::request::{Executed, Idempotency, StartRequest, is_plain, plain_correlation_id};
use crate::runtime::engine::Engine;
use crate::runtime::worker::execute;
use crate::runtime::worker::instruction::StartBody;
use crate::runtime::worker::steps::Locked;
use crate::store::claim::ClaimedRow;
use crate::store::code::WorkKind;
use crate::store::commit::Claim;
use crate::store::request::IdempotencyKey;
use crate::store::start::{AcceptedStart, Acceptor, NewStart};
use crate::{Error, Result};

/// Elsa's column for an instance id is as long; ours has no bound, but a bound there must be.
const LONGEST_ID: usize = 255;

/// How long a dispatch waits for a worker of this node before it leaves its start to whoever looks for one.
const SOON: Duration = Duration::from_millis(25);

/// A start that was accepted, and where to hear of it.
pub(crate) struct Awaited {
    pub(crate) instance: InstanceId,
    /// None: it was accepted before, under the same idempotency key.
    pub(crate) row: Option<(WorkId, oneshot::Receiver<Tidings>)>,
    /// Under which registration of this node.
    pub(crate) accepted_by: Incarnation,
}

/// Who asked for a start, and hears where to wait for it.
type Asked = oneshot::Sender<Result<Awaited>>;

impl Engine {
    /// Starts a workflow, runs it until it waits or ends, and gives its state. The start is accepted durably and the
    /// burst is committed before this returns; a run that takes longer than the answer timeout goes on, and the answer
    /// says `pending`. No published version: [`Error::is_not_found`].
    pub async fn execute(&self, request: StartRequest) -> Result<Executed> {
        let deadline = Instant::now() + self.inner.options.answer_timeout;
        let shift = self.accepting()?;
        let ours = request.instance_id.is_none() && shift.workers > 0;
        let start = self.new_start(&shift, request, "execute").await?;
        // What this node cannot run it only accepts, and what comes while it drains; the door waits for whoever runs it.
        let ours = ours
            && shift.takes_commits()
            && !shift.is_draining()
            && shift.programs.can_run(&start.tenant, &start.definition_id);
        let (reply, accepted) = oneshot::channel();
        // A task of the runtime's: a client that hangs up cancels nothing.
        let owned = Arc::clone(&shift);
        shift.tasks.spawn(async move {
            if ours {
                begin_soon(&owned, start, deadline, reply).await;
            } else {
                // An id of the caller's may be that of an instance by the time we run it: it is loaded first, as
                // everything is that was not born in our hands.
                let _ = reply.send(accept(&owned, &owned.durable, start, deadline).await);
            }
        });
        let awaited = accepted
            .await
            .map_err(|_| Error::internal("accepting the start failed"))??;
        self.await_start(awaited, deadline).await
    }

    /// Accepts a start durably and gives the id of the instance that it will be. A caller's own id that is taken:
    /// [`Error::is_conflict`].
    pub async fn dispatch(&self, request: StartRequest) -> Result<InstanceId> {
        let deadline = Instant::now() + self.inner.options.answer_timeout;
        let shift = self.accepting()?;
        let ours = request.instance_id.is_none() && shift.workers > 0;
        let start = self.new_start(&shift, request, "dispatch").await?;
        let ours = ours && shift.takes_commits() && shift.programs.can_run(&start.tenant, &start.definition_id);
        let permit = if ours { worker_soon(&shift).await } else { None };
        let Some(permit) = permit else {
            return Ok(accept(&shift, &shift.durable, start, deadline).await?.instance);
        };
        let (reply, accepted) = oneshot::channel();
        // A task of the runtime's: what is claimed is run, also if nobody waits any more for it to be accepted.
        let owned = Arc::clone(&shift);
        shift.tasks.spawn(async move {
            begin(&owned, &owned.durable, start, permit, deadline, reply).await;
        });
        let awaited = accepted
            .await
            .map_err(|_| Error::internal("accepting the start failed"))??;
        Ok(awaited.instance)
    }

    async fn new_start(&self, shift: &Shift, request: StartRequest, route: &'static str) -> Result<NewStart> {
        let chosen = request.instance_id.is_some();
        let instance = match request.instance_id {
            None => InstanceId::random(),
            Some(id) if id.as_str().is_empty() || id.as_str().len() > LONGEST_ID || !is_plain(id.as_str()) => {
                let message = "an instance id has 1 to 255 bytes, and no control characters";
                return Err(Error::invalid("invalid-instance-id", message)
                    .field("instanceId", "must have 1 to 255 bytes and no control characters"));
            }
            Some(id) => id,
        };
        plain_correlation_id(request.correlation_id.as_deref())?;
        self.checked("correlationId", &request.correlation_id)?;
        self.checked("name", &request.name)?;
        self.checked("input", &request.input)?;
        self.checked("variables", &request.variables)?;
        let programs = &shift.programs;
        let (what, trigger) = (
            (&self.inner.tenant, &request.definition_id),
            request.trigger_activity_id.as_ref(),
        );
        let problems = programs
            .refuse(&shift.pool, &self.inner.interpreter, what, &request.input, trigger)
            .await?;
        if !problems.is_empty() {
            let error = Error::invalid("invalid-input", "the workflow cannot be started with this input");
            return Err(problems
                .into_iter()
                .fold(error, |error, (field, problem)| error.field(field, problem)));
        }
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
            chosen,
            claimed: false,
        })
    }
}

pub(crate) fn request_key(route: &'static str, given: Idempotency) -> IdempotencyKey {
    IdempotencyKey {
        route,
        key: given.key,
        fingerprint: given.fingerprint.to_vec(),
    }
}

/// A worker that is free now, or in a moment. What waits in line for a look costs more than what is run as it comes. But
/// who drains leaves it to others, and while more waits than a look has shown, nobody stands in the look's way.
async fn worker_soon(shift: &Shift) -> Option<OwnedSemaphorePermit> {
    let permits = Arc::clone(&shift.permits);
    let permit = if shift.is_draining() {
        None
    } else if shift.crowded.load(Relaxed) {
        permits.try_acquire_owned().ok()
    } else {
        tokio::time::timeout(SOON, permits.acquire_owned()).await.ok()?.ok()
    };
    permit.filter(|_| !shift.is_draining())
}

/// Accepts a start; nobody has claimed it yet, unless the acceptor does so.
async fn accept(shift: &Arc<Shift>, acceptor: &Acceptor, start: NewStart, deadline: Instant) -> Result<Awaited> {
    let instance = start.instance.clone();
    // Whoever stops waiting cannot know what became of the start.
    let accepted = tokio::select! {
        accepted = acceptor.accept(start) => accepted?,
        () = shift.stop.cancelled() => return Err(unanswered(&instance, SHIFT_ENDED)),
        () = tokio::time::sleep_until(deadline) => return Err(unanswered(&instance, SILENT)),
    };
    let (instance, row) = match accepted {
        AcceptedStart::New { work, .. } => {
            let row = Some((work, shift.doors.open(&instance, work)));
            shift.accepted(Some(&instance), Some(work), 1);
            (instance, row)
        }
        AcceptedStart::Existing { instance } => (instance, None),
    };
    Ok(Awaited {
        instance,
        row,
        accepted_by: shift.incarnation,
    })
}

/// Why it is unknown what became of a start.
const SHIFT_ENDED: &str = "this registration of the node ended";
const SILENT: &str = "the database did not answer";

fn unanswered(instance: &InstanceId, why: &str) -> Error {
    Error::unknown_outcome(format!(
        "{why} while the start was accepted; look the instance up, or try again with the same Idempotency-Key"
    ))
    .instance(instance.as_str())
}

/// Waits for a worker, and begins.
async fn begin_soon(shift: &Arc<Shift>, start: NewStart, deadline: Instant, reply: Asked) {
    let permit = tokio::select! {
        permit = tokio::time::timeout_at(deadline, Arc::clone(&shift.permits).acquire_owned()) => permit,
        () = shift.stop.cancelled() => {
            let _ = reply.send(Err(Error::fenced("this registration of the node is over; try again")));
            return;
        }
    };
    match permit {
        Ok(Ok(permit)) => begin(shift, &shift.express, start, permit, deadline, reply).await,
        _ => {
            let busy = Error::unavailable("busy", "all workers of this node are busy; try again");
            let _ = reply.send(Err(busy));
        }
    }
}

/// Accepts a start as claimed, and gives its burst a task. Whoever asked is answered by the deadline; what is accepted later is
/// run all the same, as its claim would lie otherwise.
async fn begin(
    shift: &Arc<Shift>,
    acceptor: &Acceptor,
    start: NewStart,
    permit: OwnedSemaphorePermit,
    deadline: Instant,
    reply: Asked,
) {
    let start = NewStart { claimed: true, ..start };
    let (key, body) = ((start.tenant.clone(), start.instance.clone()), start.body.clone());
    let mut reply = Some(reply);
    let mut answer = |outcome: Result<Awaited>| {
        if let Some(reply) = reply.take() {
            let _ = reply.send(outcome);
        }
    };
    let accepting = acceptor.accept(start);
    tokio::pin!(accepting);
    let mut is_late = false;
    let accepted = loop {
        tokio::select! {
            accepted = &mut accepting => break accepted,
            // The registration that comes after this one releases what it had claimed.
            () = shift.stop.cancelled() => return answer(Err(unanswered(&key.1, SHIFT_ENDED))),
            () = tokio::time::sleep_until(deadline), if !is_late => {
                is_late = true;
                answer(Err(unanswered(&key.1, SILENT)));
            }
        }
    };
    let (work, definition, clock) = match accepted {
        Ok(AcceptedStart::New {
            work,
            definition,
            clock,
        }) => (work, definition, clock),
        Ok(AcceptedStart::Existing { instance }) => {
            return answer(Ok(Awaited {
                instance,
                row: None,
                accepted_by: shift.incarnation,
            }));
        }
        Err(error) => return answer(Err(error)),
    };
    let awaited = Awaited {
        row: Some((work, shift.doors.open(&key.1, work))),
        instance: key.1.clone(),
        accepted_by: shift.incarnation,
    };
    let row = ClaimedRow {
        claim: Claim::Work(work, ClaimNo(1)),
        instruction: Some((WorkKind::Start, body)),
        definition: Some(definition),
        failures: 0,
        crashes: 0,
        clock,
    };
    let hold = shift.hold(&key, std::slice::from_ref(&row));
    execute::spawn(shift, Locked::unborn(key).begin(row, hold), permit);
    answer(Ok(awaited));
}

/// The body of a resume and the like, as JSON.
pub(crate) fn to_body(body: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(body).map_err(|error| Error::internal("an instruction cannot be written").caused_by(error))
}
