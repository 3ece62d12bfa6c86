//! The cluster for operators: nodes, work queue and locks; schedules, which can be paused, resumed and triggered.

use axum::Json;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::openapi::{self, IdempotencyKey, NoFields, PageQuery, Started};
use super::paging;
use super::path::Id;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::DefinitionId;
use crate::runtime::{
    ClusterFanOut, ClusterLock, ClusterNode, Listed, Page, QueueItem, ScheduleFilter, ScheduleState, ScheduleSummary,
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(nodes))
        .routes(routes!(queue))
        .routes(routes!(locks))
        .routes(routes!(fan_outs))
        .routes(routes!(schedules))
        .routes(routes!(schedule))
        .routes(routes!(pause_schedule))
        .routes(routes!(resume_schedule))
        .routes(routes!(trigger_schedule))
        // Their older paths.
        .routes(openapi::also_at("/cluster/timers", routes!(schedules)))
        .routes(openapi::also_at("/cluster/timers/{id}", routes!(schedule)))
        .routes(openapi::also_at("/cluster/timers/{id}/pause", routes!(pause_schedule)))
        .routes(openapi::also_at(
            "/cluster/timers/{id}/resume",
            routes!(resume_schedule),
        ))
        .routes(openapi::also_at(
            "/cluster/timers/{id}/trigger",
            routes!(trigger_schedule),
        ))
}

/// Lists the nodes, oldest registration first.
#[utoipa::path(get, path = "/cluster/nodes", tag = "Cluster", params(PageQuery),
    responses((status = 200, description = "A page of nodes.", body = Listed<ClusterNode>)))]
pub(super) async fn nodes(api: Api, uri: Uri) -> ApiResult {
    let page = paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(Json(api.engine.cluster_nodes(page).await?).into_response())
}

/// Lists the pending work of the cluster, counted by kind and state.
#[utoipa::path(get, path = "/cluster/queue", tag = "Cluster", params(PageQuery),
    responses((status = 200, description = "A page of counts; empty groups are left out.", body = Listed<QueueItem>)))]
pub(super) async fn queue(api: Api, uri: Uri) -> ApiResult {
    let page = paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(Json(api.engine.cluster_queue(page).await?).into_response())
}

/// Lists the locks that nodes hold, held longest first.
#[utoipa::path(get, path = "/cluster/locks", tag = "Cluster", params(PageQuery),
    responses((status = 200, description = "A page of locks.", body = Listed<ClusterLock>)))]
pub(super) async fn locks(api: Api, uri: Uri) -> ApiResult {
    let page = paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(Json(api.engine.cluster_locks(page).await?).into_response())
}

/// Lists the events that many instances wait for, in the order of their turns.
#[utoipa::path(get, path = "/cluster/fan-outs", tag = "Cluster", params(PageQuery),
    responses((status = 200, description = "A page of fan-outs; finished ones are listed for ten minutes.", body = Listed<ClusterFanOut>)))]
pub(super) async fn fan_outs(api: Api, uri: Uri) -> ApiResult {
    let page = paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(Json(api.engine.cluster_fan_outs(page).await?).into_response())
}

/// The states of a schedule.
const SCHEDULE_STATES: [&str; 4] = ["waiting", "due", "paused", "ended"];

/// A schedule, with the most requested properties at the top level.
#[derive(Serialize, ToSchema)]
#[schema(as = Schedule)]
#[serde(rename_all = "camelCase")]
struct ScheduleView {
    #[serde(flatten)]
    summary: ScheduleSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<Value>,
    is_paused: bool,
}

impl From<ScheduleSummary> for ScheduleView {
    fn from(summary: ScheduleSummary) -> Self {
        Self {
            time_zone: summary.schedule.get("timeZone").cloned(),
            is_paused: summary.state == ScheduleState::Paused,
            summary,
        }
    }
}

/// Which schedules to list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ScheduleQuery {
    /// Only of this definition.
    definition_id: Option<String>,
    /// Only of activities of this type.
    activity_type: Option<String>,
    /// `waiting`, `due`, `paused` or `ended`, in any case.
    state: Option<String>,
}

fn schedule_filter(fields: &mut Fields) -> Result<ScheduleFilter, ApiError> {
    Ok(ScheduleFilter {
        definition_id: fields.text("definitionId")?.map(DefinitionId::new),
        activity_type: fields.text("activityType")?,
        state: fields
            .keyword("state", &SCHEDULE_STATES)?
            .and_then(ScheduleState::named),
    })
}

