//! The way of a request: its route, its credential, its body, the engine, and its answer.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::WorkflowEndpoints;
use super::admission::Requester;
use super::answer;
use super::body_stream::BodyStream;
use super::content::{BodyReader, ReadBody};
use super::incoming::{Named, decoded, received};
use crate::activity::http::{ReceivedBody, RouteOptions};
use crate::expression::TimeSpan;
use crate::http::{ApiError, HoldingBody, idempotency_key, request_fingerprint, trace_of};
use crate::runtime::{Engine, FoundRoute, HttpRun, Idempotency, RouteQuery};
use crate::spool::RequestFiles;

/// How often a route is looked up for one request, if it moves while the request is accepted.
const ROUTE_TRIES: usize = 8;

/// Longer than any request takes.
const NO_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a request that is held waits for its end beyond its time.
const HELD_GRACE: Duration = Duration::from_secs(2);

/// Serves one request. `path`: below the base path.
pub(super) async fn serve(endpoints: &WorkflowEndpoints, request: Request, path: &str) -> Response {
    let admission = &endpoints.admission;
    if let Err(error) = admission.check_host(&request) {
        return error.into_response();
    }
    if let Some(mut answer) = admission.preflight(&request) {
        let (parts, _) = request.into_parts();
        admission.share(admission.origin(&parts), &mut answer);
        return answer;
    }
    let (parts, body) = request.into_parts();
    let who = match admission.sender(&parts).await {
        Ok(who) => who,
        Err(refused) => {
            let mut answer = *refused;
            admission.share(admission.origin(&parts), &mut answer);
            return answer;
        }
    };
    let mut permit = match admission.permit(&who) {
        Ok(permit) => permit,
        Err(error) => return error.into_response(),
    };
    let mut exchange = Exchange {
        endpoints,
        path,
        began: Instant::now(),
        engine: endpoints
            .engine
            .for_tenant(who.tenant())
            .continuing(trace_of(&parts.headers)),
        who,
        body: BodyStream::new(
            body,
            &parts.headers,
            endpoints.body_timeout,
            Instant::now() + NO_TIMEOUT,
        ),
        parts: &parts,
    };
    let (mut response, permit) = match exchange.run(&mut permit).await {
        Ok(response) => (response, Some(permit)),
        Err(Refusal(response)) => {
            // A client that goes on to send a refused body takes no place of another one.
            drop(permit);
            (*response, None)
        }
    };
    if !exchange.body.discard().await {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    admission.share(admission.origin(&parts), &mut response);
    response.map(|body| Body::new(HoldingBody::new(body, permit)))
}

/// A response instead of that of a workflow.
struct Refusal(Box<Response>);

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self(Box::new(error.into_response()))
    }
}

impl From<Box<Response>> for Refusal {
    fn from(response: Box<Response>) -> Self {
        Self(response)
    }
}

impl From<Response> for Refusal {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

/// One request, and what is known of it.
struct Exchange<'e> {
    endpoints: &'e WorkflowEndpoints,
    path: &'e str,
    parts: &'e Parts,
    began: Instant,
    who: Requester,
    /// In the tenant of the sender.
    engine: Engine,
    body: BodyStream,
}

