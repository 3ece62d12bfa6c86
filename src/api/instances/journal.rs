//! The journal of an instance.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::paging::{self, RowRange};
use crate::api::path::{Id, IdPair};
use crate::http::{ApiResult, RequestBody};
use crate::id::{ActivityId, InstanceId};
use crate::runtime::JournalFilter;

/// `GET /workflow-instances/{id}/journal`
pub(super) async fn list(State(api): State<Api>, Id(id): Id, uri: Uri) -> ApiResult {
    let range = paging::row_range(&mut Fields::from_query(&uri)?)?;
    journal_response(api, id, range, JournalFilter::default()).await
}

/// `POST /workflow-instances/{id}/journal`: the same with a filter. Elsa's client puts the paging into the query.
pub(super) async fn filtered(State(api): State<Api>, Id(id): Id, uri: Uri, body: RequestBody) -> ApiResult {
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

/// `GET /workflow-instances/{id}/journal/{activityId}`: the last entry about the activity.
pub(super) async fn last(State(api): State<Api>, IdPair(id, activity): IdPair) -> ApiResult {
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
