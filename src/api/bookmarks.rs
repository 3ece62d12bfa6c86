//! Resuming at bookmarks: by id with the API key, or by a resume URL, whose token needs no key.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::IntoResponse;
use serde_json::json;
use std::time::Duration;

use super::Api;
use super::PREFIX;
use super::execute::{execution_response, head_not_allowed};
use super::fields::Fields;
use super::path::{Id, RESUME_BY_QUERY, RESUME_PREFIX};
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{BookmarkId, InstanceId};
use crate::runtime::ResumeRequest;

/// The body limit of a request with a token and no key, in bytes.
const MAX_TOKEN_BODY: usize = 256 * 1024;

/// `GET`, `POST /bookmarks/resume?t=TOKEN`
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

/// `GET`, `POST /workflows/resume/{token}`
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
    let mut query = query.map_or_else(|| Fields::from_query(request.uri()), Ok)?;
    let body = RequestBody::read(request, &api.body_limits, MAX_TOKEN_BODY).await?;
    let input = if method == Method::POST {
        Fields::from_body(body.value)?.object("input")?
    } else {
        query.object("in")?
    };
    let (input, key) = (input.unwrap_or_default(), body.idempotency);
    if query.flag("async")?.unwrap_or(false) {
        let id = api.engine.accept_resume_by_good_token(token, input, key).await?;
        return Ok(Json(json!({"workflowInstanceId": id})).into_response());
    }
    Ok(execution_response(
        api.engine.resume_by_good_token(token, input, key).await?,
    ))
}

/// `POST /workflow-instances/{id}/resume-token`: creates a token for a bookmark.
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
    let body = json!({
        "path": format!("{RESUME_PREFIX}{token}"),
        "elsaPath": format!("{PREFIX}{RESUME_BY_QUERY}?t={token}"),
        "token": token,
    });
    Ok(Json(body).into_response())
}

/// `POST /workflow-instances/{id}/resume`: at the given bookmark, else at the only one.
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
