//! One instance: get, cancel, delete.

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use super::schema::InstanceView;
use crate::api::Api;
use crate::api::openapi::NoFields;
use crate::api::path::Id;
use crate::http::{ApiResult, RequestBody};
use crate::id::InstanceId;

/// Gets an instance with its state.
#[utoipa::path(get, path = "/workflow-instances/{id}", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance.")),
    responses(
        (status = 200, description = "The instance.", body = InstanceView),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn get(api: Api, Id(id): Id) -> ApiResult {
    Ok(Json(api.engine.instance(&InstanceId::new(id)).await?).into_response())
}

/// Cancels an instance.
#[utoipa::path(post, path = "/cancel/workflow-instances/{id}", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance.")),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "It is cancelled, or had already finished."),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn cancel(api: Api, Id(id): Id, _body: RequestBody) -> ApiResult {
    api.engine.cancel(&InstanceId::new(id)).await?;
    Ok(StatusCode::OK.into_response())
}

/// Deletes an instance with its history.
#[utoipa::path(delete, path = "/workflow-instances/{id}", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance.")),
    responses(
        (status = 204, description = "It is deleted."),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn delete(api: Api, Id(id): Id) -> ApiResult {
    let id = InstanceId::new(id);
    if api.engine.delete(&id).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(crate::Error::not_found(
        "instance-not-found",
        format!("no workflow instance has the id {:?}", id.as_str()),
    )
    .into())
}
