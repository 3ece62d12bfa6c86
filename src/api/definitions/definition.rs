//! One definition: read, publish, retract, delete.

use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;

use super::schema::{Definition, SavedDefinition};
use super::{definition_response, publish_response};
use crate::api::fields::Fields;
use crate::api::openapi::NoFields;
use crate::api::path::Id;
use crate::api::{Api, versions};
use crate::http::{ApiResult, RequestBody};
use crate::id::DefinitionId;
use crate::runtime::VersionOptions;

/// Gets a version of a definition.
#[utoipa::path(get, path = "/workflow-definitions/by-definition-id/{id}", tag = "Definitions",
    params(
        ("id" = String, Path, description = "The id of the definition."),
        ("versionOptions" = Option<String>, Query, description = "`Latest` (if absent), `Published`, `LatestOrPublished`, `LatestAndPublished`, `Draft`, `AllVersions`, or the number of a version."),
    ),
    responses(
        (status = 200, description = "The version.", body = Definition),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
    ))]
pub(super) async fn get(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let which = versions::take(&mut Fields::from_query(&uri)?)?.unwrap_or(VersionOptions::Latest);
    let definition = api.engine.definition(&DefinitionId::new(id), which).await?;
    definition_response(&api, definition, false).await
}

/// Publishes the latest version.
#[utoipa::path(post, path = "/workflow-definitions/{id}/publish", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition.")),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "The version, even if it was already published.", body = SavedDefinition),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
        (status = 409, description = "`newer-version-published` or `definition-changing`."),
    ))]
pub(super) async fn publish(api: Api, Id(id): Id, _body: RequestBody) -> ApiResult {
    let published = api.engine.publish(&DefinitionId::new(id)).await?;
    publish_response(&api, published).await
}

/// Ends the publication of a definition.
///
/// Its triggers and schedules are deleted; instances stay.
#[utoipa::path(post, path = "/workflow-definitions/{id}/retract", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition.")),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "The version that was published.", body = Definition),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
        (status = 409, description = "`definition-changing`: another request changes it; try again."),
    ))]
pub(super) async fn retract(api: Api, Id(id): Id, _body: RequestBody) -> ApiResult {
    let retracted = api.engine.retract(&DefinitionId::new(id)).await?;
    definition_response(&api, retracted, true).await
}

/// Deletes all versions of a definition.
///
/// Instances stay, and a version with instances stays readable.
#[utoipa::path(delete, path = "/workflow-definitions/{id}", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition.")),
    responses(
        (status = 204, description = "They are deleted."),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
        (status = 409, description = "`definition-changing`: another request changes it; try again."),
    ))]
pub(super) async fn delete(api: Api, Id(id): Id) -> ApiResult {
    api.engine.delete_definition(&DefinitionId::new(id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
