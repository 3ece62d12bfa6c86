//! Publishing an event to waiting instances and to triggers.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use super::Api;
use super::fields::Fields;
use super::path::Id;
use crate::http::{ApiResult, RequestBody};
use crate::id::InstanceId;
use crate::runtime::EventRequest;

/// Elsa's modes of publishing.
const MODES: [&str; 2] = ["Asynchronous", "Synchronous"];

/// `POST /events/{id}/trigger`: 200 and empty once the event is accepted durably.
///
/// `Synchronous` gets its response at the same point; a client that needs the results of the bursts polls the instances.
pub(super) async fn trigger(State(api): State<Api>, Id(name): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    fields.keyword("workflowExecutionMode", &MODES)?;
    let request = EventRequest {
        name,
        correlation_id: fields.text("correlationId")?,
        instance_id: fields
            .text("workflowInstanceId")?
            .filter(|id| !id.is_empty())
            .map(InstanceId::new),
        activity_execution_id: fields.text("activityInstanceId")?.filter(|id| !id.is_empty()),
        input: fields.any("input"),
        idempotency: body.idempotency,
    };
    api.engine.trigger_event(request).await?;
    Ok(StatusCode::OK.into_response())
}
