//! Requests of HTTP clients that start or resume an instance, and wait for what it answers.
//!
//! # Invariants
//!
//! - A request is accepted as any start or resume: as a row of work, which a burst consumes.
//! - A client receives an answer only after the commit of the burst that wrote it. Where the client can repeat its request,
//!   waits for a later burst (a held request), or waits at another node than the one whose commit ends the request, the end is
//!   a row of that commit.
//! - A request with an `Idempotency-Key` has an id that follows from scope, key and fingerprint: a repeat finds the row of its
//!   end at any node, and waits for it while the first request runs.
//! - What a volatile request with a key sets off follows from the same id, its instance included: its row is lost with its node, and
//!   calls of activities that were made before must be repeated under their keys.
//! - A volatile request, whose payload names files of this process, is accepted by the commit of its first burst. Its row is
//!   discarded, and its key with it, when the files are gone, or when its time ends while no node has claimed it. Until that
//!   commit no client receives that it goes on.
//! - A client that leaves cancels nothing that was accepted.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::http_routes::RouteTarget;
use super::start::{checked_instance_id, to_body};
use super::start_admission::{accept_to_run, invalid_input};
use crate::execution::{StartValues, check_value};
use crate::failpoint;
use crate::id::{Incarnation, InstanceId, RequestId, TenantId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::replies::PendingReply;
use crate::runtime::context::request::{Idempotency, plain_correlation_id};
pub(crate) use crate::runtime::context::waiting_requests::HttpEnd;
use crate::runtime::context::waiting_requests::WaitingRequest;
use crate::runtime::worker::instruction::{RequestOfRow, ResumeBody, StartBody};
use crate::spool::RequestFiles;
use crate::store::request::{self, HTTP_ROUTE, IdempotencyKey, RequestRecord, find_request};
use crate::store::start::{NewStart, StartRoute, route_moved};
use crate::store::work::{self, AcceptedResume};
use crate::{Error, Result};

/// How often a request is accepted anew because what was accepted under its key was withdrawn.
const TRIES: usize = 3;

/// A request that was admitted and has met a route.
#[derive(Clone, Debug)]
pub(crate) struct HttpRun {
    pub(crate) target: RouteTarget,
    /// What the endpoint receives. It names `files` where it has any.
    pub(crate) payload: Value,
    /// The id that the client wants a new instance to have.
    pub(crate) instance_id: Option<InstanceId>,
    /// The correlation id of a new instance.
    pub(crate) correlation_id: Option<String>,
    pub(crate) idempotency: Option<Idempotency>,
    /// What the key belongs to: the endpoint and the credential. Only the same scope finds an answer again.
    pub(crate) scope: String,
    /// Files of this process: the request is volatile.
    pub(crate) files: RequestFiles,
    /// How long the client waits for the answer of a later burst.
    pub(crate) wait_for_response: Option<Duration>,
    /// Until when it waits at all.
    pub(crate) deadline: Instant,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub(crate) struct HttpOutcome {
    pub(crate) instance_id: InstanceId,
    pub(crate) end: HttpEnd,
}

impl HttpOutcome {
    /// What a client receives that repeats the request: a cookie is of the first one only, as a repeat may come from another
    /// client.
    pub(super) fn of_repeat(self) -> Self {
        let end = match self.end {
            HttpEnd::Answered(answer) if answer.sets_cookie() => HttpEnd::NotKept,
            end => end,
        };
        Self { end, ..self }
    }
}

/// A request that was accepted and waits for its end.
pub(super) struct Accepted {
    pub(super) waiting: WaitingRequest,
    pub(super) reply: PendingReply,
    /// Of a start: the registration that has accepted it.
    pub(super) start_by: Option<Incarnation>,
    pub(super) wait_for_response: Option<Duration>,
    pub(super) deadline: Instant,
    pub(super) is_volatile: bool,
    pub(super) key: Option<String>,
}

/// What accepting a request came to.
enum Acceptance {
    New(Box<Accepted>),
    /// It was accepted before under its key.
    Repeated(RequestRecord),
}

impl Engine {
    /// Starts or resumes an instance for a client, and waits for its answer until the deadline. Dropping the future cancels
    /// nothing that was accepted.
    ///
    /// # Errors
    /// Conflict `already-resumed`: another request was first at the bookmark; `route-moved`: look the route up again.
    /// [`Error::is_not_found`]: the instance is gone.
    /// Unprocessable `idempotency-key-reused`. Unavailable, code `request-not-run`: of a volatile request nothing was accepted;
    /// `no-worker-here`: this node cannot run one.
    /// Otherwise as for starts and resumes.
    pub(crate) async fn run_request(&self, run: HttpRun) -> Result<HttpOutcome> {
        let gone = CancellationToken::new();
        if run.files.is_empty() {
            return self.accept_and_await(run, gone).await;
        }
        // In a task of its own: a client that leaves must not take the files away from the burst. Once that is committed, the task
        // of such a client ends, however long its request would be held.
        let engine = self.clone();
        let _leaves = gone.clone().drop_guard();
        let task = tokio::spawn(async move { engine.accept_and_await(run, gone).await });
        task.await
            .unwrap_or_else(|_| Err(Error::internal("the task of a request ended without a result")))
    }

    /// Whether a request was accepted under this key, whatever it was.
    ///
    /// # Errors
    /// What a read of the database has.
    pub(crate) async fn is_known_request(&self, scope: &str, key: &str) -> Result<bool> {
        let node = self.accepting()?;
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        request::is_known(pool, tenant, HTTP_ROUTE, &text_of_key(scope, key)).await
    }

    /// The end of a request that was accepted before under this key, at any node; `None` if the key is new. Ask where
    /// the route starts no instance: the bookmark that the request has resumed is gone, and its route may be. `is_volatile`: the
    /// request has files.
    ///
    /// # Errors
    /// Unprocessable `idempotency-key-reused` if the key came with another request. Otherwise as for [`Engine::run_request`].
    pub(crate) async fn repeat_request(
        &self,
        scope: &str,
        idempotency: &Idempotency,
        is_volatile: bool,
        deadline: Instant,
    ) -> Result<Option<HttpOutcome>> {
        let node = self.accepting()?;
        let key = scoped_key(scope, idempotency);
        match find_request(&node.database.pool, &self.tenant, &key).await? {
            Some(before) => self.await_repeated(&node, &key, before, is_volatile, deadline).await,
            None => Ok(None),
        }
    }

    async fn accept_and_await(&self, mut run: HttpRun, gone: CancellationToken) -> Result<HttpOutcome> {
        let max_bytes = self.inner.interpreter.options().max_value_bytes;
        check_value("payload", &run.payload, max_bytes)?;
        plain_correlation_id(run.correlation_id.as_deref())?;
        let key = run.idempotency.as_ref().map(|given| scoped_key(&run.scope, given));
        let node = self.accepting()?;
        if !run.files.is_empty() && node.claims.workers.count == 0 {
            // No other node can run it. A repeat only reads.
            if let Some(key) = &key
                && let Some(before) = find_request(&node.database.pool, &self.tenant, key).await?
                && let Some(outcome) = self.await_repeated(&node, key, before, true, run.deadline).await?
            {
                return Ok(outcome);
            }
            return Err(Error::unavailable(
                "no-worker-here",
                "this node runs no workflows, and the files of a request can be read only by the node that received them; send \
                 it to a node with the role worker",
            ));
        }
        for _ in 0..TRIES {
            let node = self.accepting()?;
            failpoint::hit("request.accepting").await?;
            let acceptance = match &run.target {
                RouteTarget::Start { .. } => self.accept_start(&node, &run, key.as_ref()).await?,
                RouteTarget::Resume { .. } => self.accept_resume_of_request(&node, &run, key.as_ref()).await?,
            };
            failpoint::hit("request.accepted").await?;
            let outcome = match (acceptance, &key) {
                (Acceptance::New(accepted), _) => {
                    // The row has it, and a request may be held for a day.
                    run.payload = Value::Null;
                    Some(self.await_end(*accepted, &gone).await?)
                }
                (Acceptance::Repeated(before), Some(key)) => {
                    let is_volatile = !run.files.is_empty();
                    tokio::select! {
                        outcome = self.await_repeated(&node, key, before, is_volatile, run.deadline) => outcome?,
                        () = gone.cancelled() => return Err(left()),
                    }
                }
                // An acceptance whose answer was lost, and whose instance is there already.
                (Acceptance::Repeated(before), None) => match before.instance {
                    Some(instance) => return Err(unknown(&instance)),
                    None => None,
                },
            };
            if let Some(outcome) = outcome {
                failpoint::hit("request.ended").await?;
                return Ok(outcome);
            }
        }
        Err(not_run())
    }

    /// What the row of a request has, and the registration by which its end is received.
    fn register(
        &self,
        node: &NodeContext,
        run: &HttpRun,
        key: Option<&IdempotencyKey>,
        instance: &InstanceId,
        is_new_id: bool,
    ) -> (RequestOfRow, WaitingRequest) {
        let id = key.map_or_else(RequestId::random, |key| request_id(&self.tenant, key));
        // A later burst must not answer a client that has received 202.
        let left = run.deadline.saturating_duration_since(Instant::now());
        let held_for = run.wait_for_response.map(|time| time.min(left));
        let body = RequestOfRow {
            id,
            holder: node.database.incarnation,
            // Any other start is claimed as it is accepted, if there is room.
            is_for_holder: !is_new_id && node.has_room(1),
            is_kept: key.is_some(),
            held_for: held_for.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            files: run.files.all().iter().map(|file| file.id().to_owned()).collect(),
            key: key.filter(|_| !run.files.is_empty()).map(|key| key.key.clone()),
        };
        let requests = &node.notifications.requests;
        (body, requests.register(id, instance, run.files.clone()))
    }

    /// A volatile request with a key has the same instance at each repeat, as its row is lost with its node.
    async fn accept_start(
        &self,
        node: &Arc<NodeContext>,
        run: &HttpRun,
        key: Option<&IdempotencyKey>,
    ) -> Result<Acceptance> {
        let derived = key.filter(|_| run.instance_id.is_none() && !run.files.is_empty());
        if let Some(key) = derived {
            let instance = InstanceId::of_request(request_id(&self.tenant, key));
            match self.accept_start_of(node, run, Some(key), instance, false).await {
                // The instance of an earlier request with this key, which has expired.
                Err(error) if error.code() == "instance-id-taken" => {}
                accepted => return accepted,
            }
        }
        match &run.instance_id {
            Some(id) => {
                let id = checked_instance_id(id.clone())?;
                self.accept_start_of(node, run, key, id, false).await
            }
            None => self.accept_start_of(node, run, key, InstanceId::random(), true).await,
        }
    }

    /// `is_new_id`: no other instance can have the id.
    async fn accept_start_of(
        &self,
        node: &Arc<NodeContext>,
        run: &HttpRun,
        key: Option<&IdempotencyKey>,
        instance: InstanceId,
        is_new_id: bool,
    ) -> Result<Acceptance> {
        let RouteTarget::Start {
            definition_id,
            activity_id,
            hash,
            revision,
        } = &run.target
        else {
            return Err(Error::internal("the target of a request is no start"));
        };
        let tenant = &self.tenant;
        let none = Map::new();
        let values = StartValues {
            input: &none,
            variables: &none,
            trigger: Some(activity_id),
            trigger_node_id: None,
        };
        let (pool, what) = (&node.database.pool, (tenant, definition_id, None));
        let programs = &node.caches.programs;
        let checked = programs.check_start(pool, &node.interpreter, what, values).await?;
        if !checked.problems.is_empty() {
            // The version that is published by now may not have the endpoint.
            if checked.problems.iter().any(|(field, _)| field == "triggerActivityId") {
                node.caches.routes.expire();
                return Err(route_moved());
            }
            return Err(invalid_input(checked.problems));
        }
        let (request, waiting) = self.register(node, run, key, &instance, is_new_id);
        let accept = self.begin_accept(node, Some(&instance));
        let body = to_body(&StartBody {
            correlation_id: run.correlation_id.clone(),
            trigger_activity_id: Some(activity_id.clone()),
            payload: Some(run.payload.clone()),
            request: Some(request),
            trace: accept.context,
            ..StartBody::default()
        })?;
        let start = NewStart {
            tenant: tenant.clone(),
            instance,
            definition_id: definition_id.clone(),
            version_id: None,
            checked_version: Some(checked.version),
            trigger_node_id: None,
            body,
            request: key.cloned(),
            route: Some(StartRoute {
                activity_id: activity_id.clone(),
                hash: *hash,
                revision: *revision,
            }),
            has_chosen_id: !is_new_id,
            claimed: false,
            origin: None,
        };
        Ok(match accept_to_run(node, start, run.deadline).await? {
            (_, Some(reply)) => {
                let start_by = Some(node.database.incarnation);
                Acceptance::New(Box::new(accepted(run, key, waiting, reply, start_by)))
            }
            (instance, None) => Acceptance::Repeated(RequestRecord {
                instance: Some(instance),
                work: None,
            }),
        })
    }

    async fn accept_resume_of_request(
        &self,
        node: &Arc<NodeContext>,
        run: &HttpRun,
        key: Option<&IdempotencyKey>,
    ) -> Result<Acceptance> {
        let RouteTarget::Resume {
            instance_id: id,
            bookmark_id,
            generation,
        } = &run.target
        else {
            return Err(Error::internal("the target of a request is no resume"));
        };
        let (request, waiting) = self.register(node, run, key, id, false);
        let accept = self.begin_accept(node, Some(id));
        let body = to_body(&ResumeBody {
            bookmark_id: bookmark_id.clone(),
            generation: Some(*generation),
            input: Map::new(),
            payload: Some(run.payload.clone()),
            request: Some(request),
            trace: accept.context,
        })?;
        Ok(
            match work::accept_resume(&node.database.pool, &self.tenant, id, &body, key, None).await? {
                AcceptedResume::New(work) => {
                    let reply = node.notifications.replies.register(id, work);
                    node.work_accepted(Some(id), Some(work), 1);
                    Acceptance::New(Box::new(accepted(run, key, waiting, reply, None)))
                }
                AcceptedResume::Existing(work) => Acceptance::Repeated(RequestRecord {
                    instance: Some(id.clone()),
                    work,
                }),
            },
        )
    }
}

fn accepted(
    run: &HttpRun,
    key: Option<&IdempotencyKey>,
    waiting: WaitingRequest,
    reply: PendingReply,
    start_by: Option<Incarnation>,
) -> Accepted {
    Accepted {
        waiting,
        reply,
        start_by,
        wait_for_response: run.wait_for_response,
        deadline: run.deadline,
        is_volatile: !run.files.is_empty(),
        key: key.map(|key| key.key.clone()),
    }
}

/// The error of a request of which the commit, or the acceptance, is in doubt.
pub(super) fn unknown(instance: &InstanceId) -> Error {
    Error::unknown_outcome(
        "the database went away while the workflow was committed; look the instance up, or send the request again with the \
         same Idempotency-Key",
    )
    .instance(instance.as_str())
}

/// The end of a wait whose client is gone: no client receives it, and the request goes on.
pub(super) fn left() -> Error {
    Error::unknown_outcome("the client of the request is gone")
}

/// The key of a request in its scope: the same key of another client, or at another endpoint, is another one.
fn scoped_key(scope: &str, given: &Idempotency) -> IdempotencyKey {
    IdempotencyKey {
        route: HTTP_ROUTE,
        key: text_of_key(scope, &given.key),
        fingerprint: given.fingerprint.to_vec(),
    }
}

fn text_of_key(scope: &str, key: &str) -> String {
    format!("{}:{key}", URL_SAFE_NO_PAD.encode(Sha256::digest(scope)))
}

/// The id of each request with this key and fingerprint.
pub(super) fn request_id(tenant: &TenantId, key: &IdempotencyKey) -> RequestId {
    let mut hash = Sha256::new();
    for part in [tenant.as_str().as_bytes(), key.key.as_bytes(), &key.fingerprint] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    RequestId::of_hash(&hash.finalize().into())
}

/// The error of a volatile request whose row was discarded.
pub(super) fn not_run() -> Error {
    Error::unavailable(
        "request-not-run",
        "the request was not run, and nothing of it was kept; send it again",
    )
}