/// Lists the schedules of published definitions, by their next fire time.
#[utoipa::path(get, path = "/cluster/schedules", tag = "Cluster", params(PageQuery, ScheduleQuery),
    responses((status = 200, description = "A page of schedules.", body = Listed<ScheduleView>)))]
pub(super) async fn schedules(api: Api, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let page = paging::page(&mut fields)?;
    let filter = schedule_filter(&mut fields)?;
    let listed = api.engine.schedules(&filter, page).await?;
    let total = if listed.items.is_empty() && page.page > 0 {
        // A page after the last one does not carry the total.
        let first = Page { page: 0, page_size: 1 };
        api.engine.schedules(&filter, first).await?.total_count
    } else {
        listed.total_count
    };
    let items: Vec<ScheduleView> = listed.items.into_iter().map(ScheduleView::from).collect();
    paging::response(&items, total)
}

/// Gets a schedule.
#[utoipa::path(get, path = "/cluster/schedules/{id}", tag = "Cluster",
    params(("id" = String, Path, description = "The id of the schedule.")),
    responses(
        (status = 200, description = "The schedule.", body = ScheduleView),
        (status = 404, description = "`schedule-not-found`: no schedule has this id."),
    ))]
pub(super) async fn schedule(api: Api, Id(id): Id) -> ApiResult {
    Ok(schedule_response(api.engine.schedule(&id).await?))
}

/// Pauses a schedule.
///
/// Occurrences during a pause do not fire.
#[utoipa::path(post, path = "/cluster/schedules/{id}/pause", tag = "Cluster",
    params(("id" = String, Path, description = "The id of the schedule.")),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "The schedule, even if it was already paused.", body = ScheduleView),
        (status = 404, description = "`schedule-not-found`: no schedule has this id."),
        (status = 409, description = "`schedule-changing`: nodes fired the schedule in the meantime; try again."),
    ))]
pub(super) async fn pause_schedule(api: Api, Id(id): Id, _body: RequestBody) -> ApiResult {
    Ok(schedule_response(api.engine.pause_schedule(&id).await?))
}

/// Resumes a schedule that is paused.
#[utoipa::path(post, path = "/cluster/schedules/{id}/resume", tag = "Cluster",
    params(("id" = String, Path, description = "The id of the schedule.")),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "The schedule, even if it was not paused.", body = ScheduleView),
        (status = 404, description = "`schedule-not-found`: no schedule has this id."),
        (status = 409, description = "`schedule-changing`: nodes fired the schedule in the meantime; try again."),
    ))]
pub(super) async fn resume_schedule(api: Api, Id(id): Id, _body: RequestBody) -> ApiResult {
    Ok(schedule_response(api.engine.resume_schedule(&id).await?))
}

/// Starts an instance of a schedule now, even if it is paused.
///
/// The occurrences of the schedule stay as they are.
#[utoipa::path(post, path = "/cluster/schedules/{id}/trigger", tag = "Cluster",
    params(("id" = String, Path, description = "The id of the schedule."), IdempotencyKey),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "The start is accepted durably.", body = Started),
        (status = 404, description = "`schedule-not-found`: no schedule has this id."),
        (status = 409, description = "`schedule-running`, `cannot-start` or `schedule-changing`."),
    ))]
pub(super) async fn trigger_schedule(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let workflow_instance_id = api.engine.trigger_schedule(&id, body.idempotency).await?;
    Ok(Json(Started { workflow_instance_id }).into_response())
}

fn schedule_response(summary: ScheduleSummary) -> axum::response::Response {
    Json(ScheduleView::from(summary)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_a_filter() {
        for name in SCHEDULE_STATES {
            assert_eq!(ScheduleState::named(name).unwrap().as_str(), name);
        }
        let query = |text: &str| Fields::from_query(&format!("/x?{text}").parse().unwrap()).unwrap();
        let found = schedule_filter(&mut query("state=PAUSED&definitionId=d")).unwrap();
        assert_eq!(found.state, Some(ScheduleState::Paused));
        assert_eq!(found.definition_id, Some(DefinitionId::new("d")));
        assert_eq!(
            schedule_filter(&mut query("state=asleep"))
                .unwrap_err()
                .status_and_code(),
            (400, "invalid-field")
        );
    }
}
