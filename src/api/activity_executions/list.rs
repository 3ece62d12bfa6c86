//! Lists of activity executions.

use axum::Json;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde_json::json;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::Count;
use crate::http::{ApiError, ApiResult};
use crate::id::{ActivityId, InstanceId};
use crate::runtime::ActivityExecutionFilter;
use crate::runtime::{ActivityExecutionDetail, ActivityExecutionList, ActivityExecutionSummary};
use utoipa::IntoParams;

/// Which executions of an instance.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ExecutionQuery {
    /// The instance.
    workflow_instance_id: String,
    /// Only of the activity at this place of the definition.
    activity_node_id: Option<String>,
    /// Only of this activity.
    activity_id: Option<String>,
    /// Only those that ended, or only those that did not.
    completed: Option<bool>,
}

/// Lists activity executions of an instance, oldest first.
#[utoipa::path(get, path = "/activity-executions/list", tag = "Activity executions",
    params(ExecutionQuery),
    responses(
        (status = 200, description = "The executions; if there are many, the newest.", body = ActivityExecutionList<ActivityExecutionDetail>),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn details(api: Api, uri: Uri) -> ApiResult {
    Ok(Json(api.engine.activity_executions(&filter(&uri)?).await?).into_response())
}

/// Lists activity executions of an instance in short, oldest first.
#[utoipa::path(get, path = "/activity-execution-summaries/list", tag = "Activity executions",
    params(ExecutionQuery),
    responses(
        (status = 200, description = "The executions; if there are many, the newest.", body = ActivityExecutionList<ActivityExecutionSummary>),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn summaries(api: Api, uri: Uri) -> ApiResult {
    Ok(Json(api.engine.activity_execution_summaries(&filter(&uri)?).await?).into_response())
}

/// Counts activity executions of an instance.
#[utoipa::path(get, path = "/activity-executions/count", tag = "Activity executions",
    params(ExecutionQuery),
    responses(
        (status = 200, description = "Their number.", body = Count),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn count(api: Api, uri: Uri) -> ApiResult {
    let count = api.engine.count_activity_executions(&filter(&uri)?).await?;
    Ok(Json(json!({"count": count})).into_response())
}

fn filter(uri: &Uri) -> Result<ActivityExecutionFilter, ApiError> {
    let mut fields = Fields::from_query(uri)?;
    let instance = fields.id("workflowInstanceId")?;
    Ok(ActivityExecutionFilter {
        instance_id: InstanceId::new(instance.ok_or_else(|| missing("workflowInstanceId"))?),
        activity_node_id: fields.id("activityNodeId")?,
        activity_id: fields.id("activityId")?.map(ActivityId::new),
        completed: fields.flag("completed")?,
    })
}

/// The error of a request that lacks an id.
pub(super) fn missing(field: &str) -> ApiError {
    let message = format!("{field} is required.");
    ApiError::bad_request("missing-field", message.clone()).field(field, message)
}