impl Exchange<'_> {
    async fn run(&mut self, permit: &mut OwnedSemaphorePermit) -> Result<Response, Refusal> {
        let engine = &self.engine.clone();
        let named = Named::of(self.parts)?;
        let path = decoded(self.path)?;
        let key = idempotency_key(&self.parts.headers)?;
        let base = engine.http_services().base_path.clone();
        let mut request = received(self.parts, &base, path, &self.who);
        let mut read: Option<ReadBody> = None;
        for _ in 0..ROUTE_TRIES {
            let query = RouteQuery {
                method: self.parts.method.as_str(),
                path: self.path,
                instance_id: named.instance_id.as_ref(),
                correlation_id: named.correlation_id.as_deref(),
            };
            let found = engine.find_route(&query).await;
            let found = found.map_err(|error| answer::of_error(error, engine))?;
            // The bookmark that an earlier request with this key has resumed is gone, and with it perhaps the route; or others
            // wait there by now.
            if let Some(key) = &key
                && !found.starts()
                && let Some(response) = self.repeat(key, &mut read).await?
            {
                return Ok(response);
            }
            let admission = &self.endpoints.admission;
            let found = match found {
                FoundRoute::Target(found) => *found,
                FoundRoute::Ambiguous(all) => {
                    for options in &all.options {
                        admission
                            .authorize(self.parts, &self.who, &self.options(options)?)
                            .await?;
                    }
                    return Err(answer::ambiguous(&all.candidates).into());
                }
                FoundRoute::WrongMethod { allowed } => {
                    return Err(answer::wrong_method(self.parts.method.as_str(), &allowed).into());
                }
                FoundRoute::None => return Err(answer::no_route().into()),
            };
            let options = self.options(&found.options)?;
            admission.authorize(self.parts, &self.who, &options).await?;
            let timeout = duration(options.request_timeout.as_deref());
            let body = match &mut read {
                Some(read) => read,
                none => none.insert(self.read(&options, timeout).await?),
            };
            let problem = body.problem_for(&options);
            if let Some(problem) = problem.filter(|problem| !options.is_exposed(*problem)) {
                return Err(answer::of_problem(problem, &options).into());
            }
            let held = duration(options.wait_for_response.as_deref());
            if held.is_some() {
                *permit = admission.held_permit(&self.who)?;
                // While it waits, for a day perhaps, it parses nothing.
                drop(std::mem::take(&mut body.memory));
            }
            request.route = found.values;
            request.problem = problem;
            request.body = match (problem, &body.body) {
                (None, body) => body.clone(),
                // The fields are shown, and no file.
                (Some(_), ReceivedBody::Form { fields, .. }) => ReceivedBody::Form {
                    fields: fields.clone(),
                    files: Vec::new(),
                },
                (Some(_), _) => ReceivedBody::None,
            };
            let run = HttpRun {
                target: found.target,
                payload: request.to_payload(),
                instance_id: named.instance_id.clone(),
                correlation_id: named.correlation_id.clone(),
                idempotency: key.clone().map(|key| self.idempotency(key, body)),
                scope: self.scope(),
                files: if problem.is_some() {
                    RequestFiles::default()
                } else {
                    body.files.clone()
                },
                wait_for_response: held,
                deadline: self.deadline(timeout, held),
            };
            match engine.run_request(run).await {
                Ok(outcome) => return Ok(answer::of_outcome(outcome, timeout.is_some(), self.parts).await),
                // The body, cut under the former options, may be a whole one under the new ones.
                Err(error) if error.code() == "route-moved" && problem.is_some() => break,
                Err(error) if error.code() == "route-moved" => {}
                Err(error) => return Err(answer::of_error(error, engine).into()),
            }
        }
        let message = "The route moves again and again while requests are accepted; try again.";
        Err(ApiError::unavailable("route-moved", message).into())
    }

    /// The response to a request that an earlier one has answered already.
    async fn repeat(&mut self, key: &str, read: &mut Option<ReadBody>) -> Result<Option<Response>, Refusal> {
        let engine = &self.engine.clone();
        // The body of a client that repeats nothing is read only after its credential was checked.
        let is_known = engine.is_known_request(&self.scope(), key).await;
        if !is_known.map_err(|error| answer::of_error(error, engine))? {
            return Ok(None);
        }
        let read = match read {
            Some(read) => read,
            none => {
                let options = RouteOptions {
                    request_size_limit: Some(self.endpoints.max_body),
                    ..RouteOptions::default()
                };
                none.insert(self.read(&options, None).await?)
            }
        };
        let idempotency = self.idempotency(key.to_owned(), read);
        let deadline = self.deadline(None, None);
        match engine
            .repeat_request(&self.scope(), &idempotency, !read.files.is_empty(), deadline)
            .await
        {
            Ok(Some(outcome)) => Ok(Some(answer::of_outcome(outcome, false, self.parts).await)),
            Ok(None) => Ok(None),
            Err(error) => Err(answer::of_error(error, engine).into()),
        }
    }

    fn options(&self, options: &Value) -> Result<RouteOptions, ApiError> {
        let mut options = RouteOptions::read(options).map_err(|error| {
            tracing::error!(%error, path = self.path, "the options of a route cannot be read");
            ApiError::internal()
        })?;
        options.request_size_limit.get_or_insert(self.endpoints.max_body);
        Ok(options)
    }

    async fn read(&mut self, options: &RouteOptions, timeout: Option<Duration>) -> Result<ReadBody, ApiError> {
        if let Some(timeout) = timeout {
            self.body.deadline(self.began + timeout);
        }
        let spool = &self.endpoints.engine.http_services().spool;
        let spool = if self.endpoints.admission.is_stranger(&self.who).await {
            spool.of_strangers()
        } else {
            spool.clone()
        };
        let reader = BodyReader {
            headers: &self.parts.headers,
            options,
            spool: &spool,
            limits: &self.endpoints.limits,
            largest_text: self.endpoints.engine.max_value_bytes(),
            timeout: self.endpoints.body_timeout,
        };
        reader.read(&mut self.body).await
    }

    fn idempotency(&self, key: String, body: &ReadBody) -> Idempotency {
        Idempotency {
            key,
            fingerprint: request_fingerprint(self.parts, &body.digest),
        }
    }

    /// What a key belongs to: the route as the client names it, since a bookmark's ends with its request; and the caller.
    fn scope(&self) -> String {
        let caller = self.who.scope(&self.parts.headers);
        format!("{}\n{}\n{caller}", self.parts.method, self.path.trim_matches('/'))
    }

    fn deadline(&self, timeout: Option<Duration>, held: Option<Duration>) -> Instant {
        let answer_timeout = self.endpoints.engine.answer_timeout();
        match (timeout, held) {
            (Some(timeout), _) => self.began + timeout,
            (None, Some(held)) => Instant::now() + answer_timeout.max(held + HELD_GRACE),
            (None, None) => Instant::now() + answer_timeout,
        }
    }
}

/// A length of time as .NET writes it. The publish has checked it.
fn duration(text: Option<&str>) -> Option<Duration> {
    TimeSpan::parse(text?)?.to_duration().filter(|length| !length.is_zero())
}
