//! The audit: what was tried from outside, and how it ended.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::paging;
use crate::http::{ApiError, ApiResult};
use crate::id::{InstanceId, LinkId};
use crate::runtime::{AuditQuery, AuditRecord, Page};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(list))
}

/// Which entries: those that meet all criteria.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct AuditCriteria {
    /// Only of this instance.
    workflow_instance_id: Option<String>,
    /// Only of this resume link.
    link_id: Option<String>,
    /// Only those before the entry with this id: `next` of the page before.
    before: Option<i64>,
    /// The size of a page; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// A page of the audit.
#[derive(Serialize, ToSchema)]
struct AuditPage {
    /// The newest entry first.
    items: Vec<AuditRecord>,
    /// Where the next page begins; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<i64>,
}

/// Lists the attempts at resume links, the newest first
#[utoipa::path(get, path = "/audit", tag = "Resume links", params(AuditCriteria),
    responses((status = 200, description = "A page of the audit.", body = AuditPage)))]
pub(super) async fn list(State(api): State<Api>, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let size = paging::size(&mut fields, "pageSize")?.unwrap_or(Page::default().page_size);
    let link = fields.text("linkId")?.map(|text| {
        let wrong = || ApiError::invalid_field("linkId", "linkId must be the id of a resume link.");
        LinkId::parse(&text).ok_or_else(wrong)
    });
    let before = fields.text("before")?.map(|text| {
        let wrong = || ApiError::invalid_field("before", "before must be the id of an entry.");
        text.parse().map_err(|_| wrong())
    });
    let query = AuditQuery {
        instance_id: fields.id("workflowInstanceId")?.map(InstanceId::new),
        link_id: link.transpose()?,
        before: before.transpose()?,
    };
    // One more than the page has shows whether there is a next one.
    let mut items = api.engine.audit(query, size.saturating_add(1)).await?;
    let has_more = items.len() > size as usize;
    items.truncate(size as usize);
    let next = items.last().map(|last| last.id).filter(|_| has_more);
    Ok(Json(AuditPage { items, next }).into_response())
}
