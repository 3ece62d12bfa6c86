//! Publishing an event to waiting instances and to triggers.

use axum::http::StatusCode;
use axum::response::IntoResponse;

use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::openapi::IdempotencyKey;
use super::path::Id;
use crate::http::{ApiResult, RequestBody};
use crate::id::InstanceId;
use crate::runtime::EventRequest;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(trigger))
}

/// The target of an event and its input.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct EventFields {
    /// Only for instances with this correlation id.
    correlation_id: Option<String>,
    /// Only for this instance.
    workflow_instance_id: Option<String>,
    /// Only for this activity execution.
    activity_instance_id: Option<String>,
    /// What the activities that wait for the event receive.
    input: Option<Value>,
    /// `Asynchronous` or `Synchronous`; both get the response at the same moment.
    workflow_execution_mode: Option<String>,
}

/// Elsa's modes of publishing, in the order of their numbers.
const MODES: [&str; 2] = ["Synchronous", "Asynchronous"];

/// Publishes an event.
///
/// It resumes every instance that waits for it and starts every workflow that it triggers; if nothing matches, it is kept
/// for the next bookmark or trigger that does. A client that needs the results polls the instances.
#[utoipa::path(post, path = "/events/{id}/trigger", tag = "Events",
    params(("id" = String, Path, description = "The name of the event, compared exactly."), IdempotencyKey),
    request_body = Option<EventFields>,
    responses(
        (status = 200, description = "The event is accepted durably."),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
        (status = 409, description = "`instance-faulted`: the instance has faulted and does not continue."),
        (status = 429, description = "`inbox-full`: nothing waits for the event, and the kept events use up their budget."),
    ))]
pub(super) async fn trigger(api: Api, Id(name): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    fields.member("workflowExecutionMode", &MODES, &[])?;
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
