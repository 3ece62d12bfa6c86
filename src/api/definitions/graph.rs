//! Parts of the tree of one version, for a designer that opens a nested activity.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::path::Id;
use crate::http::{ApiError, ApiResult};
use crate::id::VersionId;

/// `GET /workflow-definitions/subgraph/{id}` and `/graph/{id}`: the activity with the node id `parentNodeId`, else the root.
pub(super) async fn subgraph(State(api): State<Api>, Id(id): Id, uri: Uri) -> ApiResult {
    let parent = Fields::from_query(&uri)?.id("parentNodeId")?;
    let node = api
        .engine
        .definition_subgraph(&VersionId::new(id), parent.as_deref())
        .await?;
    Ok(Json(node).into_response())
}

/// `GET /workflow-definitions/subgraph/segments/{id}`
pub(super) async fn segments(State(api): State<Api>, Id(id): Id, uri: Uri) -> ApiResult {
    let Some(child) = Fields::from_query(&uri)?.id("childNodeId")? else {
        let message = "The query must have a childNodeId.";
        return Err(ApiError::bad_request("missing-field", message).field("childNodeId", message));
    };
    let path = api.engine.definition_path_segments(&VersionId::new(id), &child).await?;
    Ok(Json(path).into_response())
}
