//! The admission of a checked start: a worker of this node runs it at once, or it is queued for any node. In both cases it
//! is accepted durably.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::execution::StartValues;
use crate::id::{ClaimNo, InstanceId, VersionId};
use crate::runtime::context::byte_budget::Charge;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::replies::PendingReply;
use crate::runtime::worker::claim::Loaded;
use crate::runtime::worker::execute;
use crate::runtime::worker::instruction::StartBody;
use crate::store::claim::ClaimedRow;
use crate::store::code::WorkKind;
use crate::store::commit::Claim;
use crate::store::start::{AcceptedStart, Acceptor, Attempt, NewStart};
use crate::{Error, Result, weight};

/// How long a request waits for a worker that is free only in a moment: a queued start costs more than a direct one.
const MOMENT: Duration = Duration::from_millis(25);

/// A start that was accepted: its instance, and the reply of its first burst. No reply: an earlier request with the same
/// idempotency key was accepted.
pub(super) type StartAccepted = (InstanceId, Option<PendingReply>);

/// Where the request waits until its start is accepted.
pub(super) type AcceptedSender = oneshot::Sender<Result<StartAccepted>>;

/// Where a start runs.
pub(super) enum StartAdmission {
    /// At this node, at once.
    Here(Room),
    /// At any node, which claims it from the queue.
    Queued,
}

/// What a start takes that this node runs: a worker, and its bytes.
pub(super) struct Room {
    permit: OwnedSemaphorePermit,
    charge: Charge,
}

/// How long a request waits for a worker of this node.
#[derive(Clone, Copy)]
pub(super) enum WorkerWait {
    /// The caller waits for the burst anyway.
    Until(Instant),
    /// Beyond that the start is queued.
    Briefly,
}

impl StartAdmission {
    /// Finds out where a start runs. A start that this node cannot run, or that comes while it drains, is queued.
    pub(super) async fn of(node: &NodeContext, start: &NewStart, wait: WorkerWait) -> Result<Self> {
        if node.lifecycle.is_draining() || !can_run(node, start) {
            return Ok(Self::Queued);
        }
        let permit = match wait {
            WorkerWait::Until(deadline) => Some(worker_until(node, deadline).await?),
            WorkerWait::Briefly => worker_briefly(node).await,
        };
        let room = permit.and_then(|permit| {
            let charge = node.claims.bytes.try_charge(weight::json(&start.body))?;
            Some(Room { permit, charge })
        });
        // Without room the poll claims it when there is some.
        Ok(room.map_or(Self::Queued, Self::Here))
    }
}

/// Whether this node can run a start. With an id chosen by the caller, an instance may exist by the time that the start
/// runs, so it is loaded first.
fn can_run(node: &NodeContext, start: &NewStart) -> bool {
    !start.has_chosen_id
        && node.claims.workers.count > 0
        && node.commits.are_accepted()
        && node
            .caches
            .programs
            .can_run(&start.tenant, &start.definition_id, start.version_id.as_ref())
}

async fn worker_until(node: &NodeContext, deadline: Instant) -> Result<OwnedSemaphorePermit> {
    let permits = Arc::clone(&node.claims.workers.permits);
    let permit = tokio::select! {
        permit = tokio::time::timeout_at(deadline, permits.acquire_owned()) => permit,
        () = node.lifecycle.stop.cancelled() => {
            return Err(Error::fenced("this registration of the node is over; try again"));
        }
    };
    match permit {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(Error::unavailable(
            "busy",
            "all workers of this node are busy; try again",
        )),
    }
}

/// `None` if no worker is free soon, or the node drains. While there is a backlog the start does not compete with the poll.
async fn worker_briefly(node: &NodeContext) -> Option<OwnedSemaphorePermit> {
    let permits = Arc::clone(&node.claims.workers.permits);
    let permit = if node.claims.workers.has_backlog.load(Relaxed) {
        permits.try_acquire_owned().ok()
    } else {
        tokio::time::timeout(MOMENT, permits.acquire_owned()).await.ok()?.ok()
    };
    permit.filter(|_| !node.lifecycle.is_draining())
}

/// Accepts a start in a task of its own, which continues if the request is dropped.
pub(super) async fn in_task<F>(
    node: &Arc<NodeContext>,
    accepting: impl FnOnce(Arc<NodeContext>, AcceptedSender) -> F,
) -> Result<StartAccepted>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, accepted) = oneshot::channel();
    node.lifecycle.tasks.spawn(accepting(Arc::clone(node), sender));
    accepted
        .await
        .map_err(|_| Error::internal("accepting the start failed"))?
}

/// Accepts a start for a caller that waits for its burst. One that disconnects cancels nothing, while its start waits for a
/// worker either.
pub(super) async fn accept_to_run(
    node: &Arc<NodeContext>,
    start: NewStart,
    deadline: Instant,
) -> Result<StartAccepted> {
    let accepting = move |node: Arc<NodeContext>, sender: AcceptedSender| async move {
        match StartAdmission::of(&node, &start, WorkerWait::Until(deadline)).await {
            Ok(StartAdmission::Here(room)) => {
                let acceptor = &node.commits.direct_starts;
                accept_and_spawn(&node, acceptor, start, room, deadline, sender).await;
            }
            Ok(StartAdmission::Queued) => drop(sender.send(accept(&node, start, deadline).await)),
            Err(error) => drop(sender.send(Err(error))),
        }
    };
    in_task(node, accepting).await
}

