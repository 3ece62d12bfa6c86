//! Workflow definitions and their versions.
//!
//! `definition` and `version` are what is read of one and done to it, `save`, `import` and `import_files` write drafts,
//! `export` sends files, `list` and `bulk` are about many. `activity_test` runs one activity. `graph` shows parts of a version,
//! `consumer` those that use it; `links` lists what a client may do.

mod activity_test;
mod bulk;
mod consumer;
mod definition;
mod export;
mod graph;
mod import;
mod import_files;
mod links;
mod list;
mod save;
mod schema;
mod version;

use axum::Json;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::{Api, openapi};
use crate::compute;
use crate::definition::WorkflowDefinition;
use crate::http::{ApiError, ApiResult};
use crate::id::VersionId;
use crate::runtime::{PreparedDraft, Published};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of definitions, except for those that start them.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(list::list, save::save))
        .routes(routes!(list::count))
        .routes(routes!(list::is_name_unique))
        .routes(routes!(version::many))
        .routes(routes!(import::import_new))
        .routes(routes!(import_files::import_files))
        .routes(routes!(definition::get))
        .routes(routes!(version::get))
        .routes(routes!(graph::subgraph))
        .routes(openapi::also_at(
            "/workflow-definitions/graph/{id}",
            routes!(graph::subgraph),
        ))
        .routes(routes!(graph::segments))
        .routes(routes!(save::put, definition::delete))
        .routes(openapi::also_at("/workflow-definitions/{id}", routes!(definition::get)))
        .routes(routes!(import::import))
        .routes(routes!(definition::publish))
        .routes(routes!(definition::retract))
        .routes(routes!(version::list))
        .routes(routes!(version::delete_by_number))
        .routes(routes!(version::revert))
        .routes(routes!(consumer::list))
        .routes(routes!(consumer::update))
        .routes(routes!(version::delete))
        .routes(routes!(bulk::publish))
        .routes(routes!(bulk::retract))
        .routes(routes!(bulk::delete))
        .routes(routes!(bulk::delete_versions))
        .routes(routes!(activity_test::test))
        .routes(routes!(export::one, export::one_by_post))
        .routes(routes!(export::many_by_get, export::many))
}

/// A definition that is checked, and not saved yet.
async fn draft_of(api: &Api, model: Value) -> Result<PreparedDraft, ApiError> {
    Ok(api.engine.prepare_draft(parse(model).await?).await?)
}

fn missing_body() -> ApiError {
    ApiError::bad_request("missing-body", "The body must be a workflow definition.")
}

fn version_ids(ids: Vec<String>) -> Vec<VersionId> {
    ids.into_iter().map(VersionId::new).collect()
}

/// The property with the schema of a file, which is no part of the definition.
const SCHEMA: &str = "$schema";

async fn parse(mut model: Value) -> Result<WorkflowDefinition, ApiError> {
    if let Some(fields) = model.as_object_mut() {
        fields.shift_remove(links::LINKS);
        fields.shift_remove(SCHEMA);
    }
    let definition = compute::run(compute::is_large(&model), move || WorkflowDefinition::from_value(model));
    Ok(definition.await??)
}

/// The response with a definition and its links.
async fn definition_response(definition: Value) -> ApiResult {
    let is_large = compute::is_large(&definition);
    Ok(compute::run(is_large, move || Json(links::linked(definition)).into_response()).await?)
}

/// Elsa's response to a save and to a publish.
async fn publish_response(published: Published) -> ApiResult {
    let is_large = compute::is_large(&published.definition);
    let response = compute::run(is_large, move || {
        let warnings = published.warnings.into_iter().map(|warning| warning.message);
        let warnings: Vec<String> = warnings.collect();
        let body = json!({
            "workflowDefinition": links::linked(published.definition),
            "alreadyPublished": published.already_published,
            "consumingWorkflowCount": published.consumers_updated.len(),
            "validationErrors": warnings,
        });
        Json(body).into_response()
    });
    Ok(response.await?)
}
