//! Tasks that wait for their results, and the results.

use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::openapi::IdempotencyKey;
use super::paging;
use super::path::Id;
use crate::http::{ApiResult, RequestBody};
use crate::runtime::{Page, TaskList};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(list)).routes(routes!(complete))
}

/// The part of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct TaskQuery {
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
    /// How many tasks; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// The result of a task.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct TaskResult {
    /// The output `Result` of the waiting activity.
    result: Option<Value>,
}

/// Lists the waiting tasks, oldest first.
#[utoipa::path(get, path = "/tasks", tag = "Tasks",
    params(TaskQuery),
    responses((status = 200, description = "A page of tasks.", body = TaskList)))]
pub(super) async fn list(api: Api, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let size = paging::size(&mut fields, "pageSize")?;
    let cursor = fields.id("cursor")?;
    let size = size.unwrap_or(Page::default().page_size);
    Ok(Json(api.engine.tasks(cursor.as_deref(), size).await?).into_response())
}

/// Reports the result of a task to the waiting activity.
///
/// The response comes when the burst that takes the result is committed.
#[utoipa::path(post, path = "/tasks/{taskId}/complete", tag = "Tasks",
    params(("taskId" = String, Path, description = "The id of the task."), IdempotencyKey),
    request_body = Option<TaskResult>,
    responses(
        (status = 200, description = "The result is stored."),
        (status = 202, description = "The result is accepted durably; its burst is still running at the answer timeout."),
        (status = 404, description = "`task-not-found`: there is no such task."),
        (status = 409, description = "`task-completed`: the task no longer waits. `instance-faulted`: its instance \
            has faulted. `given-up`: the result became a dead letter."),
    ))]
pub(super) async fn complete(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let result = fields.any("result").unwrap_or_default();
    let executed = api.engine.complete_task(&id, result, body.idempotency).await?;
    let status = if executed.pending {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    Ok(status.into_response())
}
