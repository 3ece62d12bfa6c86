//! Imports of one definition.

use axum::http::{HeaderValue, StatusCode, header};
use serde_json::Value;

use super::schema::{Definition, DefinitionFields};
use super::{definition_response, imported, missing_body, parse};
use crate::api::path::Id;
use crate::api::{Api, PREFIX};
use crate::http::{ApiResult, RequestBody};
use crate::id::DefinitionId;

/// Imports a definition as a draft.
#[utoipa::path(method(post, put), path = "/workflow-definitions/import", tag = "Definitions",
    request_body = DefinitionFields,
    responses(
        (status = 200, description = "The draft.", body = Definition),
        (status = 201, description = "The draft of a definition that had no id.", body = Definition),
        (status = 409, description = "`newer-version-published` or `definition-changing`."),
    ))]
pub(super) async fn import_new(api: Api, body: RequestBody) -> ApiResult {
    import_as(&api, None, body).await
}

/// Imports a definition as a draft of the definition in the path.
#[utoipa::path(method(post, put), path = "/workflow-definitions/{id}/import", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition.")),
    request_body = DefinitionFields,
    responses(
        (status = 200, description = "The draft.", body = Definition),
        (status = 201, description = "The draft of a definition that had no id.", body = Definition),
        (status = 409, description = "`newer-version-published` or `definition-changing`."),
    ))]
pub(super) async fn import(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    import_as(&api, Some(DefinitionId::new(id)), body).await
}

async fn import_as(api: &Api, id: Option<DefinitionId>, body: RequestBody) -> ApiResult {
    let (definition, _memory) = parse(api, body.value.ok_or_else(missing_body)?).await?;
    let mut definition = imported(definition);
    if let Some(id) = id {
        definition.definition_id = id;
    }
    let is_new = definition.definition_id.as_str().trim().is_empty();
    let definition = api.engine.import(definition).await?;
    let location = definition
        .get("definitionId")
        .and_then(Value::as_str)
        .map(|id| HeaderValue::try_from(format!("{PREFIX}/workflow-definitions/by-definition-id/{id}")));
    let mut response = definition_response(api, definition, true).await?;
    if is_new {
        *response.status_mut() = StatusCode::CREATED;
        if let Some(Ok(location)) = location {
            response.headers_mut().insert(header::LOCATION, location);
        }
    }
    Ok(response)
}
