//! Starts: execute runs the workflow and returns its state, dispatch accepts the start and returns its id.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::Engine;
use crate::execution::StartValues;
use crate::id::{ClaimNo, InstanceId, VersionId};
use crate::runtime::context::byte_budget::Charge;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::replies::PendingReply;
use crate::runtime::context::request::{Executed, Idempotency, StartRequest, is_plain, plain_correlation_id};
use crate::runtime::worker::claim::Loaded;
use crate::runtime::worker::execute;
use crate::runtime::worker::instruction::StartBody;
use crate::store::claim::ClaimedRow;
use crate::store::code::WorkKind;
use crate::store::commit::Claim;
use crate::store::request::{IdempotencyKey, find_request};
use crate::store::start::{AcceptedStart, Acceptor, Attempt, NewStart};
use crate::{Error, Result, weight};

/// The length of Elsa's column for an instance id. The column here has no bound, but a request needs one.
pub(super) const LONGEST_ID: usize = 255;

/// How long a dispatch waits for a free worker of this node before its start is queued for any node.
const WORKER_TIMEOUT: Duration = Duration::from_millis(25);

/// A start that was accepted: its instance, and the reply of its first burst. No reply: an earlier request with the same
/// idempotency key was accepted.
type StartAccepted = (InstanceId, Option<PendingReply>);

/// Where the request waits until its start is accepted.
type AcceptedSender = oneshot::Sender<Result<StartAccepted>>;

impl Engine {
    /// Starts a workflow, runs it until it waits or ends, and returns its state. The start is accepted durably and the
    /// burst is committed before this returns; a run that takes longer than the answer timeout goes on, and the result is
    /// `pending`. No published version: [`Error::is_not_found`].
    pub async fn execute(&self, request: StartRequest) -> Result<Executed> {
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let node = self.accepting()?;
        let ours = request.instance_id.is_none() && node.claims.workers.count > 0;
        let start = match self.new_start(&node, request, "execute").await? {
            Checked::Start(start) => *start,
            Checked::AcceptedBefore(instance) => {
                return self
                    .await_start(instance, None, node.database.incarnation, deadline)
                    .await;
            }
        };
        // A start that this node cannot run, or that comes while it drains, is queued for any node.
        let ours = ours
            && node.commits.are_accepted()
            && !node.lifecycle.is_draining()
            && node
                .caches
                .programs
                .can_run(&start.tenant, &start.definition_id, start.version_id.as_ref());
        let (sender, accepted) = oneshot::channel();
        // A task of its own: a client that disconnects cancels nothing.
        let owned = Arc::clone(&node);
        node.lifecycle.tasks.spawn(async move {
            if ours {
                start_direct(&owned, start, deadline, sender).await;
            } else {
                // With an id of the caller's there may be an instance by the time that the start runs: it is loaded first.
                let _ = sender.send(accept(&owned, &owned.commits.queued_starts, start, deadline).await);
            }
        });
        let (instance, reply) = accepted
            .await
            .map_err(|_| Error::internal("accepting the start failed"))??;
        self.await_start(instance, reply, node.database.incarnation, deadline)
            .await
    }

    /// Accepts a start durably and returns the id of its instance. A caller's own id that is taken:
    /// [`Error::is_conflict`].
    pub async fn dispatch(&self, request: StartRequest) -> Result<InstanceId> {
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let node = self.accepting()?;
        let ours = request.instance_id.is_none() && node.claims.workers.count > 0;
        let start = match self.new_start(&node, request, "dispatch").await? {
            Checked::Start(start) => *start,
            Checked::AcceptedBefore(instance) => return Ok(instance),
        };
        let ours = ours
            && node.commits.are_accepted()
            && node
                .caches
                .programs
                .can_run(&start.tenant, &start.definition_id, start.version_id.as_ref());
        let permit = if ours { free_worker(&node).await } else { None };
        let charge = node.claims.bytes.try_charge(weight::json(&start.body));
        let Some((permit, charge)) = permit.zip(charge) else {
            return Ok(accept(&node, &node.commits.queued_starts, start, deadline).await?.0);
        };
        let (sender, accepted) = oneshot::channel();
        // A task of its own: a claimed start is run even if its request was dropped.
        let owned = Arc::clone(&node);
        node.lifecycle.tasks.spawn(async move {
            let acceptor = &owned.commits.queued_starts;
            accept_and_spawn(&owned, acceptor, start, (permit, charge), deadline, sender).await;
        });
        let (instance, _) = accepted
            .await
            .map_err(|_| Error::internal("accepting the start failed"))??;
        Ok(instance)
    }

