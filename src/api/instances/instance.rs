//! One instance: get, cancel, delete.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use crate::api::Api;
use crate::api::path::Id;
use crate::http::{ApiResult, RequestBody};
use crate::id::InstanceId;

/// `GET /workflow-instances/{id}`
pub(super) async fn get(State(api): State<Api>, Id(id): Id) -> ApiResult {
    Ok(Json(api.engine.instance(&InstanceId::new(id)).await?).into_response())
}

/// `POST /cancel/workflow-instances/{id}`: 200 and empty, also if the instance had finished.
pub(super) async fn cancel(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    api.engine.cancel(&InstanceId::new(id)).await?;
    Ok(StatusCode::OK.into_response())
}

/// `DELETE /workflow-instances/{id}`: 204, or 404 if it does not exist.
pub(super) async fn delete(State(api): State<Api>, Id(id): Id) -> ApiResult {
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
