//! Refreshes: what starts published definitions is computed again.

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;

use super::bulk::take_ids;
use super::schema::DefinitionIds;
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::NoFields;
use crate::http::{ApiResult, RequestBody};
use crate::id::DefinitionId;
use crate::runtime::Refreshed;

/// Computes the triggers and schedules of published definitions again; of all if no ids are given.
///
/// An equal schedule stays as it is, with its next occurrence, and so does one that is computed by an expression.
#[utoipa::path(post, path = "/actions/workflow-definitions/refresh", tag = "Definitions",
    request_body = Option<DefinitionIds>,
    responses(
        (status = 200, description = "The result for each.", body = Refreshed),
        (status = 202, description = "The node already refreshes all definitions for another request; nothing is done for this one.", body = Refreshed),
    ))]
pub(super) async fn refresh(api: Api, body: RequestBody) -> ApiResult {
    let ids = match Fields::from_body(body.value)?.any("definitionIds") {
        None => None,
        Some(ids) => {
            let mut fields = Fields::from_body(Some(json!({"definitionIds": ids})))?;
            let ids = take_ids(&mut fields, "definitionIds")?.into_iter();
            Some(ids.map(DefinitionId::new).collect::<Vec<_>>())
        }
    };
    response(api.engine.refresh_definitions(ids.as_deref()).await?)
}

/// Computes the triggers and schedules of all published definitions again.
#[utoipa::path(post, path = "/actions/workflow-definitions/reload", tag = "Definitions",
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "The result for each.", body = Refreshed),
        (status = 202, description = "The node already refreshes all definitions for another request; nothing is done for this one.", body = Refreshed),
    ))]
pub(super) async fn reload(api: Api, _body: RequestBody) -> ApiResult {
    response(api.engine.refresh_definitions(None).await?)
}

fn response(refreshed: Refreshed) -> ApiResult {
    let status = if refreshed.is_in_progress {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(refreshed)).into_response())
}
