//! Lists of activity executions.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde_json::json;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::http::{ApiError, ApiResult};
use crate::id::{ActivityId, InstanceId};
use crate::runtime::ActivityExecutionFilter;

/// `GET /activity-executions/list`
pub(super) async fn details(State(api): State<Api>, uri: Uri) -> ApiResult {
    Ok(Json(api.engine.activity_executions(&filter(&uri)?).await?).into_response())
}

/// `GET /activity-execution-summaries/list`
pub(super) async fn summaries(State(api): State<Api>, uri: Uri) -> ApiResult {
    Ok(Json(api.engine.activity_execution_summaries(&filter(&uri)?).await?).into_response())
}

/// `GET /activity-executions/count`
pub(super) async fn count(State(api): State<Api>, uri: Uri) -> ApiResult {
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
