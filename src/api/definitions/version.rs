//! Single versions: read, list of one definition, revert, delete.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::links::linked;
use super::schema::{Definition, DefinitionItem};
use super::{definition_response, for_designers, version_ids};
use crate::api::fields::Fields;
use crate::api::openapi::{Counted, NoFields, PageQuery};
use crate::api::path::{Id, IdAndVersion};
use crate::api::{Api, PREFIX, paging};
use crate::http::{ApiError, ApiResult, RequestBody, ReservedMemory};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::{DefinitionFilter, DefinitionOrder, Page, VersionOptions};
use crate::{Error, compute};

/// Gets a version by its own id.
#[utoipa::path(get, path = "/workflow-definitions/by-id/{id}", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the version.")),
    responses(
        (status = 200, description = "The version.", body = Definition),
        (status = 404, description = "`definition-not-found`: the version does not exist."),
    ))]
pub(super) async fn get(api: Api, Id(id): Id) -> ApiResult {
    let definition = api.engine.definition_version(&VersionId::new(id)).await?;
    definition_response(&api, definition, false).await
}

/// Gets several versions by their own ids.
#[utoipa::path(get, path = "/workflow-definitions/many-by-id", tag = "Definitions",
    params(("ids" = Option<Vec<String>>, Query, description = "The ids, repeatable.")),
    responses(
        (status = 200, description = "Those that exist.", body = Counted<Definition>),
        (status = 413, description = "`too-many-values`: they take more memory than all bodies may; ask for fewer."),
    ))]
pub(super) async fn many(api: Api, uri: Uri) -> ApiResult {
    let ids = version_ids(Fields::from_query(&uri)?.texts("ids")?);
    let (items, memory) = whole(&api, &ids).await?;
    let is_large = items.iter().any(compute::is_large);
    let response = compute::run(is_large, move || {
        let _memory = memory;
        let items: Vec<_> = items.into_iter().map(linked).collect();
        Json(json!({"count": items.len(), "items": items})).into_response()
    });
    Ok(response.await?)
}

/// Versions as designers read them, with memory of the bodies: a thousand of them take as much as many requests.
async fn whole(api: &Api, ids: &[VersionId]) -> Result<(Vec<Value>, ReservedMemory), ApiError> {
    let mut memory = ReservedMemory::default();
    let admit = &mut |text: &[u8]| api.body_limits.reserve(text, &mut memory);
    let versions = api.engine.definition_versions_with(ids, admit).await?;
    Ok((for_designers(api, versions, false).await?, memory))
}

/// Lists the versions of a definition, newest first.
#[utoipa::path(get, path = "/workflow-definitions/{id}/versions", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition."), PageQuery),
    responses(
        (status = 200, description = "The versions of a page; 1,000 if `pageSize` is absent.", body = Vec<Definition>),
        (status = 400, description = "`too-large`: they have more than 64 MiB together; ask for a smaller page."),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
        (status = 413, description = "`too-many-values`: they take more memory than all bodies may; ask for a smaller page."),
    ))]
pub(super) async fn list(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
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
    let ids: Vec<VersionId> = listed.items.into_iter().map(|item| item.id).collect();
    let (items, memory) = whole(&api, &ids).await?;
    let is_large = items.iter().any(compute::is_large);
    let response = compute::run(is_large, move || {
        let _memory = memory;
        Json(items.into_iter().map(linked).collect::<Vec<_>>()).into_response()
    });
    Ok(response.await?)
}

/// Makes a new draft with the content of an earlier version.
#[utoipa::path(post, path = "/workflow-definitions/{id}/revert/{version}", tag = "Definitions",
    params(
        ("id" = String, Path, description = "The id of the definition."),
        ("version" = String, Path, description = "The number of the version."),
    ),
    request_body = Option<NoFields>,
    responses(
        (status = 201, description = "The draft, without its activities.", body = DefinitionItem),
        (status = 404, description = "`definition-not-found`: the version does not exist."),
        (status = 409, description = "`newer-version-published` or `definition-changing`."),
    ))]
pub(super) async fn revert(api: Api, IdAndVersion(id, version): IdAndVersion, _body: RequestBody) -> ApiResult {
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
        .and_then(Value::as_str)
        .map(|id| HeaderValue::try_from(format!("{PREFIX}/workflow-definitions/by-id/{id}")));
    let mut response = (StatusCode::CREATED, Json(definition)).into_response();
    if let Some(Ok(path)) = path {
        response.headers_mut().insert(header::LOCATION, path);
    }
    Ok(response)
}

/// Deletes a version, also a read-only one.
#[utoipa::path(delete, path = "/workflow-definition-versions/{id}", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the version.")),
    responses(
        (status = 204, description = "It is deleted."),
        (status = 403, description = "`definition-readonly`: it belongs to the system."),
        (status = 404, description = "`definition-not-found`: the version does not exist."),
        (status = 409, description = "`definition-changing`: another request changes it; try again."),
    ))]
pub(super) async fn delete(api: Api, Id(id): Id) -> ApiResult {
    api.engine.delete_definition_version(&VersionId::new(id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes a version by its number.
#[utoipa::path(delete, path = "/workflow-definitions/{id}/version/{version}", tag = "Definitions",
    params(
        ("id" = String, Path, description = "The id of the definition."),
        ("version" = String, Path, description = "The number of the version."),
    ),
    responses(
        (status = 200, description = "It is deleted."),
        (status = 404, description = "`definition-not-found`: the version does not exist."),
        (status = 409, description = "`definition-changing`: another request changes it; try again."),
    ))]
pub(super) async fn delete_by_number(api: Api, IdAndVersion(id, version): IdAndVersion) -> ApiResult {
    api.engine
        .delete_definition_number(&DefinitionId::new(id), version)
        .await?;
    Ok(StatusCode::OK.into_response())
}
