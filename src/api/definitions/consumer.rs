//! The definitions that use another one as an activity: none yet, as workflows are no activities here.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use crate::api::Api;
use crate::api::path::Id;
use crate::http::{ApiResult, RequestBody};
use crate::id::DefinitionId;
use crate::runtime::VersionOptions;

/// `GET /workflow-definitions/{id}/consumers`
pub(super) async fn list(State(api): State<Api>, Id(id): Id) -> ApiResult {
    api.engine
        .definition(&DefinitionId::new(id), VersionOptions::Latest)
        .await?;
    Ok(Json(json!({"consumingWorkflowDefinitionIds": []})).into_response())
}

/// `POST /workflow-definitions/{id}/update-references`
pub(super) async fn update(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    api.engine
        .definition(&DefinitionId::new(id), VersionOptions::Latest)
        .await?;
    Ok(Json(json!({"affectedWorkflows": []})).into_response())
}
