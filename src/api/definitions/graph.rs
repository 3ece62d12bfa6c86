//! Parts of the tree of one version, for a designer that opens a nested activity.

use axum::Json;
use axum::http::Uri;
use axum::response::IntoResponse;

use super::schema::{ActivityTreeSchema, PathSegments};
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::path::Id;
use crate::http::{ApiError, ApiResult};
use crate::id::VersionId;

/// Gets an activity of a version and everything that it contains.
#[utoipa::path(get, path = "/workflow-definitions/subgraph/{id}", tag = "Definitions",
    params(
        ("id" = String, Path, description = "The id of the version."),
        ("parentNodeId" = Option<String>, Query, description = "The node id of the activity; the root if absent."),
    ),
    responses(
        (status = 200, description = "The tree.", body = ActivityTreeSchema),
        (status = 404, description = "`definition-not-found`: the version does not exist, or has no root."),
    ))]
pub(super) async fn subgraph(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let parent = Fields::from_query(&uri)?.id("parentNodeId")?;
    let node = api
        .engine
        .definition_subgraph(&VersionId::new(id), parent.as_deref())
        .await?;
    Ok(Json(node).into_response())
}

/// Gets the containers around an activity of a version.
#[utoipa::path(get, path = "/workflow-definitions/subgraph/segments/{id}", tag = "Definitions",
    params(
        ("id" = String, Path, description = "The id of the version."),
        ("childNodeId" = String, Query, description = "The node id of the activity."),
    ),
    responses(
        (status = 200, description = "The containers, outermost first.", body = PathSegments),
        (status = 404, description = "`definition-not-found`, `node-not-found`."),
    ))]
pub(super) async fn segments(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let Some(child) = Fields::from_query(&uri)?.id("childNodeId")? else {
        let message = "The query must have a childNodeId.";
        return Err(ApiError::bad_request("missing-field", message).field("childNodeId", message));
    };
    let path = api.engine.definition_path_segments(&VersionId::new(id), &child).await?;
    Ok(Json(path).into_response())
}
