//! The definitions that use another one as an activity: none yet, as workflows are no activities here.

use axum::Json;
use axum::extract::State;
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
        (status = 200, description = "Empty: workflows are no activities yet.", body = Consumers),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
    ))]
pub(super) async fn list(State(api): State<Api>, Id(id): Id) -> ApiResult {
    api.engine
        .definition(&DefinitionId::new(id), VersionOptions::Latest)
        .await?;
    Ok(Json(json!({"consumingWorkflowDefinitionIds": []})).into_response())
}

/// Updates the definitions that use one as an activity.
#[utoipa::path(post, path = "/workflow-definitions/{id}/update-references", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition.")),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "Empty: workflows are no activities yet.", body = UpdatedConsumers),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
    ))]
pub(super) async fn update(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    api.engine
        .definition(&DefinitionId::new(id), VersionOptions::Latest)
        .await?;
    Ok(Json(json!({"affectedWorkflows": []})).into_response())
}
