//! One definition: read, publish, retract, delete.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;

use super::{definition_response, publish_response};
use crate::api::fields::Fields;
use crate::api::path::Id;
use crate::api::{Api, versions};
use crate::http::{ApiResult, RequestBody};
use crate::id::DefinitionId;
use crate::runtime::VersionOptions;

/// `GET /workflow-definitions/by-definition-id/{id}` and `GET /workflow-definitions/{id}`
pub(super) async fn get(State(api): State<Api>, Id(id): Id, uri: Uri) -> ApiResult {
    let which = versions::take(&mut Fields::from_query(&uri)?)?.unwrap_or(VersionOptions::Latest);
    let definition = api.engine.definition(&DefinitionId::new(id), which).await?;
    definition_response(definition).await
}

/// `POST /workflow-definitions/{id}/publish`
pub(super) async fn publish(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    publish_response(api.engine.publish(&DefinitionId::new(id)).await?).await
}

/// `POST /workflow-definitions/{id}/retract`
pub(super) async fn retract(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    definition_response(api.engine.retract(&DefinitionId::new(id)).await?).await
}

/// `DELETE /workflow-definitions/{id}`: all versions. Instances stay.
pub(super) async fn delete(State(api): State<Api>, Id(id): Id) -> ApiResult {
    api.engine.delete_definition(&DefinitionId::new(id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
