//! One activity execution, and the executions that led to it.

use axum::Json;
use axum::http::Uri;
use axum::response::IntoResponse;

use super::list::missing;
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::path::Id;
use crate::http::{ApiError, ApiResult};
use crate::id::ActivityExecutionId;
use crate::runtime::{ActivityExecutionDetail, ActivityExecutionSummary, CallStack};

/// The executions of a call stack, unless the client asks for another number.
const DEFAULT_TAKE: u32 = 100;

/// Gets an activity execution by its id in the query.
#[utoipa::path(get, path = "/activity-executions/by-id", tag = "Activity executions",
    params(("id" = String, Query, description = "The id of the execution.")),
    responses(
        (status = 200, description = "The execution.", body = ActivityExecutionDetail),
        (status = 404, description = "`activity-execution-not-found`: the execution does not exist."),
    ))]
pub(super) async fn by_query(api: Api, uri: Uri) -> ApiResult {
    Ok(Json(api.engine.activity_execution(&id(&uri)?).await?).into_response())
}

/// Gets an activity execution.
#[utoipa::path(get, path = "/activity-executions/{id}", tag = "Activity executions",
    params(("id" = String, Path, description = "The id of the execution.")),
    responses(
        (status = 200, description = "The execution.", body = ActivityExecutionDetail),
        (status = 404, description = "`activity-execution-not-found`: the execution does not exist."),
    ))]
pub(super) async fn by_path(api: Api, Id(id): Id) -> ApiResult {
    Ok(Json(api.engine.activity_execution(&ActivityExecutionId::new(id)).await?).into_response())
}

/// Gets an activity execution in short by its id in the query.
#[utoipa::path(get, path = "/activity-execution-summaries/by-id", tag = "Activity executions",
    params(("id" = String, Query, description = "The id of the execution.")),
    responses(
        (status = 200, description = "The execution.", body = ActivityExecutionSummary),
        (status = 404, description = "`activity-execution-not-found`: the execution does not exist."),
    ))]
pub(super) async fn summary_by_query(api: Api, uri: Uri) -> ApiResult {
    Ok(Json(api.engine.activity_execution_summary(&id(&uri)?).await?).into_response())
}

/// Gets an activity execution in short.
#[utoipa::path(get, path = "/activity-execution-summaries/{id}", tag = "Activity executions",
    params(("id" = String, Path, description = "The id of the execution.")),
    responses(
        (status = 200, description = "The execution.", body = ActivityExecutionSummary),
        (status = 404, description = "`activity-execution-not-found`: the execution does not exist."),
    ))]
pub(super) async fn summary_by_path(api: Api, Id(id): Id) -> ApiResult {
    let id = ActivityExecutionId::new(id);
    Ok(Json(api.engine.activity_execution_summary(&id).await?).into_response())
}

/// Lists the executions that led to one, beginning with the workflow.
#[utoipa::path(get, path = "/activity-executions/{id}/call-stack", tag = "Activity executions",
    params(
        ("id" = String, Path, description = "The id of the execution."),
        ("includeCrossWorkflowChain" = Option<bool>, Query, description = "Begins the stack of a child workflow with the stack of the execution that started it, through at most 64 instances; true if absent."),
        ("skip" = Option<u32>, Query, description = "The executions before the first one of the response."),
        ("take" = Option<u32>, Query, description = "The maximum number of executions; 100 if absent or 0."),
    ),
    responses(
        (status = 200, description = "A range of the stack.", body = CallStack),
        (status = 404, description = "`activity-execution-not-found`: the execution does not exist."),
    ))]
pub(super) async fn call_stack(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let across = fields.flag("includeCrossWorkflowChain")?.unwrap_or(true);
    let skip = fields.number("skip", 0)?.unwrap_or(0);
    let take = fields
        .number("take", 0)?
        .filter(|take| *take > 0)
        .unwrap_or(DEFAULT_TAKE);
    let id = ActivityExecutionId::new(id);
    let stack = api.engine.call_stack(&id, across, skip, take).await?;
    Ok(Json(stack).into_response())
}

fn id(uri: &Uri) -> Result<ActivityExecutionId, ApiError> {
    let id = Fields::from_query(uri)?.id("id")?;
    Ok(ActivityExecutionId::new(id.ok_or_else(|| missing("id"))?))
}
