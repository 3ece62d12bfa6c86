//! Alterations of many instances, as far as there are any: cancels.

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Api;
use super::fields::Fields;
use super::instances::filter;
use super::path::Id;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::runtime::InstanceFilter;

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/alterations/submit", post(submit))
        .route("/alterations/{id}", get(plan))
}

/// `POST /alterations/submit`: one alteration of the type `Cancel` for all instances that match the filter.
async fn submit(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let alterations = match fields.any("alterations") {
        Some(Value::Array(alterations)) if !alterations.is_empty() => alterations,
        _ => {
            let message = "alterations must be a list of at least one alteration.";
            return Err(ApiError::invalid_field("alterations", message));
        }
    };
    for alteration in alterations {
        let kind = Fields::from_body(Some(alteration))
            .map_err(|_| ApiError::invalid_field("alterations", "An alteration has a type."))?
            .text("type")?
            .unwrap_or_default();
        if kind != "Cancel" {
            let message = format!("The alteration {kind:?} is not supported; Cancel is.");
            return Err(ApiError::bad_request("not-supported", message.clone()).field("alterations", message));
        }
    }
    let given = fields.object("filter")?.unwrap_or_default();
    let mut fields = Fields::from_body(Some(Value::Object(given)))?;
    let selects_all = fields.flag("emptyFilterSelectsAll")? == Some(true);
    if fields.any("activityFilters").is_some_and(|value| value != json!([])) {
        let message = "Instances cannot be selected by their activities.";
        return Err(ApiError::bad_request("not-supported", message).field("activityFilters", message));
    }
    let filter = filter::take(&mut fields)?;
    if filter.as_ref() == Some(&InstanceFilter::default()) && !selects_all {
        let message = "An empty filter means all instances only with emptyFilterSelectsAll.";
        return Err(ApiError::bad_request("missing-field", message).field("filter", message));
    }
    // A filter that nothing can meet is a plan that is soon finished.
    let nothing = InstanceFilter {
        ids: vec![crate::id::InstanceId::new("")],
        ..InstanceFilter::default()
    };
    let id = api.engine.cancel_all(&filter.unwrap_or(nothing)).await?;
    Ok(Json(json!({ "planId": id })).into_response())
}

/// `GET /alterations/{id}`: a plan in Elsa's shape. It has no jobs of single instances, but counts.
async fn plan(State(api): State<Api>, Id(id): Id) -> ApiResult {
    let action = api.engine.bulk_action(&id).await?;
    let status = if action.finished_at.is_some() {
        "Completed"
    } else {
        "Running"
    };
    Ok(Json(json!({
        "plan": {
            "id": action.id,
            "alterations": [{"type": if action.kind == "delete" { "Delete" } else { "Cancel" }}],
            "workflowInstanceFilter": action.filter,
            "status": status,
            "createdAt": action.accepted_at,
            "startedAt": action.accepted_at,
            "completedAt": action.finished_at,
            "processed": action.processed,
            "failed": action.failed,
        },
        "jobs": [],
    }))
    .into_response())
}
