//! Schedules: when they fire next, how they fired last, and what an operator does with them.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::{Value, json};

use super::Api;
use super::body::Sent;
use super::fields::Fields;
use super::paging;
use super::path::Id;
use super::refusal::{Answer, Refusal};
use crate::id::DefinitionId;
use crate::runtime::{Page, ScheduleFilter, ScheduleState, ScheduleSummary};

/// How a schedule may be.
const STATES: [&str; 4] = ["waiting", "due", "paused", "ended"];

/// A schedule with what most ask for first beside what it is made of.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Timer {
    #[serde(flatten)]
    summary: ScheduleSummary,
    time_zone: Option<Value>,
    is_paused: bool,
}

impl From<ScheduleSummary> for Timer {
    fn from(summary: ScheduleSummary) -> Self {
        Self {
            time_zone: summary.schedule.get("timeZone").cloned(),
            is_paused: summary.state == ScheduleState::Paused,
            summary,
        }
    }
}

fn filter(fields: &mut Fields) -> Result<ScheduleFilter, Refusal> {
    Ok(ScheduleFilter {
        definition_id: fields.text("definitionId")?.map(DefinitionId::new),
        activity_type: fields.text("activityType")?,
        state: fields.word("state", &STATES)?.and_then(ScheduleState::named),
    })
}

/// `GET /cluster/timers`
pub(super) async fn list(State(api): State<Api>, uri: Uri) -> Answer {
    let mut fields = Fields::of_query(&uri)?;
    let page = paging::page(&mut fields)?;
    let filter = filter(&mut fields)?;
    let listed = api.engine.schedules(&filter, page).await?;
    let total = if listed.items.is_empty() && page.page > 0 {
        // A page behind the last one does not tell how many there are.
        let first = Page { page: 0, page_size: 1 };
        api.engine.schedules(&filter, first).await?.total_count
    } else {
        listed.total_count
    };
    let items: Vec<Timer> = listed.items.into_iter().map(Timer::from).collect();
    Ok(Json(json!({"items": items, "totalCount": total})).into_response())
}

/// `GET /cluster/timers/{id}`
pub(super) async fn get(State(api): State<Api>, Id(id): Id) -> Answer {
    Ok(told(api.engine.schedule(&id).await?))
}

/// `POST /cluster/timers/{id}/pause`: 200 with the schedule, also where it was paused before.
pub(super) async fn pause(State(api): State<Api>, Id(id): Id, _sent: Sent) -> Answer {
    Ok(told(api.engine.pause_schedule(&id).await?))
}

/// `POST /cluster/timers/{id}/resume`: 200 with the schedule, also where it was not paused.
pub(super) async fn resume(State(api): State<Api>, Id(id): Id, _sent: Sent) -> Answer {
    Ok(told(api.engine.resume_schedule(&id).await?))
}

/// `POST /cluster/timers/{id}/trigger`: 200 with the instance that starts, once that is durable.
pub(super) async fn trigger(State(api): State<Api>, Id(id): Id, sent: Sent) -> Answer {
    let instance = api.engine.trigger_schedule(&id, sent.idempotency).await?;
    Ok(Json(json!({"workflowInstanceId": instance})).into_response())
}

fn told(summary: ScheduleSummary) -> axum::response::Response {
    Json(Timer::from(summary)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_be_asked_for() {
        for name in STATES {
            assert_eq!(ScheduleState::named(name).unwrap().as_str(), name);
        }
        let query = |text: &str| Fields::of_query(&format!("/x?{text}").parse().unwrap()).unwrap();
        let found = filter(&mut query("state=PAUSED&definitionId=d")).unwrap();
        assert_eq!(found.state, Some(ScheduleState::Paused));
        assert_eq!(found.definition_id, Some(DefinitionId::new("d")));
        assert_eq!(
            filter(&mut query("state=asleep")).unwrap_err().told(),
            (400, "invalid-field")
        );
    }
}
