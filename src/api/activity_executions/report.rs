//! How often the activities of an instance were executed: the counts on the canvas of Elsa Studio.

use axum::Json;
use axum::response::IntoResponse;

use super::list::missing;
use crate::api::Api;
use crate::api::fields::Fields;
use crate::http::{ApiResult, RequestBody};
use crate::id::InstanceId;
use crate::runtime::ActivityExecutionStats;
use serde::Serialize;
use utoipa::ToSchema;

/// What to count.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ReportFields {
    /// The instance.
    workflow_instance_id: String,
    /// The places in the definition.
    activity_node_ids: Option<Vec<Option<String>>>,
}

/// The counts of an instance.
#[derive(Serialize, ToSchema)]
struct Report {
    /// At most one entry for each place.
    stats: Vec<ActivityExecutionStats>,
}

/// Counts the executions of activities by their places in the definition.
#[utoipa::path(post, path = "/activity-executions/report", tag = "Activity executions",
    request_body = ReportFields,
    responses(
        (status = 200, description = "An entry for each place that was executed.", body = Report),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn report(api: Api, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let instance = fields
        .id("workflowInstanceId")?
        .ok_or_else(|| missing("workflowInstanceId"))?;
    let nodes = fields.texts_or_null("activityNodeIds")?;
    let id = InstanceId::new(instance);
    let stats = api.engine.activity_execution_report(&id, nodes).await?;
    Ok(Json(Report { stats }).into_response())
}
