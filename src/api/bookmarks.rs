//! Resuming at bookmarks by id, with the API key.

use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::execute::{Execution, execution_response};
use super::fields::Fields;
use super::openapi::IdempotencyKey;
use super::path::Id;
use crate::http::{ApiResult, ErrorBody, RequestBody};
use crate::id::{BookmarkId, InstanceId};
use crate::runtime::ResumeRequest;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(resume))
}

/// Where to resume, and with what.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ResumeFields {
    /// The bookmark; if absent, the instance must have exactly one.
    bookmark_id: Option<String>,
    /// The input of the waiting activity, by name.
    input: Option<Map<String, Value>>,
}

/// Resumes an instance at a bookmark and waits until it waits again or ends.
#[utoipa::path(post, path = "/workflow-instances/{id}/resume", tag = "Resuming",
    params(("id" = String, Path, description = "The id of the instance."), IdempotencyKey),
    request_body = Option<ResumeFields>,
    responses(
        (status = 200, description = "The instance waits again or has ended.", body = Execution),
        (status = 202, description = "The instance is still running at the answer timeout.", body = Execution),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
        (status = 409, description = "`already-resumed`, `several-bookmarks` or `instance-faulted`."),
        (status = 500, description = "The instance has faulted, or the server has failed.",
            content((Execution = "application/json"), (ErrorBody = "application/problem+json"))),
    ))]
pub(super) async fn resume(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let request = ResumeRequest {
        instance_id: InstanceId::new(id),
        bookmark_id: fields.id("bookmarkId")?.map(BookmarkId::new),
        input: fields.object("input")?.unwrap_or_default(),
        idempotency: body.idempotency,
    };
    Ok(execution_response(api.engine.resume(request).await?))
}
