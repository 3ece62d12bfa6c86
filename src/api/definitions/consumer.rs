//! The definitions that use another one as an activity.

use axum::Json;
use axum::response::IntoResponse;
use serde_json::json;

use super::schema::{Consumers, UpdatedConsumers};
use crate::api::Api;
use crate::api::openapi::NoFields;
use crate::api::path::Id;
use crate::http::{ApiResult, RequestBody};
use crate::id::DefinitionId;
use crate::runtime::VersionOptions;

/// Lists the definitions that use one as an activity.
#[utoipa::path(get, path = "/workflow-definitions/{id}/consumers", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition.")),
    responses(
        (status = 200, description = "The definitions whose newest version uses it, through all levels; at most 1,000.", body = Consumers),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
    ))]
pub(super) async fn list(api: Api, Id(id): Id) -> ApiResult {
    let id = DefinitionId::new(id);
    api.engine.definition(&id, VersionOptions::Latest).await?;
    let consumers = api.engine.consumers(&id).await?;
    Ok(Json(json!({"consumingWorkflowDefinitionIds": consumers})).into_response())
}

/// Updates the definitions that use one as an activity, if its options ask for it.
#[utoipa::path(post, path = "/workflow-definitions/{id}/update-references", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition.")),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "The names of the definitions that now use its published version.", body = UpdatedConsumers),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
        (status = 409, description = "`too-many-consumers`, `consumer-invalid` or `definition-changing`."),
    ))]
pub(super) async fn update(api: Api, Id(id): Id, _body: RequestBody) -> ApiResult {
    let updated = api.engine.update_references(&DefinitionId::new(id)).await?;
    Ok(Json(json!({"affectedWorkflows": updated})).into_response())
}
