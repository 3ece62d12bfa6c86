//! Imports of one definition.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use serde_json::Value;

use super::{definition_response, missing_body, parse};
use crate::api::path::Id;
use crate::api::{Api, PREFIX};
use crate::http::{ApiResult, RequestBody};
use crate::id::DefinitionId;

/// `POST|PUT /workflow-definitions/import`: saves a draft, even if the definition has `isPublished`.
pub(super) async fn import_new(State(api): State<Api>, body: RequestBody) -> ApiResult {
    import_as(&api, None, body).await
}

/// `POST|PUT /workflow-definitions/{id}/import`: the id in the path takes precedence over the one in the body.
pub(super) async fn import(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    import_as(&api, Some(DefinitionId::new(id)), body).await
}

async fn import_as(api: &Api, id: Option<DefinitionId>, body: RequestBody) -> ApiResult {
    let mut definition = parse(body.value.ok_or_else(missing_body)?).await?;
    if let Some(id) = id {
        definition.definition_id = id;
    }
    let is_new = definition.definition_id.as_str().trim().is_empty();
    let definition = api.engine.import(definition).await?;
    let location = definition
        .get("definitionId")
        .and_then(Value::as_str)
        .map(|id| HeaderValue::try_from(format!("{PREFIX}/workflow-definitions/by-definition-id/{id}")));
    let mut response = definition_response(definition).await?;
    if is_new {
        *response.status_mut() = StatusCode::CREATED;
        if let Some(Ok(location)) = location {
            response.headers_mut().insert(header::LOCATION, location);
        }
    }
    Ok(response)
}
