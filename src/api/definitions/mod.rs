//! Workflow definitions and their versions.
//!
//! `definition` and `version` are what is read of one and done to it, `save` and `import` write drafts, `list` and `bulk` are
//! about many. `graph` shows parts of a version, `consumer` those that use it; `links` lists what a client may do.

mod bulk;
mod consumer;
mod definition;
mod graph;
mod import;
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
use crate::runtime::Published;
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
}

fn missing_body() -> ApiError {
    ApiError::bad_request("missing-body", "The body must be a workflow definition.")
}

fn version_ids(ids: Vec<String>) -> Vec<VersionId> {
    ids.into_iter().map(VersionId::new).collect()
}

async fn parse(mut model: Value) -> Result<WorkflowDefinition, ApiError> {
    if let Some(fields) = model.as_object_mut() {
        fields.shift_remove(links::LINKS);
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
        let body = json!({
            "workflowDefinition": links::linked(published.definition),
            "alreadyPublished": published.already_published,
            // Workflows are not yet usable as activities, so no definition consumes this one.
            "consumingWorkflowCount": 0,
            "validationErrors": [],
        });
        Json(body).into_response()
    });
    Ok(response.await?)
}
