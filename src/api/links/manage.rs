//! Making, listing and revoking the resume links of an instance, and the keys that sign them.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use mainspring_language::TimeSpan;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::{Counted, NoFields};
use crate::api::path::{Id, IdPair};
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{BookmarkId, InstanceId, LinkId};
use crate::runtime::{LinkKey, ResumeLink, ResumeLinkRequest, ResumeLinkSummary};

/// What a link is for.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct LinkFields {
    /// The bookmark; if absent, the instance must have exactly one.
    bookmark_id: Option<String>,
    /// How long the link can be used: a time span such as `7.00:00:00` or `P7D`, or a number of seconds. 7 days if absent, ten years
    /// at most.
    #[schema(value_type = Option<String>)]
    expires_in: Option<Value>,
    /// How often it can be used; once if absent.
    #[schema(minimum = 1, maximum = 1000)]
    uses: Option<u32>,
}

/// Makes a resume link for a bookmark of an instance
///
/// The link is told only here. Its holder needs no API key.
#[utoipa::path(post, path = "/workflow-instances/{id}/resume-links", tag = "Resume links",
    params(("id" = String, Path, description = "The id of the instance.")),
    request_body = Option<LinkFields>,
    responses(
        (status = 200, description = "The link.", body = ResumeLink),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
        (status = 409, description = "`already-resumed`: the instance does not wait at this bookmark. `several-bookmarks` or \
            `instance-faulted`."),
    ))]
pub(super) async fn create(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let request = ResumeLinkRequest {
        bookmark_id: fields.id("bookmarkId")?.map(BookmarkId::new),
        expires_in: lifetime(&mut fields)?,
        uses: fields.number("uses", 1)?,
    };
    let link = api.engine.create_resume_link(&InstanceId::new(id), request).await?;
    Ok(Json(link).into_response())
}

fn lifetime(fields: &mut Fields) -> Result<Option<Duration>, ApiError> {
    let given = match fields.any("expiresIn") {
        None => return Ok(None),
        Some(given) => given,
    };
    let lifetime = match &given {
        Value::String(text) => TimeSpan::parse(text).and_then(TimeSpan::to_duration),
        Value::Number(seconds) => seconds
            .as_f64()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        _ => None,
    };
    let lifetime = lifetime.filter(|lifetime| !lifetime.is_zero());
    let wrong = || {
        let message = "expiresIn must be a time span above zero, such as \"7.00:00:00\", or a number of seconds.";
        ApiError::invalid_field("expiresIn", message)
    };
    lifetime.map(Some).ok_or_else(wrong)
}

/// Lists the resume links of an instance, the oldest first, without their URLs
#[utoipa::path(get, path = "/workflow-instances/{id}/resume-links", tag = "Resume links",
    params(("id" = String, Path, description = "The id of the instance.")),
    responses(
        (status = 200, description = "The links, 1,000 at most.", body = Counted<ResumeLinkSummary>),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn list(State(api): State<Api>, Id(id): Id) -> ApiResult {
    let items = api.engine.resume_links(&InstanceId::new(id)).await?;
    Ok(Json(json!({"items": items, "count": items.len()})).into_response())
}

/// Revokes a resume link
#[utoipa::path(delete, path = "/workflow-instances/{id}/resume-links/{linkId}", tag = "Resume links",
    params(("id" = String, Path, description = "The id of the instance."),
        ("linkId" = String, Path, description = "The id of the link.")),
    responses(
        (status = 204, description = "The link cannot be used any more."),
        (status = 404, description = "`link-not-found`: the instance has no such link."),
    ))]
pub(super) async fn revoke(State(api): State<Api>, IdPair(id, link): IdPair) -> ApiResult {
    let not_found = || ApiError::new(StatusCode::NOT_FOUND, "link-not-found", "No resume link has this id.");
    let link = LinkId::parse(&link).ok_or_else(not_found)?;
    api.engine.revoke_resume_link(&InstanceId::new(id), link).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Lists the keys that sign resume links, the newest first, without the keys themselves
#[utoipa::path(get, path = "/cluster/link-keys", tag = "Resume links",
    responses((status = 200, description = "The keys.", body = Counted<LinkKey>)))]
pub(super) async fn keys(State(api): State<Api>) -> ApiResult {
    let items = api.engine.link_keys().await?;
    Ok(Json(json!({"items": items, "count": items.len()})).into_response())
}

/// Adds a key, which signs new resume links from the next minute on
///
/// Links that other keys have signed stay valid until their key is deleted.
#[utoipa::path(post, path = "/cluster/link-keys", tag = "Resume links",
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "The key.", body = LinkKey),
        (status = 409, description = "`too-many-keys`: there are 16. `duplicate`: another one was added at the same time."),
    ))]
pub(super) async fn rotate(State(api): State<Api>, _body: RequestBody) -> ApiResult {
    Ok(Json(api.engine.rotate_link_key().await?).into_response())
}

/// Deletes a key: no resume link that it has signed is valid any more
#[utoipa::path(delete, path = "/cluster/link-keys/{id}", tag = "Resume links",
    params(("id" = String, Path, description = "The number of the key.")),
    responses(
        (status = 204, description = "The key verifies nothing any more, on no node."),
        (status = 404, description = "`key-not-found`: there is no such key."),
        (status = 409, description = "`key-signs`: it may still sign links; rotate, and delete it two minutes later."),
    ))]
pub(super) async fn retire(State(api): State<Api>, Id(id): Id) -> ApiResult {
    let not_found = || {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "key-not-found",
            "A key has a whole number as its id.",
        )
    };
    api.engine.retire_link_key(id.parse().map_err(|_| not_found())?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
