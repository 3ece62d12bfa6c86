//! The cluster for operators: nodes, work queue and locks; schedules, which can be paused, resumed and triggered.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::{Value, json};

use super::Api;
use super::fields::Fields;
use super::paging;
use super::path::Id;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::DefinitionId;
use crate::runtime::{Page, ScheduleFilter, ScheduleState, ScheduleSummary};

/// `GET /cluster/nodes`
pub(super) async fn nodes(State(api): State<Api>, uri: Uri) -> ApiResult {
    let page = paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(Json(api.engine.cluster_nodes(page).await?).into_response())
}

/// `GET /cluster/queue`
pub(super) async fn queue(State(api): State<Api>, uri: Uri) -> ApiResult {
    let page = paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(Json(api.engine.cluster_queue(page).await?).into_response())
}

/// `GET /cluster/locks`
pub(super) async fn locks(State(api): State<Api>, uri: Uri) -> ApiResult {
    let page = paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(Json(api.engine.cluster_locks(page).await?).into_response())
}

/// `GET /cluster/fan-outs`
pub(super) async fn fan_outs(State(api): State<Api>, uri: Uri) -> ApiResult {
    let page = paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(Json(api.engine.cluster_fan_outs(page).await?).into_response())
}

/// The states of a schedule.
const SCHEDULE_STATES: [&str; 4] = ["waiting", "due", "paused", "ended"];

/// A schedule, with the properties that are asked for most at the top level.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScheduleView {
    #[serde(flatten)]
    summary: ScheduleSummary,
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

fn schedule_filter(fields: &mut Fields) -> Result<ScheduleFilter, ApiError> {
    Ok(ScheduleFilter {
        definition_id: fields.text("definitionId")?.map(DefinitionId::new),
        activity_type: fields.text("activityType")?,
        state: fields
            .keyword("state", &SCHEDULE_STATES)?
            .and_then(ScheduleState::named),
    })
}

/// `GET /cluster/timers`
pub(super) async fn schedules(State(api): State<Api>, uri: Uri) -> ApiResult {
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

/// `GET /cluster/timers/{id}`
pub(super) async fn schedule(State(api): State<Api>, Id(id): Id) -> ApiResult {
    Ok(schedule_response(api.engine.schedule(&id).await?))
}

/// `POST /cluster/timers/{id}/pause`: 200 with the schedule, also if it was paused already.
pub(super) async fn pause_schedule(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    Ok(schedule_response(api.engine.pause_schedule(&id).await?))
}

/// `POST /cluster/timers/{id}/resume`: 200 with the schedule, also if it was not paused.
pub(super) async fn resume_schedule(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    Ok(schedule_response(api.engine.resume_schedule(&id).await?))
}

/// `POST /cluster/timers/{id}/trigger`: 200 with the id of the instance, once its start is durable.
pub(super) async fn trigger_schedule(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    let instance = api.engine.trigger_schedule(&id, body.idempotency).await?;
    Ok(Json(json!({"workflowInstanceId": instance})).into_response())
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