/// Accepts a start, unclaimed.
pub(super) async fn accept(node: &Arc<NodeContext>, start: NewStart, deadline: Instant) -> Result<StartAccepted> {
    let instance = start.instance.clone();
    // A request that stops waiting cannot know what became of the start.
    let accepted = tokio::select! {
        accepted = accept_checked(node, &node.commits.queued_starts, start) => accepted?,
        () = node.lifecycle.stop.cancelled() => return Err(unknown_start(&instance, REGISTRATION_ENDED)),
        () = tokio::time::sleep_until(deadline) => return Err(unknown_start(&instance, NO_ANSWER)),
    };
    match accepted {
        AcceptedStart::New { work, .. } => {
            let reply = node.notifications.replies.register(&instance, work);
            node.work_accepted(Some(&instance), Some(work), 1);
            Ok((instance, Some(reply)))
        }
        AcceptedStart::Existing { instance } => Ok((instance, None)),
    }
}

/// Accepts a start as claimed, and spawns its burst. The request is answered by the deadline; a start that is accepted
/// later is run all the same, as its claim would be orphaned otherwise.
pub(super) async fn accept_and_spawn(
    node: &Arc<NodeContext>,
    acceptor: &Acceptor,
    start: NewStart,
    room: Room,
    deadline: Instant,
    sender: AcceptedSender,
) {
    let Room { permit, charge } = room;
    let start = NewStart { claimed: true, ..start };
    let (key, body) = ((start.tenant.clone(), start.instance.clone()), start.body.clone());
    let mut sender = Some(sender);
    let mut answer = |accepted: Result<StartAccepted>| {
        if let Some(sender) = sender.take() {
            let _ = sender.send(accepted);
        }
    };
    let accepting = accept_checked(node, acceptor, start);
    tokio::pin!(accepting);
    let mut is_late = false;
    let accepted = loop {
        tokio::select! {
            accepted = &mut accepting => break accepted,
            // The next registration of this node releases its claim.
            () = node.lifecycle.stop.cancelled() => return answer(Err(unknown_start(&key.1, REGISTRATION_ENDED))),
            () = tokio::time::sleep_until(deadline), if !is_late => {
                is_late = true;
                answer(Err(unknown_start(&key.1, NO_ANSWER)));
            }
        }
    };
    let (work, definition, clock) = match accepted {
        Ok(AcceptedStart::New {
            work,
            definition,
            clock,
        }) => (work, definition, clock),
        Ok(AcceptedStart::Existing { instance }) => return answer(Ok((instance, None))),
        Err(error) => return answer(Err(error)),
    };
    let reply = node.notifications.replies.register(&key.1, work);
    let instance = key.1.clone();
    let row = ClaimedRow {
        had_begun: false,
        is_followed: false,
        replays: None,
        claim: Claim::Work(work, ClaimNo(1)),
        instruction: Some((WorkKind::Start, body)),
        definition: Some(definition),
        failures: 0,
        crashes: 0,
        clock,
        due: clock.now(),
    };
    execute::spawn(node, Loaded::direct_start(node, key, row, charge), permit);
    answer(Ok((instance, Some(reply))));
}

/// Why the outcome of a start is unknown.
const REGISTRATION_ENDED: &str = "this registration of the node ended";
const NO_ANSWER: &str = "the database did not answer";

fn unknown_start(instance: &InstanceId, why: &str) -> Error {
    Error::unknown_outcome(format!(
        "{why} while the start was accepted; look the instance up, or try again with the same Idempotency-Key"
    ))
    .instance(instance.as_str())
}

/// How often a start is checked again because another version was published.
const CHECKS: usize = 10;

/// Accepts a start. If another version was published since it was checked, it is checked for that one.
async fn accept_checked(node: &NodeContext, acceptor: &Acceptor, mut start: NewStart) -> Result<AcceptedStart> {
    for _ in 0..CHECKS {
        match acceptor.try_accept(start).await {
            Ok(Attempt::Accepted(accepted)) => return Ok(accepted),
            Ok(Attempt::Moved { start: refused, to }) => start = check_again(node, *refused, to).await?,
            Err(error) => {
                #[cfg(feature = "http")]
                if error.code() == "route-moved" {
                    node.caches.routes.expire();
                }
                return Err(error);
            }
        }
    }
    let message = "the definition is published so often that a start of it cannot be checked; try again";
    Err(Error::conflict("definition-changing", message))
}

async fn check_again(node: &NodeContext, mut start: NewStart, version: VersionId) -> Result<NewStart> {
    let mut body: StartBody = serde_json::from_value(start.body.clone())
        .map_err(|error| Error::internal("a start cannot be read").caused_by(error))?;
    let values = StartValues {
        input: &body.input,
        variables: &body.variables,
        // The activity at a node id may be another one in this version.
        trigger: body
            .trigger_activity_id
            .as_ref()
            .filter(|_| start.trigger_node_id.is_none()),
        trigger_node_id: start.trigger_node_id.as_deref(),
    };
    let programs = &node.caches.programs;
    if start.version_id.is_none() {
        programs.remember_published(&start.tenant, &start.definition_id, &version);
    }
    let checking = programs.check_for(&node.database.pool, &node.interpreter, &start.tenant, version, values);
    let checked = checking.await?;
    if !checked.problems.is_empty() {
        return Err(invalid_input(checked.problems));
    }
    start.checked_version = Some(checked.version);
    if checked.trigger.is_some() {
        body.trigger_activity_id = checked.trigger;
        start.body = serde_json::to_value(&body)
            .map_err(|error| Error::internal("a start cannot be written").caused_by(error))?;
    }
    Ok(start)
}

/// The error of a start whose input its workflow does not take.
pub(super) fn invalid_input(problems: Vec<(String, String)>) -> Error {
    let error = Error::invalid("invalid-input", "the workflow cannot be started with this input");
    problems
        .into_iter()
        .fold(error, |error, (field, problem)| error.field(field, problem))
}
