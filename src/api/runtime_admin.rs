//! The pause of the whole cluster, at the paths of Elsa's runtime administration.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use super::Api;
use super::fields::Fields;
use crate::http::{ApiError, ApiResult, RequestBody};

/// `GET /admin/workflow-runtime/status`
pub(super) async fn status(State(api): State<Api>) -> ApiResult {
    Ok(Json(api.engine.runtime_status().await?).into_response())
}

/// `POST /admin/workflow-runtime/pause`: 200 with the status, also if the cluster was paused already.
pub(super) async fn pause(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let (reason, by) = request(&api, body)?;
    Ok(Json(api.engine.pause_runtime(reason.as_deref(), &by).await?).into_response())
}

/// `POST /admin/workflow-runtime/resume`: 200 with the status, also if the cluster was not paused.
pub(super) async fn resume(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let (_, by) = request(&api, body)?;
    Ok(Json(api.engine.resume_runtime(&by).await?).into_response())
}

/// `POST /admin/workflow-runtime/force-drain`: 200 with the outcome.
pub(super) async fn force_drain(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let (reason, by) = request(&api, body)?;
    let outcome = api.engine.drain_runtime(reason.as_deref(), &by).await?;
    Ok(Json(json!({"outcome": outcome})).into_response())
}

/// The reason, and who asks: the name that the request gives, or that of its credentials, with the node.
fn request(api: &Api, body: RequestBody) -> Result<(Option<String>, String), ApiError> {
    let mut fields = Fields::from_body(body.value)?;
    let reason = fields.text("reason")?;
    let given = fields.text("requestedBy")?.filter(|name| !name.is_empty());
    let credentials = if api.is_anonymous { "anonymous" } else { "API key" };
    let by = given.unwrap_or_else(|| format!("{credentials} at node {}", api.engine.node_id()));
    Ok((reason, by))
}
