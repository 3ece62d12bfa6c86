//! Workflow definitions and their versions.
//!
//! `definition` and `version` are what is read of one and done to it, `save` and `import` write drafts, `list` and `bulk` are
//! about many. `graph` shows parts of a version, `consumer` those that use it; `links` tells clients what they may do.

mod bulk;
mod consumer;
mod definition;
mod graph;
mod import;
mod links;
mod list;
mod save;
mod version;

use axum::response::IntoResponse;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Api;
use crate::compute;
use crate::definition::WorkflowDefinition;
use crate::http::{ApiError, ApiResult};
use crate::id::VersionId;
use crate::runtime::Published;

/// The routes of definitions, except for those that start them.
pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/workflow-definitions", get(list::list).post(save::save))
        .route("/workflow-definitions/query/count", get(list::count))
        .route(
            "/workflow-definitions/validation/is-name-unique",
            get(list::is_name_unique),
        )
        .route("/workflow-definitions/many-by-id", get(version::many))
        .route(
            "/workflow-definitions/import",
            post(import::import_new).put(import::import_new),
        )
        .route("/workflow-definitions/by-definition-id/{id}", get(definition::get))
        .route("/workflow-definitions/by-id/{id}", get(version::get))
        .route("/workflow-definitions/graph/{id}", get(graph::subgraph))
        .route("/workflow-definitions/subgraph/{id}", get(graph::subgraph))
        .route("/workflow-definitions/subgraph/segments/{id}", get(graph::segments))
        .route(
            "/workflow-definitions/{id}",
            get(definition::get).put(save::put).delete(definition::delete),
        )
        .route(
            "/workflow-definitions/{id}/import",
            post(import::import).put(import::import),
        )
        .route("/workflow-definitions/{id}/publish", post(definition::publish))
        .route("/workflow-definitions/{id}/retract", post(definition::retract))
        .route("/workflow-definitions/{id}/versions", get(version::list))
        .route(
            "/workflow-definitions/{id}/version/{version}",
            delete(version::delete_by_number),
        )
        .route("/workflow-definitions/{id}/revert/{version}", post(version::revert))
        .route("/workflow-definitions/{id}/consumers", get(consumer::list))
        .route("/workflow-definitions/{id}/update-references", post(consumer::update))
        .route("/workflow-definition-versions/{id}", delete(version::delete))
        .route(
            "/bulk-actions/publish/workflow-definitions/by-definition-ids",
            post(bulk::publish),
        )
        .route(
            "/bulk-actions/retract/workflow-definitions/by-definition-ids",
            post(bulk::retract),
        )
        .route(
            "/bulk-actions/delete/workflow-definitions/by-definition-id",
            post(bulk::delete),
        )
        .route(
            "/bulk-actions/delete/workflow-definitions/by-id",
            post(bulk::delete_versions),
        )
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
