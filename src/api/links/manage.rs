//! Making, listing and revoking the resume links of an instance, and the keys that sign them.

use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::{Counted, NoFields};
use crate::api::paging;
use crate::api::path::{Id, IdPair};
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{BookmarkId, InstanceId, LinkId};
use crate::runtime::{LinkKey, Page, ResumeLink, ResumeLinkRequest, ResumeLinkSummary};

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
/// Only this answer has the URL. Its holder needs no API key.
#[utoipa::path(post, path = "/workflow-instances/{id}/resume-links", tag = "Resume links",
    params(("id" = String, Path, description = "The id of the instance.")),
    request_body = Option<LinkFields>,
    responses(
        (status = 200, description = "The link.", body = ResumeLink),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
        (status = 409, description = "`already-resumed`: the instance does not wait at this bookmark. `several-bookmarks`, \
            `instance-faulted`, or `too-many-links`: the instance has 10,000."),
    ))]
pub(super) async fn create(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let request = ResumeLinkRequest {
        bookmark_id: fields.id("bookmarkId")?.map(BookmarkId::new),
        expires_in: fields.lifetime("expiresIn", "7.00:00:00")?,
        uses: fields.number("uses", 1)?,
    };
    let link = api.engine.create_resume_link(&InstanceId::new(id), request).await?;
    Ok(Json(link).into_response())
}

/// Which links of an instance.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct LinkCriteria {
    /// Only those before the link with this id: `next` of the page before.
    before: Option<String>,
    /// The size of a page; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// A page of the resume links of an instance.
#[derive(Serialize, ToSchema)]
struct LinkPage {
    /// The newest link first.
    items: Vec<ResumeLinkSummary>,
    /// Where the next page begins; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists the resume links of an instance, the newest first, without their URLs
#[utoipa::path(get, path = "/workflow-instances/{id}/resume-links", tag = "Resume links",
    params(("id" = String, Path, description = "The id of the instance."), LinkCriteria),
    responses(
        (status = 200, description = "A page of the links.", body = LinkPage),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn list(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let size = paging::size(&mut fields, "pageSize")?.unwrap_or(Page::default().page_size);
    let before = fields.text("before")?.map(|text| {
        let wrong = || ApiError::invalid_field("before", "before must be the id of a resume link.");
        LinkId::parse(&text).ok_or_else(wrong)
    });
    // One more than the page has shows whether there is a next one.
    let (id, before) = (InstanceId::new(id), before.transpose()?);
    let mut items = api.engine.resume_links(&id, before, size.saturating_add(1)).await?;
    let has_more = items.len() > size as usize;
    items.truncate(size as usize);
    let next = items.last().map(|last| last.id.clone()).filter(|_| has_more);
    Ok(Json(LinkPage { items, next }).into_response())
}

/// Revokes a resume link
#[utoipa::path(delete, path = "/workflow-instances/{id}/resume-links/{linkId}", tag = "Resume links",
    params(("id" = String, Path, description = "The id of the instance."),
        ("linkId" = String, Path, description = "The id of the link.")),
    responses(
        (status = 204, description = "The link cannot be used any more."),
        (status = 404, description = "`link-not-found`: the instance has no such link."),
    ))]
pub(super) async fn revoke(api: Api, IdPair(id, link): IdPair) -> ApiResult {
    let not_found = || ApiError::new(StatusCode::NOT_FOUND, "link-not-found", "No resume link has this id.");
    let link = LinkId::parse(&link).ok_or_else(not_found)?;
    api.engine.revoke_resume_link(&InstanceId::new(id), link).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Lists the keys that sign resume links, the newest first, without the keys themselves
#[utoipa::path(get, path = "/cluster/link-keys", tag = "Resume links",
    responses((status = 200, description = "The keys.", body = Counted<LinkKey>)))]
pub(super) async fn keys(api: Api) -> ApiResult {
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
pub(super) async fn rotate(api: Api, _body: RequestBody) -> ApiResult {
    Ok(Json(api.engine.rotate_link_key().await?).into_response())
}

/// Deletes a key: no resume link that it has signed is valid any more
#[utoipa::path(delete, path = "/cluster/link-keys/{id}", tag = "Resume links",
    params(("id" = String, Path, description = "The number of the key."),
        ("force" = Option<bool>, Query, description = "Also while links that the key has signed can be used.")),
    responses(
        (status = 204, description = "The key verifies nothing any more, on no node."),
        (status = 404, description = "`key-not-found`: there is no such key."),
        (status = 409, description = "`key-signs`: it may still sign links; rotate, and delete it two minutes later. \
            `key-in-use`: links that it has signed can be used, and `force` is not true."),
    ))]
pub(super) async fn retire(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let not_found = || {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "key-not-found",
            "A key has a whole number as its id.",
        )
    };
    let is_forced = Fields::from_query(&uri)?.flag("force")?.unwrap_or(false);
    let id = id.parse().map_err(|_| not_found())?;
    api.engine.retire_link_key(id, is_forced).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
