//! Tests of single activities, as the designer requests them.

use axum::Json;
use axum::response::IntoResponse;
use utoipa::ToSchema;

use crate::api::fields::Fields;
use crate::api::{Api, versions};
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{ActivityId, DefinitionId, VersionId};
use crate::runtime::{ActivityHandle, ActivityTested, DefinitionHandle, VersionOptions};

/// An activity of a version.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(super) struct ActivityTestFields {
    /// The version.
    workflow_definition_handle: DefinitionHandleFields,
    /// The activity.
    activity_handle: ActivityHandleFields,
}

/// Names a version: by `definitionVersionId`, or by `definitionId`.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(super) struct DefinitionHandleFields {
    /// The id of the version; it takes precedence.
    definition_version_id: Option<String>,
    /// The id of the definition.
    definition_id: Option<String>,
    /// Which version of it: `Latest` if absent.
    version_options: Option<String>,
}

/// Names an activity: by `activityId`, or by `activityNodeId`.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(in crate::api) struct ActivityHandleFields {
    /// Its id; it takes precedence.
    activity_id: Option<String>,
    /// Its node id.
    activity_node_id: Option<String>,
}

/// Runs one activity of a version, and stores nothing.
///
/// Inputs are evaluated as configured, variables have their test values or defaults. External effects of the activity are
/// real.
#[utoipa::path(post, path = "/tests/activities", tag = "Definitions",
    request_body = ActivityTestFields,
    responses(
        (status = 200, description = "What the activity did; `Running` means that it would wait.", body = ActivityTested),
        (status = 404, description = "`definition-not-found` or `activity-not-found`: the version or the activity does not exist."),
    ))]
pub(super) async fn test(api: Api, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let definition = definition(handle(&mut fields, "workflowDefinitionHandle")?)?;
    let activity = activity(handle(&mut fields, "activityHandle")?)?;
    let tested = api.engine.test_activity(&definition, &activity).await?;
    Ok(Json(tested).into_response())
}

fn handle(fields: &mut Fields, name: &str) -> Result<Fields, ApiError> {
    let found = fields.object(name)?.map(serde_json::Value::Object);
    Fields::from_body(Some(found.ok_or_else(|| missing(name, "its fields"))?))
}

fn definition(mut fields: Fields) -> Result<DefinitionHandle, ApiError> {
    let (version, id) = (fields.id("definitionVersionId")?, fields.id("definitionId")?);
    let which = versions::take(&mut fields)?.unwrap_or(VersionOptions::Latest);
    match (version, id) {
        (Some(version), _) => Ok(DefinitionHandle::Version(VersionId::new(version))),
        (None, Some(id)) => Ok(DefinitionHandle::Definition(DefinitionId::new(id), which)),
        (None, None) => Err(missing(
            "workflowDefinitionHandle",
            "a definitionVersionId or a definitionId",
        )),
    }
}

fn activity(mut fields: Fields) -> Result<ActivityHandle, ApiError> {
    match (fields.id("activityId")?, fields.id("activityNodeId")?) {
        (Some(id), _) => Ok(ActivityHandle::Id(ActivityId::new(id))),
        (None, Some(node_id)) => Ok(ActivityHandle::NodeId(node_id)),
        (None, None) => Err(missing("activityHandle", "an activityId or an activityNodeId")),
    }
}

fn missing(name: &str, what: &str) -> ApiError {
    let message = format!("{name} must have {what}.");
    ApiError::bad_request("missing-field", message.clone()).field(name, message)
}
