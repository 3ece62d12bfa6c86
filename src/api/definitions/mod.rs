//! Workflow definitions and their versions.
//!
//! `definition` and `version` read and change a single one, `save`, `import` and `import_files` write drafts, `export` sends
//! files, and `list`, `bulk` and `refresh` handle many. `activity_test` runs one activity. `graph` shows parts of a version, `consumer`
//! the definitions that use it; `links` lists what a client may do.

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
mod refresh;
mod save;
mod schema;
mod version;

pub(super) use activity_test::ActivityHandleFields;

use std::sync::Arc;

use axum::Json;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::{Api, openapi};
use crate::compute;
use crate::definition::{ValidationError, WorkflowDefinition};
use crate::http::{ApiError, ApiResult, ReservedMemory};
use crate::id::VersionId;
use crate::runtime::{KnownWorkflows, PreparedDraft, Published};
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
        .routes(routes!(refresh::refresh))
        .routes(routes!(refresh::reload))
        .routes(routes!(activity_test::test))
        .routes(routes!(export::one, export::one_by_post))
        .routes(routes!(export::many_by_get, export::many))
}

/// A definition that is checked, and not saved yet, with the memory that was reserved for it.
async fn draft_of(api: &Api, model: Value) -> Result<(PreparedDraft, ReservedMemory), ApiError> {
    let (definition, memory) = parse(api, model).await?;
    Ok((api.engine.prepare_draft(imported(definition)).await?, memory))
}

fn missing_body() -> ApiError {
    ApiError::bad_request("missing-body", "The body must be a workflow definition.")
}

fn version_ids(ids: Vec<String>) -> Vec<VersionId> {
    ids.into_iter().map(VersionId::new).collect()
}

/// The property with the schema of a file, which is no part of the definition.
const SCHEMA: &str = "$schema";

/// Reads a definition. The JSON in texts inside it, which designers send back, takes memory of the bodies.
async fn parse(api: &Api, mut model: Value) -> Result<(WorkflowDefinition, ReservedMemory), ApiError> {
    if let Some(fields) = model.as_object_mut() {
        fields.shift_remove(links::LINKS);
        fields.shift_remove(SCHEMA);
    }
    let limits = Arc::clone(&api.body_limits);
    let parsed = compute::run(
        compute::is_large(&model) || compute::has_large_text(&model),
        move || {
            let mut memory = ReservedMemory::default();
            let admit = &mut |text: &str| limits.reserve(text.as_bytes(), &mut memory);
            let mut definition = WorkflowDefinition::from_value_with(model, admit)?;
            for text in [&mut definition.name, &mut definition.description]
                .into_iter()
                .flatten()
            {
                *text = text.trim().to_owned();
            }
            Ok::<_, ApiError>((definition, memory))
        },
    );
    parsed.await?
}

/// What a save takes of a definition: the server makes the ids of its versions, and only an import sets it read-only.
fn edited(definition: WorkflowDefinition) -> WorkflowDefinition {
    WorkflowDefinition {
        id: VersionId::default(),
        is_readonly: false,
        is_system: false,
        ..definition
    }
}

/// What an import takes of a definition: only a program has definitions that belong to the system. The number of a version
/// holds with an id only: instances and consumers may name either.
fn imported(mut definition: WorkflowDefinition) -> WorkflowDefinition {
    if definition.id.as_str().is_empty() && definition.version > 0 {
        definition.id = VersionId::random();
    }
    with_root(WorkflowDefinition {
        is_system: false,
        ..definition
    })
}

/// As in Elsa, a definition without a root gets an empty sequence.
fn with_root(mut definition: WorkflowDefinition) -> WorkflowDefinition {
    let sequence = || json!({"type": "Elsa.Sequence", "version": 1, "activities": []});
    definition.root.get_or_insert_with(sequence);
    definition
}

/// Definitions with their links, in the form that designers can draw. After a commit nothing may fail: what cannot be read
/// then is shown as placeholders.
async fn for_designers(api: &Api, definitions: Vec<Value>, is_committed: bool) -> Result<Vec<Value>, ApiError> {
    let known = api
        .engine
        .known_workflows(&definitions.iter().collect::<Vec<_>>())
        .await;
    let known = match known {
        Err(error) if is_committed => {
            tracing::debug!(%error, "the workflows that a saved definition uses are shown as placeholders");
            KnownWorkflows::none()
        }
        known => known?,
    };
    Ok(api.engine.for_designers(known, definitions).await?)
}

/// The response with a definition and its links.
async fn definition_response(api: &Api, definition: Value, is_committed: bool) -> ApiResult {
    let definition = for_designers(api, vec![definition], is_committed)
        .await?
        .pop()
        .unwrap_or_default();
    let is_large = compute::is_large(&definition);
    Ok(compute::run(is_large, move || Json(links::linked(definition)).into_response()).await?)
}

/// Elsa's response to a save and to a publish.
async fn publish_response(api: &Api, published: Published) -> ApiResult {
    let definition = for_designers(api, vec![published.definition], true)
        .await?
        .pop()
        .unwrap_or_default();
    let is_large = compute::is_large(&definition);
    let response = compute::run(is_large, move || {
        let warnings = published.warnings.iter().map(ValidationError::message_with_id);
        let warnings: Vec<String> = warnings.collect();
        let body = json!({
            "workflowDefinition": links::linked(definition),
            "alreadyPublished": published.already_published,
            "consumingWorkflowCount": published.consumers_updated.len(),
            "validationErrors": warnings,
        });
        Json(body).into_response()
    });
    Ok(response.await?)
}
