//! The list of definitions, and queries about all of them.

use axum::Json;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::schema::{DefinitionList, DefinitionQuery, Uniqueness};
use super::{links, version_ids};
use crate::api::fields::Fields;
use crate::api::openapi::{Count, PageQuery};
use crate::api::{Api, paging, versions};
use crate::http::{ApiError, ApiResult};
use crate::id::DefinitionId;
use crate::runtime::{DefinitionFilter, DefinitionOrder, VersionOptions};

/// The most ids in one filter; a query has no more parameters.
const MOST_IDS: usize = 1_000;

/// Lists definitions, ordered by name by default.
#[utoipa::path(get, path = "/workflow-definitions", tag = "Definitions",
    params(PageQuery, DefinitionQuery),
    responses(
        (status = 200, description = "A page of versions without their activities.", body = DefinitionList),
    ))]
pub(super) async fn list(api: Api, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let page = paging::page(&mut fields)?;
    let order = match fields.member("orderBy", &["Created", "Name", "Version"], &[])? {
        Some("Created") => DefinitionOrder::Created,
        Some("Version") => DefinitionOrder::Version,
        _ => DefinitionOrder::Name,
    };
    let direction = fields.member("orderDirection", &["Ascending", "Descending"], &[])?;
    let filter = DefinitionFilter {
        // Without the option, Elsa lists every version of every definition.
        versions: versions::take(&mut fields)?.unwrap_or(VersionOptions::All),
        version_ids: version_ids(ids(&mut fields, "ids")?),
        definition_ids: ids(&mut fields, "definitionIds")?
            .into_iter()
            .map(DefinitionId::new)
            .collect(),
        is_system: fields.flag("isSystem")?,
        search_term: fields
            .text("searchTerm")?
            .map(|term| term.trim().to_owned())
            .filter(|term| !term.is_empty()),
        order,
        // Names from A, and what is new first.
        descending: direction.map_or(order != DefinitionOrder::Name, |word| word == "Descending"),
    };
    let materializer = fields.text("materializer")?;
    let labels = fields.texts("label")?;
    // All definitions are materialized from JSON, and none has a label.
    if materializer.is_some_and(|name| !name.eq_ignore_ascii_case("Json")) || !labels.is_empty() {
        return response(Vec::new(), 0);
    }
    let listed = api.engine.definitions(&filter, page).await?;
    let items: Result<Vec<Value>, ApiError> = listed.items.iter().map(links::summary).collect();
    response(items?, listed.total_count)
}

fn response(items: Vec<Value>, total_count: u64) -> ApiResult {
    let body = json!({"items": items, "totalCount": total_count, "links": links::of_list()});
    Ok(Json(body).into_response())
}

fn ids(fields: &mut Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let ids = fields.texts(name)?;
    if ids.len() > MOST_IDS {
        return Err(ApiError::invalid_field(
            name,
            format!("{name} has at most {MOST_IDS} ids."),
        ));
    }
    Ok(ids)
}

/// Counts the definitions.
#[utoipa::path(get, path = "/workflow-definitions/query/count", tag = "Definitions",
    responses(
        (status = 200, description = "Their number.", body = Count),
    ))]
pub(super) async fn count(api: Api) -> ApiResult {
    let count = api.engine.count_definitions().await?;
    Ok(Json(json!({"count": count})).into_response())
}

/// Says whether no definition has a name.
#[utoipa::path(get, path = "/workflow-definitions/validation/is-name-unique", tag = "Definitions",
    params(
        ("name" = String, Query, description = "The name."),
        ("definitionId" = Option<String>, Query, description = "The definition that is left out."),
    ),
    responses(
        (status = 200, description = "Whether the latest version of no other definition has it.", body = Uniqueness),
    ))]
pub(super) async fn is_name_unique(api: Api, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let besides = fields.id("definitionId")?.map(DefinitionId::new);
    let Some(name) = fields.text("name")? else {
        let message = "The query must have a name.";
        return Err(ApiError::bad_request("missing-field", message).field("name", message));
    };
    // As a save would store it.
    let is_unique = api
        .engine
        .is_definition_name_unique(name.trim(), besides.as_ref())
        .await?;
    Ok(Json(json!({"isUnique": is_unique})).into_response())
}
