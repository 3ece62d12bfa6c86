//! Following a resume link: GET and HEAD show its page, POST uses it. The link authenticates the request, which needs no key.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use utoipa::{IntoParams, ToSchema};

use super::page::{self, FormFields};
use crate::activity::http::decode_pairs;
use crate::api::Api;
use crate::api::admission::RequestPlace;
use crate::api::execute::{Execution, execution_response, status_of};
use crate::api::fields::Fields;
use crate::api::openapi::{IdempotencyKey, Started};
use crate::api::path::{RESUME_BY_PATH, RESUME_BY_QUERY, TRIGGER_BY_QUERY};
use crate::auth::{Caller, Permission};
use crate::http::{ApiError, ApiResult, ErrorBody, FormBody, Peer, RequestBody, ReservedMemory, is_form};
use crate::id::TenantId;
use crate::runtime::{Idempotency, LinkUseRequest, LinkUsed};

/// The body limit of a request with a link and no key, in bytes.
const MAX_BODY: usize = 256 * 1024;
/// How long the body of a request without a key may take: a slow one holds a place of those that have no key.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest text by which the form of a page is recognized.
const MAX_ONCE: usize = 64;

/// The input of what waits.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct LinkInput {
    /// By name.
    input: Option<Map<String, Value>>,
}

/// The response to the use of a link.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, clippy::large_enum_variant, reason = "a schema")]
enum UsedLink {
    /// To a caller without the API key.
    Outcome(LinkOutcome),
    /// The state of the instance, to a caller with the key.
    Execution(Execution),
    /// Its id, to a caller with the key, if the request is only accepted.
    Started(Started),
}

/// All that the holder of a link learns, because the data of an instance is not meant for every holder of its link.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LinkOutcome {
    /// `Suspended`, `Finished`, `Cancelled` or `Faulted`; `Executing`, `Pending` or `Accepted` while it continues.
    status: String,
}

/// How to follow a link.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct LinkQuery {
    /// The input of what waits, as JSON; of a GET the page sends it on.
    #[param(rename = "in")]
    input: Option<String>,
    /// Answers once the request is accepted durably.
    r#async: Option<bool>,
}

/// Shows the page of a resume link
///
/// It names the workflow, changes nothing, and has a form that uses the link. HEAD has the same answer without the page.
#[utoipa::path(get, path = RESUME_BY_PATH, tag = "Resume links",
    params(("link" = String, Path, description = "The link."), LinkQuery),
    responses(
        (status = 200, description = "The page.", body = String, content_type = "text/html"),
        (status = 404, description = "`no-such-link`, as a page: no node has made this link.", body = String, content_type = "text/html"),
        (status = 410, description = "The link cannot be used any more, as a page.", body = String, content_type = "text/html"),
    ))]
pub(super) async fn show_by_path(State(api): State<Api>, uri: Uri) -> Response {
    show(&api, &uri).await
}

/// Shows the page of a resume link, whose text is in the query; at the second path of one that triggers an event
#[utoipa::path(get, path = RESUME_BY_QUERY, tag = "Resume links",
    params(("t" = String, Query, description = "The link."), LinkQuery),
    responses(
        (status = 200, description = "The page.", body = String, content_type = "text/html"),
        (status = 404, description = "`no-such-link`, as a page.", body = String, content_type = "text/html"),
        (status = 410, description = "The link cannot be used any more, as a page.", body = String, content_type = "text/html"),
    ))]
pub(super) async fn show_by_query(State(api): State<Api>, uri: Uri) -> Response {
    show(&api, &uri).await
}

/// Uses a resume link
///
/// It resumes a bookmark, or triggers an event of its instance, once unless it was made for more. Without an API key, the answer
/// has only the status of the instance; that to a form is a page.
#[utoipa::path(post, path = RESUME_BY_PATH, tag = "Resume links",
    params(("link" = String, Path, description = "The link."), LinkQuery, IdempotencyKey),
    request_body = Option<LinkInput>,
    responses(
        (status = 200, description = "The instance waits again or has ended; with `async`, or for an event, the request is accepted.",
            body = UsedLink),
        (status = 202, description = "The instance is still running at the answer timeout.", body = UsedLink),
        (status = 404, description = "`no-such-link`: no node has made this link."),
        (status = 410, description = "`link-used`, `link-expired`, `link-revoked`, `link-ended`: what it is for has ended, or was \
            done in another way. `link-unknown`: the step that made it was not kept, or its instance was deleted."),
        (status = 429, description = "`inbox-full`: nothing waits for the event, and the kept events use up their budget."),
        (status = 500, description = "The instance has faulted, or the server has failed.",
            content((Execution = "application/json"), (ErrorBody = "application/problem+json"))),
    ))]
