//! Resuming at bookmarks: by id with the API key, or by a resume URL, whose token needs no key.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::PREFIX;
use super::admission::ShowsKey;
use super::execute::{Execution, execution_response, head_not_allowed, status_of};
use super::fields::Fields;
use super::openapi::{IdempotencyKey, Started};
use super::path::{Id, RESUME_BY_PATH, RESUME_BY_QUERY, RESUME_PREFIX};
use crate::http::{ApiError, ApiResult, ErrorBody, RequestBody};
use crate::id::{BookmarkId, InstanceId};
use crate::runtime::ResumeRequest;

/// The body limit of a request with a token and no key, in bytes.
const MAX_TOKEN_BODY: usize = 256 * 1024;

/// The routes below the prefix of the API.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(resume))
        .routes(routes!(create_token))
        .routes(routes!(by_query))
}

/// The resume URL that is not below the prefix.
pub(super) fn url_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(by_path))
}

/// The input of the waiting activity.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct ResumeInput {
    /// By name.
    input: Option<Map<String, Value>>,
}

/// Where to resume, and with what.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ResumeFields {
    /// The bookmark; if absent, the instance must have exactly one.
    bookmark_id: Option<String>,
    /// The input of the waiting activity, by name.
    input: Option<Map<String, Value>>,
}

/// What a token is for.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct TokenFields {
    /// The bookmark; if absent, the instance must have exactly one.
    bookmark_id: Option<String>,
    /// How long the token is valid; without limit if absent.
    #[schema(minimum = 1, maximum = 2147483647)]
    lifetime_seconds: Option<u32>,
}

/// A token that resumes one bookmark once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ResumeToken {
    /// The path of its URL.
    path: String,
    /// The same in Elsa's form.
    elsa_path: String,
    /// The token.
    token: String,
}

/// The response to a resume by a token.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, clippy::large_enum_variant, reason = "a schema")]
enum ResumedByToken {
    /// To a caller without the API key.
    Outcome(ResumeOutcome),
    /// The state of the instance, to a caller with the key.
    Execution(Execution),
    /// Its id, to a caller with the key, if the resume is only accepted.
    Started(Started),
}

/// All that the holder of a token learns, because the data of an instance is not meant for every holder of its link.
#[derive(Serialize, ToSchema)]
struct ResumeOutcome {
    /// `Suspended`, `Finished`, `Cancelled` or `Faulted`; `Executing`, `Pending` or `Accepted` while it continues.
    status: String,
}

fn outcome(code: StatusCode, status: &str) -> Response {
    let status = status.to_owned();
    (code, Json(ResumeOutcome { status })).into_response()
}

/// How to resume by a token.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct TokenQuery {
    /// Of a GET: the input of the activity that waits, as JSON.
    #[param(rename = "in")]
    input: Option<String>,
    /// Answers once the resume is accepted durably.
    r#async: Option<bool>,
}

/// Resumes an instance by a token in the query.
///
/// The token authenticates the request, which needs no API key. Without a key, the answer has only the status of the
/// instance.
#[utoipa::path(method(get, post), path = RESUME_BY_QUERY, tag = "Resuming",
    params(("t" = String, Query, description = "The token."), TokenQuery, IdempotencyKey),
    request_body = Option<ResumeInput>,
    responses(
        (status = 200, description = "The instance waits again or has ended; with `async`, the resume is accepted.",
            body = ResumedByToken),
        (status = 202, description = "The instance is still running at the answer timeout.", body = ResumedByToken),
        (status = 404, description = "`instance-not-found`: the instance no longer exists."),
        (status = 409, description = "`already-resumed`: the instance no longer waits at this bookmark. \
            `instance-faulted`: it has faulted."),
        (status = 500, description = "The instance has faulted, or the server has failed.",
            content((Execution = "application/json"), (ErrorBody = "application/problem+json"))),
    ))]
pub(super) async fn by_query(State(api): State<Api>, request: Request) -> ApiResult {
    let mut query = Fields::from_query(request.uri())?;
    let token = query.text("t")?;
    let Some(token) = token else {
        return Err(
            ApiError::bad_request("invalid-token", "The query must have the token as `t`.").field("t", "is missing"),
        );
    };
    resume_by_token(&api, &token, Some(query), request).await
}

/// Resumes an instance by a token in the path.
///
/// The token authenticates the request, which needs no API key. Without a key, the answer has only the status of the
/// instance.
#[utoipa::path(method(get, post), path = RESUME_BY_PATH, tag = "Resuming",
    params(("token" = String, Path, description = "The token."), TokenQuery, IdempotencyKey),
    request_body = Option<ResumeInput>,
    responses(
        (status = 200, description = "The instance waits again or has ended; with `async`, the resume is accepted.",
            body = ResumedByToken),
        (status = 202, description = "The instance is still running at the answer timeout.", body = ResumedByToken),
        (status = 404, description = "`instance-not-found`: the instance no longer exists."),
        (status = 409, description = "`already-resumed`: the instance no longer waits at this bookmark. \
            `instance-faulted`: it has faulted."),
        (status = 500, description = "The instance has faulted, or the server has failed.",
            content((Execution = "application/json"), (ErrorBody = "application/problem+json"))),
    ))]