    async fn new_start(&self, node: &NodeContext, request: StartRequest, route: &'static str) -> Result<Checked> {
        let chosen = request.instance_id.is_some();
        let instance = match request.instance_id {
            None => InstanceId::random(),
            Some(id) => checked_instance_id(id)?,
        };
        plain_correlation_id(request.correlation_id.as_deref())?;
        self.checked("correlationId", &request.correlation_id)?;
        self.checked("name", &request.name)?;
        self.checked("input", &request.input)?;
        self.checked("variables", &request.variables)?;
        let version_id = self
            .version_to_start(node, &request.definition_id, request.version)
            .await?;
        let tenant = &self.inner.tenant;
        let key = request.idempotency.map(|given| request_key(route, given));
        let values = StartValues {
            input: &request.input,
            variables: &request.variables,
            trigger: request.trigger_activity_id.as_ref(),
        };
        let (pool, what) = (
            &node.database.pool,
            (tenant, &request.definition_id, version_id.as_ref()),
        );
        let checking = node.caches.programs.check_start(pool, &node.interpreter, what, values);
        let checked = checking.await?;
        if !checked.problems.is_empty() {
            // A retry of a start that was accepted is one of that start, whatever was published since.
            let before = match &key {
                Some(key) => find_request(pool, tenant, key).await?,
                None => None,
            };
            return match before.and_then(|before| before.instance) {
                Some(instance) => Ok(Checked::AcceptedBefore(instance)),
                None => Err(invalid_input(checked.problems)),
            };
        }
        let body = StartBody {
            correlation_id: request.correlation_id,
            name: request.name,
            input: request.input,
            variables: request.variables,
            trigger_activity_id: request.trigger_activity_id,
            payload: None,
            parent: None,
        };
        Ok(Checked::Start(Box::new(NewStart {
            tenant: tenant.clone(),
            instance,
            definition_id: request.definition_id,
            version_id,
            checked_version: Some(checked.version),
            body: serde_json::to_value(&body)
                .map_err(|error| Error::internal("a start cannot be written").caused_by(error))?,
            request: key,
            has_chosen_id: chosen,
            claimed: false,
        })))
    }
}

/// A request for a start that was checked.
enum Checked {
    /// To be accepted.
    Start(Box<NewStart>),
    /// The same request was accepted before under its key.
    AcceptedBefore(InstanceId),
}

fn invalid_input(problems: Vec<(String, String)>) -> Error {
    let error = Error::invalid("invalid-input", "the workflow cannot be started with this input");
    problems
        .into_iter()
        .fold(error, |error, (field, problem)| error.field(field, problem))
}

/// How often a start is checked again because another version was published.
const CHECKS: usize = 10;

/// Accepts a start. If another version was published since it was checked, it is checked for that one.
async fn accept_checked(node: &NodeContext, acceptor: &Acceptor, mut start: NewStart) -> Result<AcceptedStart> {
    for _ in 0..CHECKS {
        match acceptor.try_accept(start).await? {
            Attempt::Accepted(accepted) => return Ok(accepted),
            Attempt::Moved { start: refused, to } => start = check_again(node, *refused, to).await?,
        }
    }
    let message = "the definition is published so often that a start of it cannot be checked; try again";
    Err(Error::conflict("definition-changing", message))
}

