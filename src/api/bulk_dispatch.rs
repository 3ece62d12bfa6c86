//! Starts of many instances of one workflow.

use axum::Json;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::definitions::ActivityHandleFields;
use super::execute::start_request;
use super::fields::Fields;
use super::openapi::IdempotencyKey;
use super::path::Id;
use crate::http::{ApiResult, RequestBody};
use crate::id::InstanceId;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(bulk_dispatch))
}

/// How to start them.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct BulkDispatchFields {
    /// How many, at most 1,000; 1 if absent.
    count: Option<u32>,
    /// The trigger at which they begin; the root if absent.
    trigger_activity_id: Option<String>,
    /// The same trigger by a handle: an `activityId` or an `activityNodeId`.
    activity_handle: Option<ActivityHandleFields>,
    /// The correlation id of the instances.
    correlation_id: Option<String>,
    /// The name of the instances.
    name: Option<String>,
    /// The inputs of the workflow by name.
    input: Option<Map<String, Value>>,
    /// The values of variables by name.
    variables: Option<Map<String, Value>>,
    /// Which version; `Published` if absent.
    version_options: Option<String>,
}

/// The instances.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BulkDispatched {
    workflow_instance_ids: Vec<InstanceId>,
}

/// Accepts the starts of many instances durably, and does not wait for them.
///
/// With an `Idempotency-Key`, a repeat starts what the first request has not started.
#[utoipa::path(post, path = "/workflow-definitions/{id}/bulk-dispatch", tag = "Starting",
    params(("id" = String, Path, description = "The id of the definition."), IdempotencyKey),
    request_body = Option<BulkDispatchFields>,
    responses(
        (status = 200, description = "The starts are accepted.", body = BulkDispatched),
        (status = 404, description = "`definition-not-found`: no version of it is published."),
        (status = 409, description = "`cannot-start`: the activation strategy of the workflow rejects a start; `errors.count` says how many were accepted."),
    ))]
async fn bulk_dispatch(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let count = fields.number("count", 1)?.unwrap_or(1);
    let request = start_request(id, fields, body.idempotency)?;
    let workflow_instance_ids = api.engine.dispatch_many(request, count).await?;
    Ok(Json(BulkDispatched { workflow_instance_ids }).into_response())
}
