//! The journal of an instance.

use axum::Json;
use axum::http::Uri;
use axum::response::IntoResponse;

use super::schema::{JournalFields, RangeQuery};
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::PageQuery;
use crate::api::paging::{self, RowRange};
use crate::api::path::{Id, IdPair};
use crate::http::{ApiResult, RequestBody};
use crate::id::{ActivityId, InstanceId};
use crate::runtime::{JournalFilter, JournalRecord, Listed, StoredJournalRecord};

/// Lists the journal of an instance.
#[utoipa::path(get, path = "/workflow-instances/{id}/journal", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance."), PageQuery, RangeQuery),
    responses(
        (status = 200, description = "A range of entries, oldest first.", body = Listed<JournalRecord>),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn list(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let range = paging::row_range(&mut Fields::from_query(&uri)?)?;
    journal_response(api, id, range, JournalFilter::default()).await
}

/// Lists the journal of an instance, with a filter.
///
/// The range in the body takes precedence over the one in the query.
#[utoipa::path(post, path = "/workflow-instances/{id}/journal", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance."), PageQuery, RangeQuery),
    request_body = Option<JournalFields>,
    responses(
        (status = 200, description = "A range of the matching entries, oldest first.", body = Listed<JournalRecord>),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn filtered(api: Api, Id(id): Id, uri: Uri, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let paged = |fields: &Fields| {
        let names = ["page", "pageSize", "skip", "take"];
        fields
            .names()
            .any(|name| names.iter().any(|paging| paging.eq_ignore_ascii_case(name)))
    };
    let range = if paged(&fields) {
        paging::row_range(&mut fields)?
    } else {
        paging::row_range(&mut Fields::from_query(&uri)?)?
    };
    let mut filter = Fields::from_body(fields.object("filter")?.map(Into::into))?;
    let filter = JournalFilter {
        activity_ids: filter.texts_or_null("activityIds")?,
        activity_node_ids: filter.texts_or_null("activityNodeIds")?,
        excluded_activity_types: filter.texts_or_null("excludedActivityTypes")?,
        event_names: filter.texts_or_null("eventNames")?,
    };
    journal_response(api, id, range, filter).await
}

/// Gets the last entry of a journal about an activity.
#[utoipa::path(get, path = "/workflow-instances/{id}/journal/{activityId}", tag = "Instances",
    params(
        ("id" = String, Path, description = "The id of the instance."),
        ("activityId" = String, Path, description = "The id of the activity."),
    ),
    responses(
        (status = 200, description = "The entry.", body = StoredJournalRecord),
        (status = 404, description = "`instance-not-found`, `entry-not-found`."),
    ))]
pub(super) async fn last(api: Api, IdPair(id, activity): IdPair) -> ApiResult {
    let entry = api
        .engine
        .last_journal_entry(&InstanceId::new(id), &ActivityId::new(activity))
        .await?;
    Ok(Json(entry).into_response())
}

async fn journal_response(api: Api, id: String, range: RowRange, filter: JournalFilter) -> ApiResult {
    let id = InstanceId::new(id);
    let listed = api.engine.journal_range(&id, filter, range.skip, range.take).await?;
    Ok(Json(listed).into_response())
}
