//! Single versions: read, list of one definition, revert, delete.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::IntoResponse;
use serde_json::json;

use super::links::{linked, summary};
use super::{definition_response, version_ids};
use crate::api::fields::Fields;
use crate::api::path::{Id, IdAndVersion};
use crate::api::{Api, PREFIX, paging};
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::{DefinitionFilter, DefinitionOrder, Page, VersionOptions};
use crate::{Error, compute};

/// `GET /workflow-definitions/by-id/{id}`
pub(super) async fn get(State(api): State<Api>, Id(id): Id) -> ApiResult {
    let definition = api.engine.definition_version(&VersionId::new(id)).await?;
    definition_response(definition).await
}

/// `GET /workflow-definitions/many-by-id`
pub(super) async fn many(State(api): State<Api>, uri: Uri) -> ApiResult {
    let ids = version_ids(Fields::from_query(&uri)?.texts("ids")?);
    let items = api.engine.definition_versions(&ids).await?;
    let is_large = items.iter().any(compute::is_large);
    let response = compute::run(is_large, move || {
        let items: Vec<_> = items.into_iter().map(linked).collect();
        Json(json!({"count": items.len(), "items": items})).into_response()
    });
    Ok(response.await?)
}

/// `GET /workflow-definitions/{id}/versions`: the newest first, without bodies.
pub(super) async fn list(State(api): State<Api>, Id(id): Id, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let size = paging::size(&mut fields, "pageSize")?;
    let page = Page {
        page: fields.number("page", 0)?.unwrap_or(0),
        page_size: size.unwrap_or(Page::MAX_SIZE),
    };
    let filter = DefinitionFilter {
        versions: VersionOptions::All,
        definition_ids: vec![DefinitionId::new(id)],
        order: DefinitionOrder::Version,
        descending: true,
        ..DefinitionFilter::default()
    };
    let listed = api.engine.definitions(&filter, page).await?;
    if listed.total_count == 0 {
        return Err(Error::not_found("definition-not-found", "there is no such workflow definition").into());
    }
    let items: Result<Vec<_>, ApiError> = listed.items.iter().map(summary).collect();
    Ok(Json(json!({"items": items?, "totalCount": listed.total_count})).into_response())
}

/// `POST /workflow-definitions/{id}/revert/{version}`: a new draft with the content of an earlier version.
pub(super) async fn revert(
    State(api): State<Api>,
    IdAndVersion(id, version): IdAndVersion,
    _body: RequestBody,
) -> ApiResult {
    let reverted = api.engine.revert(&DefinitionId::new(id), version).await?;
    let mut definition = linked(reverted.definition);
    if let Some(fields) = definition.as_object_mut() {
        // Elsa answers with what a list shows.
        for body in [
            "root",
            "variables",
            "inputs",
            "outputs",
            "outcomes",
            "customProperties",
            "options",
        ] {
            fields.shift_remove(body);
        }
    }
    let path = definition
        .get("id")
        .and_then(serde_json::Value::as_str)
        .map(|id| HeaderValue::try_from(format!("{PREFIX}/workflow-definitions/by-id/{id}")));
    let mut response = (StatusCode::CREATED, Json(definition)).into_response();
    if let Some(Ok(path)) = path {
        response.headers_mut().insert(header::LOCATION, path);
    }
    Ok(response)
}

/// `DELETE /workflow-definition-versions/{id}`
pub(super) async fn delete(State(api): State<Api>, Id(id): Id) -> ApiResult {
    api.engine.delete_definition_version(&VersionId::new(id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `DELETE /workflow-definitions/{id}/version/{version}`
pub(super) async fn delete_by_number(State(api): State<Api>, IdAndVersion(id, version): IdAndVersion) -> ApiResult {
    let definition = DefinitionId::new(id);
    let filter = DefinitionFilter {
        versions: VersionOptions::Specific(version),
        definition_ids: vec![definition],
        ..DefinitionFilter::default()
    };
    let listed = api.engine.definitions(&filter, Page::default()).await?;
    let found = listed.items.first().map(|item| item.id.clone());
    let missing = || Error::not_found("definition-not-found", "the workflow definition has no such version");
    api.engine
        .delete_definition_version(&found.ok_or_else(missing)?)
        .await?;
    Ok(StatusCode::OK.into_response())
}