async fn check_again(node: &NodeContext, mut start: NewStart, version: VersionId) -> Result<NewStart> {
    let body: StartBody = serde_json::from_value(start.body.clone())
        .map_err(|error| Error::internal("a start cannot be read").caused_by(error))?;
    let values = StartValues {
        input: &body.input,
        variables: &body.variables,
        trigger: body.trigger_activity_id.as_ref(),
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
    Ok(start)
}

/// Refuses an id that no instance may have.
pub(super) fn checked_instance_id(id: InstanceId) -> Result<InstanceId> {
    if id.as_str().is_empty() || id.as_str().len() > LONGEST_ID || !is_plain(id.as_str()) {
        let message = "an instance id has 1 to 255 bytes, and no control characters";
        return Err(Error::invalid("invalid-instance-id", message)
            .field("instanceId", "must have 1 to 255 bytes and no control characters"));
    }
    Ok(id)
}

/// The key of a request by token, distinct from those of the API and of other tokens: the holder of a token must not take a key
/// that a client will use. `target` is what the token is for.
pub(super) fn token_request_key(route: &'static str, target: [&str; 2], given: Idempotency) -> IdempotencyKey {
    let mut hash = Sha256::new();
    for part in target {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let scope = URL_SAFE_NO_PAD.encode(hash.finalize());
    let mut key = request_key(route, given);
    key.key = format!("{scope}:{}", key.key);
    key
}

pub(crate) fn request_key(route: &'static str, given: Idempotency) -> IdempotencyKey {
    IdempotencyKey {
        route,
        key: given.key,
        fingerprint: given.fingerprint.to_vec(),
    }
}

/// The permit of a worker that is free now, or in a moment: a queued start costs more than a direct one. None on a node
/// that drains. While there is a backlog the start does not compete with the poll.
async fn free_worker(node: &NodeContext) -> Option<OwnedSemaphorePermit> {
    let permits = Arc::clone(&node.claims.workers.permits);
    let permit = if node.lifecycle.is_draining() {
        None
    } else if node.claims.workers.has_backlog.load(Relaxed) {
        permits.try_acquire_owned().ok()
    } else {
        tokio::time::timeout(WORKER_TIMEOUT, permits.acquire_owned())
            .await
            .ok()?
            .ok()
    };
    permit.filter(|_| !node.lifecycle.is_draining())
}

/// Accepts a start, unclaimed.
async fn accept(
    node: &Arc<NodeContext>,
    acceptor: &Acceptor,
    start: NewStart,
    deadline: Instant,
) -> Result<StartAccepted> {
    let instance = start.instance.clone();
    // A request that stops waiting cannot know what became of the start.
    let accepted = tokio::select! {
        accepted = accept_checked(node, acceptor, start) => accepted?,
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

/// Why the outcome of a start is unknown.
const REGISTRATION_ENDED: &str = "this registration of the node ended";
const NO_ANSWER: &str = "the database did not answer";

fn unknown_start(instance: &InstanceId, why: &str) -> Error {
    Error::unknown_outcome(format!(
        "{why} while the start was accepted; look the instance up, or try again with the same Idempotency-Key"
    ))
    .instance(instance.as_str())
}

/// Waits for a free worker of this node, and starts.
async fn start_direct(node: &Arc<NodeContext>, start: NewStart, deadline: Instant, sender: AcceptedSender) {
    let permit = tokio::select! {
        permit = tokio::time::timeout_at(deadline, Arc::clone(&node.claims.workers.permits).acquire_owned()) => permit,
        () = node.lifecycle.stop.cancelled() => {
            let _ = sender.send(Err(Error::fenced("this registration of the node is over; try again")));
            return;
        }
    };
    match permit {
        Ok(Ok(permit)) => match node.claims.bytes.try_charge(weight::json(&start.body)) {
            Some(charge) => {
                let acceptor = &node.commits.direct_starts;
                accept_and_spawn(node, acceptor, start, (permit, charge), deadline, sender).await;
            }
            // The poll claims it when there is room.
            None => {
                drop(permit);
                let _ = sender.send(accept(node, &node.commits.queued_starts, start, deadline).await);
            }
        },
        _ => {
            let busy = Error::unavailable("busy", "all workers of this node are busy; try again");
            let _ = sender.send(Err(busy));
        }
    }
}

/// Accepts a start as claimed, and spawns its burst. The request is answered by the deadline; a start that is accepted
/// later is run all the same, as its claim would be orphaned otherwise.
async fn accept_and_spawn(
    node: &Arc<NodeContext>,
    acceptor: &Acceptor,
    start: NewStart,
    (permit, charge): (OwnedSemaphorePermit, Charge),
    deadline: Instant,
    sender: AcceptedSender,
) {
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
    };
    execute::spawn(node, Loaded::direct_start(node, key, row, charge), permit);
    answer(Ok((instance, Some(reply))));
}

/// The body of a resume and the like, as JSON.
pub(crate) fn to_body(body: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(body).map_err(|error| Error::internal("an instruction cannot be written").caused_by(error))
}
