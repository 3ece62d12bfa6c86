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

/// How Elsa may be asked to publish.
const MODES: [&str; 2] = ["Asynchronous", "Synchronous"];

/// `POST /events/{id}/trigger`: 200 and empty once the event is accepted durably.
///
/// `Synchronous` is answered at the same moment: what waits for the bursts can ask for the instances.
pub(super) async fn trigger(State(api): State<Api>, Id(name): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::of_body(body.value)?;
    fields.word("workflowExecutionMode", &MODES)?;
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