pub(super) async fn use_by_path(State(api): State<Api>, request: Request) -> Response {
    follow(&api, request).await
}

/// Uses a resume link, whose text is in the query; at the second path one that triggers an event
#[utoipa::path(post, path = RESUME_BY_QUERY, tag = "Resume links",
    params(("t" = String, Query, description = "The link."), LinkQuery, IdempotencyKey),
    request_body = Option<LinkInput>,
    responses(
        (status = 200, description = "As for the link in the path.", body = UsedLink),
        (status = 202, description = "The instance is still running at the answer timeout.", body = UsedLink),
        (status = 404, description = "`no-such-link`."),
        (status = 410, description = "`link-used`, `link-expired`, `link-revoked`, `link-ended` or `link-unknown`."),
        (status = 429, description = "`inbox-full`."),
        (status = 500, description = "The instance has faulted, or the server has failed.",
            content((Execution = "application/json"), (ErrorBody = "application/problem+json"))),
    ))]
pub(super) async fn use_by_query(State(api): State<Api>, request: Request) -> Response {
    follow(&api, request).await
}

/// The text of the link: the first parameter `t`, or the end of a path that is not Elsa's. Nothing else is checked before the link is.
fn text_of(uri: &Uri) -> (&str, bool) {
    let path = uri.path();
    if path.ends_with(RESUME_BY_QUERY) || path.ends_with(TRIGGER_BY_QUERY) {
        let parameters = uri.query().unwrap_or_default().split('&');
        let mut texts =
            parameters.filter_map(|parameter| parameter.strip_prefix("t=").or(parameter.strip_prefix("T=")));
        return (texts.next().unwrap_or_default(), true);
    }
    (path.rsplit('/').next().unwrap_or_default(), false)
}

async fn show(api: &Api, uri: &Uri) -> Response {
    let shown = async {
        let (text, is_in_query) = text_of(uri);
        let link = api.engine.verify_link(text).await?;
        let mut query = Fields::from_query(uri)?;
        let input = query.text("in")?;
        // Two clicks are one request.
        let once = uuid::Uuid::new_v4().simple();
        let fields = FormFields {
            // A query that replaces the one of the page, which may have the input.
            action: match is_in_query {
                true => format!("?t={text}&once={once}"),
                false => format!("?once={once}"),
            },
            input: input.as_deref(),
            is_async: query.flag("async")?.unwrap_or(false),
        };
        let shown = api.engine.link_page(link).await?;
        Ok::<_, ApiError>(page::of_link(shown, &fields))
    };
    shown.await.unwrap_or_else(page::of_error)
}

/// What a request asks of a link, and the memory of that.
struct Asked {
    input: Map<String, Value>,
    is_async: bool,
    idempotency: Option<Idempotency>,
    /// Held until the request is accepted or refused, whether or not its client still waits.
    memory: (Vec<ReservedMemory>, Option<RequestBody>),
}

impl Asked {
    async fn read(api: &Api, mut query: Fields, request: Request) -> Result<Self, ApiError> {
        let limits = &api.body_limits;
        let mut memory = vec![query.reserve(limits)?];
        let (mut fields, idempotency, body, name) = if is_form(request.headers()) {
            let form = FormBody::read(request, limits, MAX_BODY).await?;
            let fields = Fields::from_pairs("The form", decode_pairs(&form.text))?;
            memory.push(fields.reserve(limits)?);
            (fields, form.idempotency, None, "in")
        } else {
            let mut body = RequestBody::read(request, limits, MAX_BODY).await?;
            let fields = Fields::from_body(body.value.take())?;
            (fields, body.idempotency.take(), Some(body), "input")
        };
        let input = match fields.object(name)? {
            Some(input) => Some(input),
            None => query.object("in")?,
        };
        let idempotency = match idempotency {
            Some(given) => Some(given),
            None => query
                .text("once")?
                .filter(|once| !once.is_empty())
                .map(once_key)
                .transpose()?,
        };
        let is_async = match fields.flag("async")? {
            Some(flag) => flag,
            None => query.flag("async")?.unwrap_or(false),
        };
        Ok(Self {
            input: input.unwrap_or_default(),
            is_async,
            idempotency,
            memory: (memory, body),
        })
    }
}

