//! Events that webhook sources send.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use chrono::{DateTime, Utc};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::path::WEBHOOKS;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::runtime::{ReceivedWebhook, WebhookReceipt};
use crate::webhook::{SIGNATURE, SignatureProblem, TIMESTAMP, WEBHOOK_ID};

/// The largest event, in bytes.
const MAX_EVENT: usize = 1 << 20;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(receive))
}

/// An event of a webhook source.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct WebhookEventFields {
    /// The type of the event, compared exactly.
    event_type: String,
    /// What the waiting activities receive.
    payload: Option<Value>,
    /// When it happened.
    timestamp: Option<DateTime<Utc>>,
}

/// Receives an event of a webhook source.
///
/// It needs no API key: the signature of Standard Webhooks authenticates it. It resumes every instance that waits for it and
/// starts every workflow that it triggers, once for its `webhook-id`; if nothing matches, it is kept for the next bookmark or
/// trigger that does. An event that no source of the settings has is ignored, as in Elsa.
#[utoipa::path(post, path = WEBHOOKS, tag = "Webhooks",
    params(
        ("webhook-id" = Option<String>, Header, description = "The id of the event, the same at each attempt."),
        ("webhook-timestamp" = Option<String>, Header, description = "When it was signed, in seconds since 1970."),
        ("webhook-signature" = Option<String>, Header, description = "`v1,` and the base64 of the signature; several are \
            separated by spaces."),
    ),
    request_body = WebhookEventFields,
    responses(
        (status = 200, description = "The event is accepted durably, or no source has it."),
        (status = 401, description = "`wrong-signature`: no secret of a source of the event signs it. `stale-webhook`: its \
            timestamp is more than five minutes from now."),
        (status = 413, description = "`body-too-large`: an event has at most 1 MiB."),
        (status = 422, description = "`idempotency-key-reused`: another event had its `webhook-id`."),
        (status = 429, description = "`inbox-full`: nothing waits for the event, and the kept events use up their budget."),
    ))]
pub(super) async fn receive(State(api): State<Api>, request: Request) -> ApiResult {
    if !api.engine.has_webhook_sources() {
        return Ok(StatusCode::OK.into_response());
    }
    let (mut body, bytes, headers) = RequestBody::read_signed(request, &api.event_limits, MAX_EVENT).await?;
    let mut fields = Fields::from_body(body.value.take())?;
    let Some(event_type) = fields.text("eventType")?.filter(|text| !text.is_empty()) else {
        return Err(ApiError::invalid_field(
            "eventType",
            "An event has an eventType, such as order.paid.",
        ));
    };
    let received = ReceivedWebhook {
        id: header(&headers, WEBHOOK_ID),
        timestamp: header(&headers, TIMESTAMP),
        signature: header(&headers, SIGNATURE),
        body: &bytes,
        event_type: &event_type,
        payload: fields.any("payload").unwrap_or_default(),
        occurred_at: fields.any("timestamp").unwrap_or_default(),
    };
    match api.engine.receive_webhook(received).await? {
        WebhookReceipt::Accepted | WebhookReceipt::Ignored => Ok(StatusCode::OK.into_response()),
        WebhookReceipt::Refused(problem) => Err(refused(problem)),
    }
}

/// The value of a header that comes once.
fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().unwrap_or_default(),
        _ => "",
    }
}

fn refused(problem: SignatureProblem) -> ApiError {
    match problem {
        SignatureProblem::Wrong => ApiError::new(
            StatusCode::UNAUTHORIZED,
            "wrong-signature",
            "No secret of a source of this event signs it: sign `webhook-id.webhook-timestamp.body` by the convention of \
             Standard Webhooks.",
        ),
        SignatureProblem::Stale => ApiError::new(
            StatusCode::UNAUTHORIZED,
            "stale-webhook",
            "The header webhook-timestamp is more than five minutes from the time of this server: sign the event again.",
        ),
    }
}
