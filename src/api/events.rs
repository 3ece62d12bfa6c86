//! Publishing an event to waiting instances and to triggers.

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;

use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::execute::head_not_allowed;
use super::fields::Fields;
use super::openapi::IdempotencyKey;
use super::path::{Id, TRIGGER_BY_TOKEN};
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::InstanceId;
use crate::runtime::EventRequest;

/// The body limit of a request with a token and no key, in bytes.
const MAX_TOKEN_BODY: usize = 256 * 1024;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(trigger))
        .routes(routes!(trigger_by_token))
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
pub(super) async fn trigger(State(api): State<Api>, Id(name): Id, body: RequestBody) -> ApiResult {
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

/// Triggers the event of a token, for one instance.
///
/// The token, which a script's `createEventTriggerUrl` has created, authenticates the request, which needs no API key. It
/// can be used until it expires; the event has no input.
#[utoipa::path(method(get, post), path = TRIGGER_BY_TOKEN, tag = "Events",
    params(("t" = String, Query, description = "The token."), IdempotencyKey),
    responses(
        (status = 200, description = "The event is accepted durably."),
        (status = 404, description = "`instance-not-found`: the instance no longer exists."),
        (status = 409, description = "`instance-faulted`: the instance has faulted and does not continue."),
        (status = 429, description = "`inbox-full`: nothing waits for the event, and the kept events use up their budget."),
    ))]
pub(super) async fn trigger_by_token(State(api): State<Api>, request: Request) -> ApiResult {
    // A HEAD must not trigger anything: programs send it to preview a link.
    if request.method() == Method::HEAD {
        return Err(head_not_allowed(
            "HEAD is not supported here, because a GET triggers an event.",
        ));
    }
    let Some(token) = Fields::from_query(request.uri())?.text("t")? else {
        return Err(
            ApiError::bad_request("invalid-token", "The query must have the token as `t`.").field("t", "is missing"),
        );
    };
    let token = api.engine.verify_event_token(&token).await?;
    let body = RequestBody::read(request, &api.body_limits, MAX_TOKEN_BODY).await?;
    api.engine.trigger_event_by_token(token, body.idempotency).await?;
    Ok(StatusCode::OK.into_response())
}