/// The key of a form that is sent more than once.
fn once_key(once: String) -> Result<Idempotency, ApiError> {
    if once.len() > MAX_ONCE || !once.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(ApiError::invalid_field("once", "once must be the text of the page."));
    }
    let fingerprint = Sha256::digest(&once).into();
    let key = format!("once:{once}");
    Ok(Idempotency { key, fingerprint })
}

async fn follow(api: &Api, request: Request) -> Response {
    let of_form = is_form(request.headers());
    match used(api, request).await {
        Ok(response) if of_form => page::of_use(response.status()),
        Err(error) if of_form => page::of_error(error),
        answer => answer.into_response(),
    }
}

/// Reads the rest of a request with a genuine link. Without a key, its body is to arrive soon.
async fn asked(api: &Api, request: Request, shows_key: bool) -> Result<Asked, ApiError> {
    let query = Fields::from_query(request.uri())?;
    let reading = Asked::read(api, query, request);
    if shows_key {
        return reading.await;
    }
    tokio::time::timeout(BODY_TIMEOUT, reading).await.unwrap_or_else(|_| {
        let message = format!("The body had not arrived after {} s.", BODY_TIMEOUT.as_secs());
        Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "body-timeout", message).header(header::CONNECTION, "close"))
    })
}

/// Whether a request may repeat one that was accepted: it gets the answer of that one, even if it has used the link up.
fn may_repeat(request: &Request) -> bool {
    let is_once = |parameter: &str| parameter.starts_with("once=");
    request.headers().contains_key("idempotency-key")
        || request.uri().query().is_some_and(|query| query.split('&').any(is_once))
}

/// The tenant whose instances the caller may read: it learns more of one of them than the holder of its link.
fn reads_in(request: &Request) -> Option<TenantId> {
    let caller = request.extensions().get::<Arc<Caller>>()?;
    let may_read = !caller.is_anonymous() && caller.may(&[Permission::ReadWorkflowInstances]);
    may_read.then(|| caller.tenant.clone())
}

async fn used(api: &Api, request: Request) -> ApiResult {
    let client = request.extensions().get::<Peer>().map(|Peer(address)| address.ip());
    let place = request.extensions().get::<RequestPlace>().cloned();
    let (text, _) = text_of(request.uri());
    let link = api.engine.verify_link(text).await?;
    let shows_key = match reads_in(&request) {
        Some(tenant) => api.engine.is_link_of(link, &tenant).await?,
        None => false,
    };
    if !may_repeat(&request) {
        api.engine.check_link(link, client).await?;
    }
    let asked = match asked(api, request, shows_key).await {
        Ok(asked) => asked,
        Err(error) => {
            api.engine.refuse_link_request(link, client).await;
            return Err(error);
        }
    };
    let request = LinkUseRequest {
        input: asked.input,
        idempotency: asked.idempotency,
        client,
        is_async: asked.is_async,
    };
    let used = api.engine.use_link(link, request, (place, asked.memory)).await;
    if let (false, Err(error)) = (shows_key, &used) {
        // Its message says where and why.
        if error.is_dead_lettered() {
            return Ok(outcome(StatusCode::INTERNAL_SERVER_ERROR, "Faulted"));
        }
        // So does that of an event for an instance that has faulted.
        if error.code() == "instance-faulted" {
            let message = "The instance has faulted and cannot continue.";
            return Err(ApiError::new(StatusCode::CONFLICT, "instance-faulted", message));
        }
        if ["instance-not-found", "already-resumed"].contains(&error.code()) {
            let message = "what this link is for has ended, or was done in another way";
            return Err(ApiError::new(StatusCode::GONE, "link-ended", message));
        }
    }
    let used = used.map_err(|error| match ApiError::from(error) {
        error if shows_key => error,
        error => error.without_instance(),
    });
    Ok(match (used?, shows_key) {
        (LinkUsed::Accepted(_), false) => outcome(StatusCode::OK, "Accepted"),
        (LinkUsed::Accepted(workflow_instance_id), true) => Json(Started { workflow_instance_id }).into_response(),
        (LinkUsed::Resumed(executed), true) => execution_response(*executed),
        (LinkUsed::Resumed(executed), false) => {
            outcome(status_of(&executed), executed.sub_status().unwrap_or_default())
        }
    })
}

fn outcome(code: StatusCode, status: &str) -> Response {
    let status = status.to_owned();
    (code, Json(LinkOutcome { status })).into_response()
}
