//! The audit: what was done and tried from outside, by whom, and how it ended.

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use futures_util::stream;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::paging;
use crate::http::{ApiError, ApiResult};
use crate::id::{InstanceId, LinkId};
use crate::runtime::{AuditQuery, AuditRecord, Engine, Page};

/// How many entries an export reads at once.
const EXPORT_PAGE: u32 = 1_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(list)).routes(routes!(export))
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
    /// Only of the user, application or subject with this id.
    caller_id: Option<String>,
    /// Only of callers with this name.
    caller_name: Option<String>,
    /// Only of this route, such as `/elsa/api/workflow-instances/{id}`.
    route: Option<String>,
    /// Only of this method.
    method: Option<String>,
    /// `Request`, `Login` or `ResumeLink`.
    action: Option<String>,
    /// `Accepted`, `Refused` or `Failed`; of resume links also `Used`, `Expired`, `Revoked`, `Ended`, `Unknown` or `Repeated`.
    outcome: Option<String>,
    /// Only those at this time or later.
    from: Option<DateTime<Utc>>,
    /// Only those before this time.
    to: Option<DateTime<Utc>>,
    /// Only those before the entry with this id: `next` of the page before.
    before: Option<i64>,
}

/// The size of a page.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct AuditPageSize {
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

/// Lists what was done and tried, by whom and with which outcome, the newest first
#[utoipa::path(get, path = "/audit", tag = "Audit", params(AuditCriteria, AuditPageSize),
    responses((status = 200, description = "A page of the audit.", body = AuditPage)))]
pub(super) async fn list(api: Api, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let size = paging::size(&mut fields, "pageSize")?.unwrap_or(Page::default().page_size);
    let query = query(&mut fields)?;
    // One more than the page has shows whether there is a next one.
    let mut items = api.engine.audit(query, size.saturating_add(1)).await?;
    let has_more = items.len() > size as usize;
    items.truncate(size as usize);
    let next = items.last().map(|last| last.id).filter(|_| has_more);
    Ok(Json(AuditPage { items, next }).into_response())
}

/// Exports the audit as JSON Lines, the newest first: one entry in each line
///
/// A connection that ends before the last line means that the export is not whole.
#[utoipa::path(get, path = "/audit/export", tag = "Audit", params(AuditCriteria),
    responses((status = 200, description = "The entries.", body = String, content_type = "application/jsonl")))]
pub(super) async fn export(api: Api, uri: Uri) -> ApiResult {
    let query = query(&mut Fields::from_query(&uri)?)?;
    // The first page before the answer begins: its errors have a status.
    let first = Lines::read(&api.engine, query).await?;
    let pages = stream::try_unfold(Some((first, api.engine)), |state| async move {
        let Some((Lines { text, next }, engine)) = state else {
            return Ok(None);
        };
        let rest = match next {
            None => None,
            Some(query) => Some((Lines::read(&engine, query).await?, engine)),
        };
        Ok::<_, crate::Error>(Some((text, rest)))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl")),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment; filename=\"audit.jsonl\""),
        ),
    ];
    Ok((headers, Response::new(Body::from_stream(pages))).into_response())
}

/// A page of an export, and the query of the next one.
struct Lines {
    text: String,
    next: Option<AuditQuery>,
}

impl Lines {
    async fn read(engine: &Engine, query: AuditQuery) -> crate::Result<Self> {
        let records = engine.audit(query.clone(), EXPORT_PAGE).await?;
        let is_full = records.len() >= EXPORT_PAGE as usize;
        let before = records.last().map(|last| last.id).filter(|_| is_full);
        let mut text = String::new();
        for record in &records {
            let line = serde_json::to_string(record)
                .map_err(|error| crate::Error::internal("an entry of the audit cannot be written").caused_by(error))?;
            text.push_str(&line);
            text.push('\n');
        }
        let next = before.map(|before| AuditQuery {
            before: Some(before),
            ..query
        });
        Ok(Self { text, next })
    }
}

/// The criteria of a query.
fn query(fields: &mut Fields) -> Result<AuditQuery, ApiError> {
    let link = fields.text("linkId")?.map(|text| {
        let wrong = || ApiError::invalid_field("linkId", "linkId must be the id of a resume link.");
        LinkId::parse(&text).ok_or_else(wrong)
    });
    let before = fields.text("before")?.map(|text| {
        let wrong = || ApiError::invalid_field("before", "before must be the id of an entry.");
        text.parse().map_err(|_| wrong())
    });
    Ok(AuditQuery {
        instance_id: fields.id("workflowInstanceId")?.map(InstanceId::new),
        link_id: link.transpose()?,
        before: before.transpose()?,
        caller_id: fields.id("callerId")?,
        caller_name: fields.id("callerName")?,
        route: fields.id("route")?,
        method: fields.id("method")?,
        outcome: fields.id("outcome")?,
        action: fields.id("action")?,
        from: time(fields, "from")?,
        until: time(fields, "to")?,
    })
}

fn time(fields: &mut Fields, name: &str) -> Result<Option<DateTime<Utc>>, ApiError> {
    let wrong = || {
        ApiError::invalid_field(
            name,
            format!("{name} must be a time with its offset: 2026-01-31T12:00:00Z."),
        )
    };
    let given = fields.text(name)?.map(|text| DateTime::parse_from_rfc3339(&text));
    let time = given.transpose().map_err(|_| wrong())?;
    Ok(time.map(|time| time.to_utc()))
}
