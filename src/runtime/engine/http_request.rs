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
//! - A volatile request, whose payload names files of this process, is accepted by the commit of its first burst. Its row is
//!   discarded when the files are gone, and its key with it.
//! - A client that leaves cancels nothing that was accepted.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Engine;
use super::await_reply::dead_lettered;
use super::http_routes::RouteTarget;
use super::instances::no_instance;
use super::resume::already_resumed;
use super::start::{checked_instance_id, to_body};
use super::start_admission::{accept_to_run, invalid_input};
use crate::execution::{StartValues, check_value};
use crate::failpoint;
use crate::id::{InstanceId, RequestId, TenantId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::replies::{PendingReply, Reply};
use crate::runtime::context::request::{Idempotency, plain_correlation_id};
pub(crate) use crate::runtime::context::waiting_requests::HttpEnd;
use crate::runtime::context::waiting_requests::WaitingRequest;
use crate::runtime::worker::instruction::{RequestOfRow, ResumeBody, StartBody};
use crate::spool::SpoolFile;
use crate::store::http_answer;
use crate::store::request::{HTTP_ROUTE, IdempotencyKey, RequestRecord, find_request};
use crate::store::start::{NewStart, StartRoute, route_moved};
use crate::store::work::{self, AcceptedResume, WorkStatus};
use crate::{Error, Result};

/// How soon, and then how often, it is read whether another node has consumed the row of a request. Bursts of this node reply.
const READ_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

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
    pub(crate) files: Vec<SpoolFile>,
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

/// A request that was accepted and waits for its end.
struct Accepted {
    waiting: WaitingRequest,
    reply: PendingReply,
    wait_for_response: Option<Duration>,
    deadline: Instant,
    is_volatile: bool,
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
    /// Conflict `already-resumed`: another request was first at the bookmark; `route-moved`: look the route up again. [`Error::is_not_found`]: the instance is gone.
    /// Unprocessable `idempotency-key-reused`. Unavailable, code `request-not-run`: of a volatile request nothing was accepted.
    /// Otherwise as for starts and resumes.
    pub(crate) async fn run_request(&self, run: HttpRun) -> Result<HttpOutcome> {
        if run.files.is_empty() {
            return self.accept_and_await(run).await;
        }
        // In a task of its own: a client that leaves must not take the files away from the burst.
        let engine = self.clone();
        let task = tokio::spawn(async move { engine.accept_and_await(run).await });
        task.await
            .unwrap_or_else(|_| Err(Error::internal("the task of a request ended without a result")))
    }

    /// The end of a request that was accepted before under this key, at any node; `None` if the key is new. Ask before the
    /// route is looked up: the bookmark that the request has resumed is gone, and its route may be.
    ///
    /// # Errors
    /// Unprocessable `idempotency-key-reused` if the key came with another request. Otherwise as for [`Engine::run_request`].
    pub(crate) async fn repeat_request(
        &self,
        scope: &str,
        idempotency: &Idempotency,
        deadline: Instant,
    ) -> Result<Option<HttpOutcome>> {
        let node = self.accepting()?;
        let key = scoped_key(scope, idempotency);
        match find_request(&node.database.pool, &self.inner.tenant, &key).await? {
            Some(before) => self.await_repeated(&node, &key, before, deadline).await,
            None => Ok(None),
        }
    }

    async fn accept_and_await(&self, run: HttpRun) -> Result<HttpOutcome> {
        let max_bytes = self.inner.interpreter.options().max_value_bytes;
        check_value("payload", &run.payload, max_bytes)?;
        plain_correlation_id(run.correlation_id.as_deref())?;
        let key = run.idempotency.as_ref().map(|given| scoped_key(&run.scope, given));
        for _ in 0..TRIES {
            let node = self.accepting()?;
            failpoint::hit("request.accepting").await?;
            let acceptance = match &run.target {
                RouteTarget::Start { .. } => self.accept_start(&node, &run, key.as_ref()).await?,
                RouteTarget::Resume { .. } => self.accept_resume_of_request(&node, &run, key.as_ref()).await?,
            };
            failpoint::hit("request.accepted").await?;
            let outcome = match (acceptance, &key) {
                (Acceptance::New(accepted), _) => Some(self.await_end(*accepted).await?),
                (Acceptance::Repeated(before), Some(key)) => {
                    self.await_repeated(&node, key, before, run.deadline).await?
                }
                (Acceptance::Repeated(_), None) => None,
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
    ) -> (RequestOfRow, WaitingRequest) {
        let id = key.map_or_else(RequestId::random, |key| request_id(&self.inner.tenant, key));
        let is_volatile = !run.files.is_empty();
        let body = RequestOfRow {
            id,
            holder: node.database.incarnation,
            is_kept: key.is_some(),
            held_for: run
                .wait_for_response
                .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            is_volatile,
            key: key.filter(|_| is_volatile).map(|key| key.key.clone()),
        };
        let requests = &node.notifications.requests;
        (body, requests.register(id, instance, run.files.clone()))
    }

    async fn accept_start(
        &self,
        node: &Arc<NodeContext>,
        run: &HttpRun,
        key: Option<&IdempotencyKey>,
    ) -> Result<Acceptance> {
        let RouteTarget::Start {
            definition_id,
            activity_id,
            hash,
        } = &run.target
        else {
            return Err(Error::internal("the target of a request is no start"));
        };
        let instance = match &run.instance_id {
            Some(id) => checked_instance_id(id.clone())?,
            None => InstanceId::random(),
        };
        let tenant = &self.inner.tenant;
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
        let (request, waiting) = self.register(node, run, key, &instance);
        let body = to_body(&StartBody {
            correlation_id: run.correlation_id.clone(),
            trigger_activity_id: Some(activity_id.clone()),
            payload: Some(run.payload.clone()),
            request: Some(request),
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
            }),
            has_chosen_id: run.instance_id.is_some(),
            claimed: false,
        };
        Ok(match accept_to_run(node, start, run.deadline).await? {
            (_, Some(reply)) => Acceptance::New(Box::new(accepted(run, waiting, reply))),
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
        let (request, waiting) = self.register(node, run, key, id);
        let body = to_body(&ResumeBody {
            bookmark_id: bookmark_id.clone(),
            generation: Some(*generation),
            input: Map::new(),
            payload: Some(run.payload.clone()),
            request: Some(request),
        })?;
        Ok(
            match work::accept_resume(&node.database.pool, &self.inner.tenant, id, &body, key).await? {
                AcceptedResume::New(work) => {
                    let reply = node.notifications.replies.register(id, work);
                    node.work_accepted(Some(id), Some(work), 1);
                    Acceptance::New(Box::new(accepted(run, waiting, reply)))
                }
                AcceptedResume::Existing(work) => Acceptance::Repeated(RequestRecord {
                    instance: Some(id.clone()),
                    work,
                }),
            },
        )
    }

    /// Waits for the end of a request of this node.
    async fn await_end(&self, accepted: Accepted) -> Result<HttpOutcome> {
        let Accepted {
            mut waiting,
            reply,
            wait_for_response,
            deadline,
            is_volatile,
        } = accepted;
        let PendingReply {
            instance,
            work,
            mut receiver,
        } = reply;
        let held_until = wait_for_response.and_then(|time| Instant::now().checked_add(time));
        let until = held_until.map_or(deadline, |end| end.min(deadline));
        let (mut replied, mut is_committed) = (false, false);
        let mut pause = READ_INTERVAL;
        loop {
            tokio::select! {
                biased;
                end = &mut waiting.receiver => return outcome(end),
                reply = &mut receiver, if !replied => {
                    replied = true;
                    match reply {
                        // The end of a request precedes the reply: this one is held.
                        Ok(Reply::Committed { matched: true, .. }) => {
                            is_committed = true;
                            waiting.read_rows();
                        }
                        Ok(Reply::Committed { matched: false, .. } | Reply::Unmatched) => {
                            return Err(self.unmet(&instance).await);
                        }
                        Ok(Reply::NoInstance) => return Err(no_instance(&instance)),
                        Ok(Reply::Unknown) => return Err(unknown(&instance)),
                        Ok(Reply::Elsewhere) => pause = Duration::ZERO,
                        Err(_) => {}
                    }
                }
                () = tokio::time::sleep(pause), if !is_committed => {
                    pause = (pause * 3 / 2).clamp(READ_INTERVAL, LONGEST_INTERVAL);
                    // A read over an unresponsive connection ends at the deadline.
                    let status = tokio::time::timeout_at(until, self.work_status(&instance, work)).await;
                    match status.unwrap_or(WorkStatus::Pending) {
                        WorkStatus::Pending => continue,
                        WorkStatus::DeadLettered => return Err(dead_lettered(&instance)),
                        WorkStatus::Unmatched => return Err(self.unmet(&instance).await),
                        WorkStatus::Consumed | WorkStatus::Deleted | WorkStatus::Unknown => {}
                    }
                    // A burst of this node that has just been committed may not have replied yet.
                    if let Ok(end) = tokio::time::timeout(READ_INTERVAL, &mut waiting.receiver).await {
                        return outcome(end);
                    }
                    is_committed = true;
                    if let Some(outcome) = self.read_end(waiting.id, &instance, until).await {
                        return Ok(outcome);
                    }
                    if is_volatile && !replied {
                        return Err(not_run());
                    }
                    waiting.read_rows();
                }
                () = tokio::time::sleep_until(until) => break,
            }
        }
        let is_over = held_until.is_some_and(|end| end <= until);
        let end = if is_over { HttpEnd::Waiting } else { HttpEnd::Pending };
        if is_committed {
            if let Some(outcome) = self.read_end(waiting.id, &instance, until).await {
                return Ok(outcome);
            }
        } else if !is_volatile {
            // What goes on must be durable.
            self.still_running(instance.clone(), until).await?;
        }
        Ok(HttpOutcome {
            instance_id: instance,
            end,
        })
    }

    /// Waits for the end of a request that was accepted before under its key, by this node or another one; `None` if it was
    /// withdrawn meanwhile, so that it is a new one.
    async fn await_repeated(
        &self,
        node: &NodeContext,
        key: &IdempotencyKey,
        before: RequestRecord,
        deadline: Instant,
    ) -> Result<Option<HttpOutcome>> {
        let (pool, tenant) = (&node.database.pool, &self.inner.tenant);
        let instance = before
            .instance
            .clone()
            .ok_or_else(|| Error::internal("the request of a key names no instance"))?;
        let id = request_id(tenant, key);
        let mut waiting = node.notifications.requests.register(id, &instance, Vec::new());
        if let Some(outcome) = self.read_end(id, &instance, deadline).await {
            return Ok(Some(outcome));
        }
        waiting.read_rows();
        let mut pause = READ_INTERVAL;
        loop {
            tokio::select! {
                biased;
                end = &mut waiting.receiver => {
                    return outcome(end).map(Some);
                }
                () = tokio::time::sleep(pause) => {
                    pause = (pause * 3 / 2).clamp(READ_INTERVAL, LONGEST_INTERVAL);
                    let status = match before.work {
                        Some(work) => self.work_status(&instance, work).await,
                        None => self.status_of_start(node, &instance).await,
                    };
                    match status {
                        WorkStatus::DeadLettered => return Err(dead_lettered(&instance)),
                        WorkStatus::Unmatched => return Err(self.unmet(&instance).await),
                        WorkStatus::Pending => {}
                        WorkStatus::Consumed | WorkStatus::Deleted | WorkStatus::Unknown => {
                            match find_request(pool, tenant, key).await? {
                                Some(now) if now == before => {}
                                _ => return Ok(None),
                            }
                        }
                    }
                }
                () = tokio::time::sleep_until(deadline) => break,
            }
        }
        if let Some(outcome) = self.read_end(id, &instance, deadline).await {
            return Ok(Some(outcome));
        }
        // Without an end of its own it waits for something, or runs on.
        let executed = self.executed(&instance).await?;
        Ok(Some(HttpOutcome {
            end: if executed.pending {
                HttpEnd::Pending
            } else {
                HttpEnd::Waiting
            },
            instance_id: instance,
        }))
    }

    /// The status of a start that another registration has accepted; unknown if it cannot be read.
    async fn status_of_start(&self, node: &NodeContext, instance: &InstanceId) -> WorkStatus {
        let (pool, tenant) = (&node.database.pool, &self.inner.tenant);
        let status = work::start_status(pool, tenant, instance, node.database.incarnation).await;
        status.unwrap_or(WorkStatus::Pending)
    }

    /// The end of a request of this instance, if it is a row that can be read now. An expired key that is used again has the id
    /// of the former request.
    async fn read_end(&self, id: RequestId, instance: &InstanceId, deadline: Instant) -> Option<HttpOutcome> {
        let node = self.node().ok()?;
        let ids = [id];
        let reading = http_answer::read(&node.database.pool, &ids);
        match tokio::time::timeout_at(deadline + READ_INTERVAL, reading).await {
            Ok(Ok(kept)) => {
                let own = kept.into_iter().find(|kept| kept.instance == *instance)?;
                Some(HttpOutcome {
                    instance_id: own.instance.clone(),
                    end: own.into(),
                })
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "the end of a request cannot be read; it is read again");
                None
            }
            Err(_) => None,
        }
    }

    /// Why the row of a request met nothing.
    async fn unmet(&self, instance: &InstanceId) -> Error {
        match self.not_waiting(instance).await {
            Ok(why) => why,
            Err(missing) if missing.is_not_found() => missing,
            Err(_) => already_resumed(instance),
        }
    }
}

fn accepted(run: &HttpRun, waiting: WaitingRequest, reply: PendingReply) -> Accepted {
    Accepted {
        waiting,
        reply,
        wait_for_response: run.wait_for_response,
        deadline: run.deadline,
        is_volatile: !run.files.is_empty(),
    }
}

/// What the registry has sent. It drops no sender without an end while the request is registered.
fn outcome(end: Result<(InstanceId, HttpEnd), oneshot::error::RecvError>) -> Result<HttpOutcome> {
    let (instance_id, end) = end.map_err(|_| Error::internal("a request was given up"))?;
    Ok(HttpOutcome { instance_id, end })
}

/// The key of a request in its scope: the same key of another client, or at another endpoint, is another one.
fn scoped_key(scope: &str, given: &Idempotency) -> IdempotencyKey {
    IdempotencyKey {
        route: HTTP_ROUTE,
        key: format!("{}:{}", URL_SAFE_NO_PAD.encode(Sha256::digest(scope)), given.key),
        fingerprint: given.fingerprint.to_vec(),
    }
}

/// The id of each request with this key and fingerprint.
fn request_id(tenant: &TenantId, key: &IdempotencyKey) -> RequestId {
    let mut hash = Sha256::new();
    for part in [tenant.as_str().as_bytes(), key.key.as_bytes(), &key.fingerprint] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    RequestId::of_hash(&hash.finalize().into())
}

fn unknown(instance: &InstanceId) -> Error {
    Error::unknown_outcome(
        "the database went away while the workflow was committed; look the instance up, or send the request again with the \
         same Idempotency-Key",
    )
    .instance(instance.as_str())
}

/// The error of a volatile request whose row was discarded.
fn not_run() -> Error {
    Error::unavailable(
        "request-not-run",
        "the request was not run, and nothing of it was kept; send it again",
    )
}
