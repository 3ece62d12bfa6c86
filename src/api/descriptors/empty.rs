//! Lists of features that do not exist here: a designer requests them and shows nothing.
//!
//! Workflow contexts and resilience strategies are features of Elsa that no activity here uses: an activity retries inside
//! its call, and its retries are not recorded.

use axum::Json;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::api::fields::Fields;
use crate::api::openapi::{Counted, PageQuery};
use crate::api::paging;
use crate::api::path::Id;
use crate::http::ApiResult;

/// Lists the providers of workflow contexts: none.
#[utoipa::path(get, path = "/workflow-contexts/provider-descriptors", tag = "For designers",
    responses((status = 200, description = "An empty list.", body = Counted<Value>)))]
pub(super) async fn workflow_contexts() -> Response {
    nothing()
}

/// Lists the resilience strategies: none, because an activity retries by itself.
#[utoipa::path(get, path = "/resilience/strategies", tag = "For designers",
    params(("category" = Option<String>, Query, description = "A category of strategies.")),
    responses((status = 200, description = "An empty list.", body = Counted<Value>)))]
pub(super) async fn resilience_strategies(uri: Uri) -> ApiResult {
    Fields::from_query(&uri)?.text("category")?;
    Ok(nothing())
}

/// Lists the retries of an activity execution: none, because they are not recorded.
#[utoipa::path(get, path = "/resilience/retries/{id}", tag = "For designers",
    params(("id" = String, Path, description = "The id of the activity execution."), PageQuery),
    responses((status = 200, description = "An empty list.", body = Counted<Value>)))]
pub(super) async fn retries(Id(_): Id, uri: Uri) -> ApiResult {
    // As for other lists, paging is checked.
    paging::page(&mut Fields::from_query(&uri)?)?;
    Ok(nothing())
}

fn nothing() -> Response {
    Json(json!({"items": [], "count": 0, "totalCount": 0})).into_response()
}
