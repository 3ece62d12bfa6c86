//! The pause of the whole cluster, at the paths of Elsa's runtime administration.

use axum::Json;
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::runtime::{DrainOutcome, RuntimeStatus};

/// The routes of the runtime.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(status))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(force_drain))
}

/// The reason, and who requests it.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct PauseFields {
    /// The reason, which the status shows.
    reason: Option<String>,
    /// Who requests it; if absent, the credentials of the request and its node.
    requested_by: Option<String>,
}

/// What happened to the bursts under way.
#[derive(Serialize, ToSchema)]
struct Drained {
    /// The outcome.
    outcome: DrainOutcome,
}

/// Says whether the cluster is paused.
#[utoipa::path(get, path = "/admin/workflow-runtime/status", tag = "Runtime",
    responses(
        (status = 200, description = "The status of the cluster.", body = RuntimeStatus),
    ))]
pub(super) async fn status(api: Api) -> ApiResult {
    Ok(Json(api.engine.runtime_status().await?).into_response())
}

/// Pauses the whole cluster.
///
/// No node accepts starts, events or resumes, or claims work; bursts under way end. Accepted work and due timers wait.
#[utoipa::path(post, path = "/admin/workflow-runtime/pause", tag = "Runtime",
    request_body = Option<PauseFields>,
    responses(
        (status = 200, description = "The status of the cluster, even if it was already paused.", body = RuntimeStatus),
    ))]
pub(super) async fn pause(api: Api, body: RequestBody) -> ApiResult {
    let (reason, by) = request(&api, body)?;
    Ok(Json(api.engine.pause_runtime(reason.as_deref(), &by).await?).into_response())
}

/// Ends a pause or a drain of the cluster.
#[utoipa::path(post, path = "/admin/workflow-runtime/resume", tag = "Runtime",
    request_body = Option<PauseFields>,
    responses(
        (status = 200, description = "The status of the cluster, even if it was not paused.", body = RuntimeStatus),
    ))]
pub(super) async fn resume(api: Api, body: RequestBody) -> ApiResult {
    let (_, by) = request(&api, body)?;
    Ok(Json(api.engine.resume_runtime(&by).await?).into_response())
}

/// Pauses the cluster and stops each burst before its next activity.
///
/// Completed activities are committed, and the rest continues after the resume. The response comes when no burst is under
/// way, or after ten seconds.
#[utoipa::path(post, path = "/admin/workflow-runtime/force-drain", tag = "Runtime",
    request_body = Option<PauseFields>,
    responses(
        (status = 200, description = "What happened to the bursts.", body = Drained),
    ))]
pub(super) async fn force_drain(api: Api, body: RequestBody) -> ApiResult {
    let (reason, by) = request(&api, body)?;
    let outcome = api.engine.drain_runtime(reason.as_deref(), &by).await?;
    Ok(Json(Drained { outcome }).into_response())
}

/// The reason, and who asks: the name that the request gives, or that of its credentials, with the node.
fn request(api: &Api, body: RequestBody) -> Result<(Option<String>, String), ApiError> {
    let mut fields = Fields::from_body(body.value)?;
    let reason = fields.text("reason")?;
    let given = fields.text("requestedBy")?.filter(|name| !name.is_empty());
    let caller = api.caller.as_ref().map_or("", |caller| caller.name.as_str());
    let caller = if caller.is_empty() { "anonymous" } else { caller };
    let by = given.unwrap_or_else(|| format!("{caller} at node {}", api.engine.node_id()));
    Ok((reason, by))
}