pub(super) async fn by_path(State(api): State<Api>, Id(token): Id, request: Request) -> ApiResult {
    resume_by_token(&api, &token, None, request).await
}

/// Verifies the token first: without a valid one, nothing else of the request is read.
async fn resume_by_token(api: &Api, token: &str, query: Option<Fields>, request: Request) -> ApiResult {
    let method = request.method().clone();
    // A HEAD must not resume anything: programs send it to preview a link.
    if method == Method::HEAD {
        return Err(head_not_allowed(
            "HEAD is not supported here, because a GET resumes a workflow.",
        ));
    }
    let token = api.engine.verify_token(token).await?;
    let shows_key = request.extensions().get::<ShowsKey>().is_some();
    let mut query = query.map_or_else(|| Fields::from_query(request.uri()), Ok)?;
    let _memory = query.reserve(&api.body_limits)?;
    let body = RequestBody::read(request, &api.body_limits, MAX_TOKEN_BODY).await?;
    let input = if method == Method::POST {
        Fields::from_body(body.value)?.object("input")?
    } else {
        query.object("in")?
    };
    let (input, key) = (input.unwrap_or_default(), body.idempotency);
    if query.flag("async")?.unwrap_or(false) {
        let workflow_instance_id = api.engine.accept_resume_by_verified_token(token, input, key).await?;
        if !shows_key {
            return Ok(outcome(StatusCode::OK, "Accepted"));
        }
        return Ok(Json(Started { workflow_instance_id }).into_response());
    }
    let resumed = api.engine.resume_by_verified_token(token, input, key).await;
    if let (false, Err(error)) = (shows_key, &resumed) {
        // Their messages say where and why.
        if error.is_dead_lettered() {
            return Ok(outcome(StatusCode::INTERNAL_SERVER_ERROR, "Faulted"));
        }
        if error.code() == "instance-faulted" {
            let message = "The instance has faulted and cannot continue.";
            return Err(ApiError::new(StatusCode::CONFLICT, "instance-faulted", message));
        }
    }
    let executed = resumed?;
    if !shows_key {
        return Ok(outcome(status_of(&executed), executed.sub_status().unwrap_or_default()));
    }
    Ok(execution_response(executed))
}

/// Creates a token that resumes a bookmark once.
#[utoipa::path(post, path = "/workflow-instances/{id}/resume-token", tag = "Resuming",
    params(("id" = String, Path, description = "The id of the instance.")),
    request_body = Option<TokenFields>,
    responses(
        (status = 200, description = "The token, and the URLs that resume with it.", body = ResumeToken),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
        (status = 409, description = "`already-resumed`, `several-bookmarks` or `instance-faulted`."),
    ))]
pub(super) async fn create_token(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let bookmark = fields.id("bookmarkId")?;
    let lifetime = fields.number("lifetimeSeconds", 1)?;
    let lifetime = lifetime.map(|seconds| Duration::from_secs(seconds.into()));
    let bookmark = bookmark.map(BookmarkId::new);
    let token = api
        .engine
        .resume_token(&InstanceId::new(id), bookmark, lifetime)
        .await?;
    let body = ResumeToken {
        path: format!("{RESUME_PREFIX}{token}"),
        elsa_path: format!("{PREFIX}{RESUME_BY_QUERY}?t={token}"),
        token,
    };
    Ok(Json(body).into_response())
}

/// Resumes an instance at a bookmark and waits until it waits again or ends.
#[utoipa::path(post, path = "/workflow-instances/{id}/resume", tag = "Resuming",
    params(("id" = String, Path, description = "The id of the instance."), IdempotencyKey),
    request_body = Option<ResumeFields>,
    responses(
        (status = 200, description = "The instance waits again or has ended.", body = Execution),
        (status = 202, description = "The instance is still running at the answer timeout.", body = Execution),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
        (status = 409, description = "`already-resumed`, `several-bookmarks` or `instance-faulted`."),
        (status = 500, description = "The instance has faulted, or the server has failed.",
            content((Execution = "application/json"), (ErrorBody = "application/problem+json"))),
    ))]
pub(super) async fn resume(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let request = ResumeRequest {
        instance_id: InstanceId::new(id),
        bookmark_id: fields.id("bookmarkId")?.map(BookmarkId::new),
        input: fields.object("input")?.unwrap_or_default(),
        idempotency: body.idempotency,
    };
    Ok(execution_response(api.engine.resume(request).await?))
}
