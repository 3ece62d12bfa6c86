//! Bulk actions on workflow instances: cancels and deletes of many at once.

use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use serde_json::json;

use super::Api;
use super::fields::Fields;
use super::openapi::{self, PageQuery};
use super::paging;
use super::path::Id;
use super::versions;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{DefinitionId, InstanceId, VersionId};
use crate::runtime::{BulkAction, BulkResult, InstanceSelection, Listed, VersionOptions};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(list))
        .routes(routes!(progress))
        .routes(routes!(delete))
        .routes(openapi::also_at(
            "/bulk-actions/delete/workflow-instances/by-id",
            routes!(delete),
        ))
        .routes(routes!(cancel))
        .routes(openapi::also_at(
            "/bulk-actions/cancel/workflow-instances/",
            routes!(cancel),
        ))
}

/// Which instances to delete: those that meet all criteria; at least one is required.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct DeleteFields {
    /// Only these.
    ids: Option<Vec<String>>,
    /// Only of this definition.
    workflow_definition_id: Option<String>,
    /// Only of these definitions.
    workflow_definition_ids: Option<Vec<String>>,
}

/// The number of instances that were deleted.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct InstancesDeleted {
    /// How many.
    deleted: u64,
    /// The bulk action that is still running.
    plan_id: Option<String>,
}

/// Which instances to cancel: those that meet any of the criteria.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct CancelFields {
    /// These.
    ids: Option<Vec<String>>,
    /// Those of this version.
    definition_version_id: Option<String>,
    /// Those of this definition, together with `versionOptions`.
    definition_id: Option<String>,
    /// Which versions of `definitionId`.
    version_options: Option<String>,
}

/// The number of instances that were cancelled.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct InstancesCancelled {
    /// How many.
    cancelled: u64,
    /// The first bulk action that is still running.
    plan_id: Option<String>,
    /// All bulk actions that are still running.
    plan_ids: Option<Vec<String>>,
}

/// Lists the bulk actions that are still running, and those that finished last.
#[utoipa::path(get, path = "/cluster/bulk-actions", tag = "Instances",
    params(PageQuery),
    responses(
        (status = 200, description = "A page of bulk actions.", body = Listed<BulkAction>),
    ))]
async fn list(api: Api, uri: Uri) -> ApiResult {
    let page = paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(Json(api.engine.bulk_actions(page).await?).into_response())
}

/// Gets a bulk action.
#[utoipa::path(get, path = "/cluster/bulk-actions/{id}", tag = "Instances",
    params(("id" = String, Path, description = "The id of the bulk action.")),
    responses(
        (status = 200, description = "The bulk action.", body = BulkAction),
        (status = 404, description = "`bulk-action-not-found`: it does not exist, or finished more than a day ago."),
    ))]
async fn progress(api: Api, Id(id): Id) -> ApiResult {
    Ok(Json(api.engine.bulk_action(&id).await?).into_response())
}

/// Deletes the instances that meet all criteria.
#[utoipa::path(post, path = "/bulk-actions/delete/workflow-instances", tag = "Instances",
    request_body = DeleteFields,
    responses(
        (status = 200, description = "They are deleted.", body = InstancesDeleted),
        (status = 202, description = "The deletion of many instances is accepted, and continues page by page.", body = InstancesDeleted),
    ))]
async fn delete(api: Api, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let ids = optional_list(&mut fields, "ids")?;
    let one = fields.text("workflowDefinitionId")?;
    let many = optional_list(&mut fields, "workflowDefinitionIds")?;
    let definition_ids = match (one, many) {
        (None, many) => many,
        (Some(one), Some(many)) if !many.contains(&one) => Some(Vec::new()),
        (Some(one), _) => Some(vec![one]),
    };
    let which = InstanceSelection {
        ids: ids.map(|ids| ids.into_iter().map(InstanceId::new).collect()),
        definition_ids: definition_ids.map(|ids| ids.into_iter().map(DefinitionId::new).collect()),
        ..InstanceSelection::default()
    };
    match api.engine.delete_many(&which).await? {
        BulkResult::Done(deleted) => Ok(Json(json!({ "deleted": deleted })).into_response()),
        BulkResult::Accepted(id) => {
            Ok((StatusCode::ACCEPTED, Json(json!({"deleted": 0, "planId": id}))).into_response())
        }
    }
}

/// Cancels the instances that meet any of the criteria.
#[utoipa::path(post, path = "/bulk-actions/cancel/workflow-instances", tag = "Instances",
    request_body = CancelFields,
    responses(
        (status = 200, description = "They are cancelled.", body = InstancesCancelled),
        (status = 202, description = "The cancel of many instances is accepted, and continues page by page.", body = InstancesCancelled),
        (status = 404, description = "`definition-not-found`: the definition has no such version."),
    ))]
async fn cancel(api: Api, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let ids = optional_list(&mut fields, "ids")?;
    let version_id = fields.text("definitionVersionId")?;
    let definition_id = fields.text("definitionId")?.map(DefinitionId::new);
    let version = versions::take(&mut fields)?;
    if definition_id.is_some() != version.is_some() {
        let message = "definitionId and versionOptions must be given together or not at all.";
        return Err(ApiError::invalid_field("versionOptions", message));
    }
    let mut selections = Vec::new();
    if let Some(ids) = ids {
        selections.push(InstanceSelection {
            ids: Some(ids.into_iter().map(InstanceId::new).collect()),
            ..InstanceSelection::default()
        });
    }
    if let Some(version_id) = version_id {
        selections.push(InstanceSelection {
            version_id: Some(VersionId::new(version_id)),
            ..InstanceSelection::default()
        });
    }
    if let (Some(definition_id), Some(version)) = (definition_id, version) {
        let version = match version {
            VersionOptions::All => None,
            VersionOptions::Specific(number) => Some(number),
            which => {
                let definition = api.engine.definition(&definition_id, which).await?;
                let number = definition.get("version").and_then(serde_json::Value::as_i64);
                Some(number.and_then(|number| i32::try_from(number).ok()).unwrap_or_default())
            }
        };
        selections.push(InstanceSelection {
            definition_ids: Some(vec![definition_id]),
            version,
            ..InstanceSelection::default()
        });
    }
    let (mut cancelled, mut plans) = (0, Vec::new());
    for which in selections {
        match api.engine.cancel_many(&which).await? {
            BulkResult::Done(count) => cancelled += count,
            BulkResult::Accepted(id) => plans.push(id),
        }
    }
    match plans.first() {
        None => Ok(Json(json!({ "cancelled": cancelled })).into_response()),
        Some(first) => {
            let answer = json!({"cancelled": cancelled, "planId": first, "planIds": plans});
            Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
        }
    }
}

/// A list of texts; an absent list differs from an empty one.
fn optional_list(fields: &mut Fields, name: &str) -> Result<Option<Vec<String>>, ApiError> {
    match fields.any(name) {
        None => Ok(None),
        Some(serde_json::Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                serde_json::Value::String(text) => Ok(text),
                _ => Err(ApiError::invalid_field(name, format!("{name} must be a list of text."))),
            })
            .collect::<Result<_, _>>()
            .map(Some),
        Some(_) => Err(ApiError::invalid_field(name, format!("{name} must be a list of text."))),
    }
}
