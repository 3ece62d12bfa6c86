//! Definitions as files: one as JSON, several as a zip archive.
//!
//! `includeConsumingWorkflows` adds the newest versions of the definitions that use an exported one as an activity, through all
//! levels.

use std::collections::BTreeSet;

use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::bulk::take_ids;
use super::{SCHEMA, links, version_ids};
use crate::api::fields::Fields;
use crate::api::files::{self, UniqueNames, zip};
use crate::api::path::Id;
use crate::api::{Api, versions};
use crate::compute;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::DefinitionId;
use crate::runtime::VersionOptions;

/// The schema of Elsa's definitions, which its tools expect.
const SCHEMA_URL: &str = "https://elsaworkflows.io/schemas/workflow-definition/v3.0.0/schema.json";

/// The name of an archive, as Elsa has it.
const ARCHIVE: &str = "workflow-definitions.zip";

/// Which version to export.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(super) struct ExportFields {
    /// `Latest` (if absent), `Published`, `LatestOrPublished`, `LatestAndPublished`, `Draft`, `AllVersions`, or the number of
    /// a version.
    version_options: Option<String>,
    /// Adds the newest versions of the definitions that use it as an activity, through all levels; if any exist, the answer
    /// is an archive.
    include_consuming_workflows: Option<bool>,
}

/// Which versions to export, at most 1,000.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(super) struct ExportManyFields {
    /// Their own ids.
    ids: Option<Vec<String>>,
    /// Adds the newest versions of the definitions that use one of them as an activity, through all levels.
    include_consuming_workflows: Option<bool>,
}

/// Exports a version of a definition as a file.
#[utoipa::path(get, path = "/workflow-definitions/{id}/export", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition."), ExportFields),
    responses(
        (status = 200, description = "The definition with its `$schema`; `Content-Disposition` names the file.", body = serde_json::Value),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
    ))]
pub(super) async fn one(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    export_one(&api, id, Fields::from_query(&uri)?).await
}

/// Exports a version of a definition as a file.
#[utoipa::path(post, path = "/workflow-definitions/{id}/export", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition.")),
    request_body = Option<ExportFields>,
    responses(
        (status = 200, description = "The definition with its `$schema`; `Content-Disposition` names the file.", body = serde_json::Value),
        (status = 404, description = "`definition-not-found`: the definition does not exist."),
    ))]
pub(super) async fn one_by_post(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    export_one(&api, id, Fields::from_body(body.value)?).await
}

async fn export_one(api: &Api, id: String, mut fields: Fields) -> ApiResult {
    let which = versions::take(&mut fields)?.unwrap_or(VersionOptions::Latest);
    let with_consumers = fields.flag("includeConsumingWorkflows")?.unwrap_or(false);
    let definition = api.engine.definition(&DefinitionId::new(id), which).await?;
    if with_consumers {
        let mut definitions = vec![definition.clone()];
        add_consumers(api, &mut definitions).await?;
        if definitions.len() > 1 {
            return pack(definitions).await;
        }
    }
    let is_large = compute::is_large(&definition);
    compute::run(is_large, move || {
        let name = format!("{}.json", stem(&definition));
        Ok(files::download(&name, files::JSON, text(definition)?))
    })
    .await?
}

/// Exports versions as a zip archive.
#[utoipa::path(get, path = "/bulk-actions/export/workflow-definitions", tag = "Definitions",
    params(ExportManyFields),
    responses(
        (status = 200, description = "The archive, with a file for each version.", body = Vec<u8>, content_type = "application/zip"),
        (status = 204, description = "None of the versions exists."),
    ))]
pub(super) async fn many_by_get(api: Api, uri: Uri) -> ApiResult {
    export_many(&api, Fields::from_query(&uri)?).await
}

/// Exports versions as a zip archive.
#[utoipa::path(post, path = "/bulk-actions/export/workflow-definitions", tag = "Definitions",
    request_body = Option<ExportManyFields>,
    responses(
        (status = 200, description = "The archive, with a file for each version.", body = Vec<u8>, content_type = "application/zip"),
        (status = 204, description = "None of the versions exists."),
    ))]
