//! Starts: execute runs the workflow and returns its state, dispatch accepts the start and returns its id.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::Engine;
use super::accept_trace::AcceptTrace;
use super::start_admission::{
    AcceptedSender, StartAdmission, WorkerWait, accept, accept_and_spawn, accept_to_run, in_task, invalid_input,
};
use crate::execution::StartValues;
use crate::id::{InstanceId, LinkId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::{Executed, Idempotency, StartRequest, is_plain, plain_correlation_id};
use crate::runtime::worker::instruction::StartBody;
use crate::store::request::{IdempotencyKey, find_request};
use crate::store::start::NewStart;
use crate::{Error, Result};

/// The length of Elsa's column for an instance id. The column here has no bound, but a request needs one.
pub(super) const LONGEST_ID: usize = 255;

/// The route of the idempotency keys of requests by link.
pub(super) const LINK_ROUTE: &str = "link";

impl Engine {
    /// Starts a workflow, runs it until it waits or ends, and returns its state. The start is accepted durably and the
    /// burst is committed before this returns; a run that takes longer than the answer timeout continues, and the result is
    /// `pending`. [`Error::is_not_found`] if no version is published.
    pub async fn execute(&self, request: StartRequest) -> Result<Executed> {
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let node = self.accepting()?;
        let (instance, reply) = match self.new_start(&node, request, "execute").await? {
            Checked::AcceptedBefore(instance) => (instance, None),
            // Its span ends once it is accepted.
            Checked::Start(start, _accept) => accept_to_run(&node, *start, deadline).await?,
        };
        self.await_start(instance, reply, node.database.incarnation, deadline)
            .await
    }

    /// Accepts a start durably and returns the id of its instance. [`Error::is_conflict`] if the caller's own id is taken.
    pub async fn dispatch(&self, request: StartRequest) -> Result<InstanceId> {
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let node = self.accepting()?;
        let (start, _accept) = match self.new_start(&node, request, "dispatch").await? {
            Checked::AcceptedBefore(instance) => return Ok(instance),
            Checked::Start(start, accept) => (*start, accept),
        };
        let (instance, _) = match StartAdmission::of(&node, &start, WorkerWait::Briefly).await? {
            StartAdmission::Queued => accept(&node, start, deadline).await?,
            StartAdmission::Here(room) => {
                // A claimed start is run even if its request was dropped.
                let accepting = move |node: Arc<NodeContext>, sender: AcceptedSender| async move {
                    let acceptor = &node.commits.queued_starts;
                    accept_and_spawn(&node, acceptor, start, room, deadline, sender).await;
                };
                in_task(&node, accepting).await?
            }
        };
        Ok(instance)
    }

    async fn new_start(&self, node: &NodeContext, request: StartRequest, route: &'static str) -> Result<Checked> {
        let chosen = request.instance_id.is_some();
        let instance = match request.instance_id {
            None => InstanceId::random(),
            Some(id) => checked_instance_id(id)?,
        };
        let accept = self.begin_accept(node, Some(&instance));
        plain_correlation_id(request.correlation_id.as_deref())?;
        self.checked("correlationId", &request.correlation_id)?;
        self.checked("name", &request.name)?;
        self.checked("input", &request.input)?;
        self.checked("variables", &request.variables)?;
        let version_id = self
            .version_to_start(node, &request.definition_id, request.version)
            .await?;
        let tenant = &self.tenant;
        let key = request.idempotency.map(|given| request_key(route, given));
        let values = StartValues {
            input: &request.input,
            variables: &request.variables,
            trigger: request.trigger_activity_id.as_ref(),
            trigger_node_id: request.trigger_node_id.as_deref(),
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
        // Without a published version there is none at the node id. If one is published before the start is accepted, the start is
        // checked again.
        let trigger_activity_id = checked.trigger.or(request.trigger_activity_id);
        let body = StartBody {
            correlation_id: request.correlation_id,
            name: request.name,
            input: request.input,
            variables: request.variables,
            trigger_activity_id,
            payload: None,
            parent: None,
            request: None,
            trace: accept.context,
        };
        let start = Box::new(NewStart {
            tenant: tenant.clone(),
            instance,
            definition_id: request.definition_id,
            version_id,
            checked_version: Some(checked.version),
            trigger_node_id: request.trigger_node_id,
            body: serde_json::to_value(&body)
                .map_err(|error| Error::internal("a start cannot be written").caused_by(error))?,
            request: key,
            route: None,
            has_chosen_id: chosen,
            claimed: false,
            origin: self.origin.clone().filter(|origin| origin.is_to_note()),
        });
        Ok(Checked::Start(start, accept))
    }
}

/// A request for a start that was checked.
enum Checked {
    /// To be accepted.
    Start(Box<NewStart>, AcceptTrace),
    /// The same request was accepted before under its key.
    AcceptedBefore(InstanceId),
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

/// The key of a request by link, distinct from those of the API and of other links: the holder of a link must not take a key that a
/// client will use.
pub(super) fn link_request_key(link: LinkId, given: Idempotency) -> IdempotencyKey {
    let mut key = request_key(LINK_ROUTE, given);
    key.key = format!("{link}:{}", key.key);
    key
}

pub(crate) fn request_key(route: &'static str, given: Idempotency) -> IdempotencyKey {
    IdempotencyKey {
        route,
        key: given.key,
        fingerprint: given.fingerprint.to_vec(),
    }
}

/// The body of a resume and the like, as JSON.
pub(crate) fn to_body(body: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(body).map_err(|error| Error::internal("an instruction cannot be written").caused_by(error))
}