pub(super) async fn many(api: Api, body: RequestBody) -> ApiResult {
    export_many(&api, Fields::from_body(body.value)?).await
}

async fn export_many(api: &Api, mut fields: Fields) -> ApiResult {
    let with_consumers = fields.flag("includeConsumingWorkflows")?.unwrap_or(false);
    let ids = take_ids(&mut fields, "ids")?;
    let mut definitions = api.engine.definition_versions(&version_ids(ids)).await?;
    if definitions.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if with_consumers {
        add_consumers(api, &mut definitions).await?;
    }
    pack(definitions).await
}

/// Adds the newest versions of the definitions that use these as activities.
async fn add_consumers(api: &Api, definitions: &mut Vec<Value>) -> Result<(), ApiError> {
    let mut known: BTreeSet<String> = definitions.iter().map(|it| text_of(it, "id").to_owned()).collect();
    let used: BTreeSet<String> = definitions
        .iter()
        .map(|it| text_of(it, "definitionId").to_owned())
        .collect();
    let mut missing = Vec::new();
    for definition in used {
        let consumers = api.engine.consumer_versions(&DefinitionId::new(definition)).await?;
        missing.extend(
            consumers
                .into_iter()
                .filter(|version| known.insert(version.as_str().to_owned())),
        );
    }
    if !missing.is_empty() {
        definitions.extend(api.engine.definition_versions(&missing).await?);
    }
    Ok(())
}

/// The archive with these definitions.
async fn pack(mut definitions: Vec<Value>) -> ApiResult {
    let packing = compute::run(true, move || -> Result<Response, ApiError> {
        definitions.sort_by(|one, other| text_of(one, "definitionId").cmp(text_of(other, "definitionId")));
        let mut names = UniqueNames::default();
        let files: Result<Vec<_>, ApiError> = definitions
            .into_iter()
            .map(|definition| Ok((names.take(&stem(&definition), "json"), text(definition)?)))
            .collect();
        let archive = zip::pack(&files?).map_err(|_| ApiError::internal())?;
        Ok(files::download(ARCHIVE, files::ZIP, archive))
    });
    packing.await?
}

fn text_of<'a>(definition: &'a Value, name: &str) -> &'a str {
    definition.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The name of the file of a version: by the name of the workflow and both ids, as in Elsa.
fn stem(definition: &Value) -> String {
    let id = text_of(definition, "definitionId");
    let name = Some(text_of(definition, "name")).filter(|name| !name.trim().is_empty());
    let version = files::safe(text_of(definition, "id"));
    format!(
        "workflow-definition-{}-{}-{version}",
        files::slug(name.unwrap_or(id)),
        files::safe(id)
    )
}

/// The content of the file: the definition with its schema in front.
fn text(definition: Value) -> Result<Vec<u8>, ApiError> {
    let mut fields = Map::new();
    fields.insert(SCHEMA.to_owned(), SCHEMA_URL.into());
    if let Value::Object(own) = definition {
        let own = own.into_iter();
        fields.extend(own.filter(|(name, _)| name != SCHEMA && name != links::LINKS));
        links::leave_out_absent(&mut fields);
    }
    serde_json::to_vec(&Value::Object(fields)).map_err(|_| ApiError::internal())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_file_has_its_schema_first_and_a_safe_name() {
        let definition =
            json!({"id": "v/1", "definitionId": "../d", "name": "My Flow", "links": [], "$schema": "other"});
        assert_eq!(stem(&definition), "workflow-definition-my-flow-..-d-v-1");
        let text = String::from_utf8(text(definition).unwrap()).unwrap();
        assert!(
            text.starts_with(&format!("{{\"$schema\":\"{SCHEMA_URL}\",\"id\":\"v/1\"")),
            "{text}"
        );
        assert!(!text.contains("links") && !text.contains("other"), "{text}");
        assert_eq!(
            stem(&json!({"id": "v", "definitionId": "d", "name": " "})),
            "workflow-definition-d-d-v"
        );
    }
}
