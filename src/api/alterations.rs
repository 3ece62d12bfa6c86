//! Alterations of many instances: only cancels exist.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};

use super::Api;
use super::fields::Fields;
use super::instances::filter;
use super::path::Id;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::runtime::InstanceFilter;
use chrono::{DateTime, Utc};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(submit)).routes(routes!(plan))
}

/// What to do, and with which instances.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct AlterationFields {
    /// `{type: "Cancel"}`; others are not supported yet.
    alterations: Vec<Alteration>,
    /// With which instances.
    filter: Option<AlterationFilter>,
}

/// The instances that meet all criteria: those of the list of instances.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct AlterationFilter {
    /// A filter without any criterion selects all instances; it is refused otherwise.
    empty_filter_selects_all: Option<bool>,
    /// Empty: instances cannot be selected by their activities.
    activity_filters: Option<Vec<Value>>,
    #[serde(flatten)]
    criteria: Map<String, Value>,
}

/// An alteration.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct Alteration {
    /// `Cancel`.
    r#type: String,
}

/// A plan that is accepted.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct PlanAccepted {
    /// Its id.
    plan_id: String,
}

/// A plan in Elsa's shape.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct PlanView {
    plan: Plan,
    /// Empty.
    jobs: Vec<Value>,
}

/// An action on many instances.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct Plan {
    /// Its id.
    id: String,
    /// The action.
    alterations: Vec<Alteration>,
    /// The instances that it applies to.
    workflow_instance_filter: Value,
    /// `Running` or `Completed`.
    status: String,
    /// When it was accepted.
    created_at: DateTime<Utc>,
    /// When it began.
    started_at: Option<DateTime<Utc>>,
    /// When it finished.
    completed_at: Option<DateTime<Utc>>,
    /// Instances processed so far.
    processed: u64,
    /// Instances that were left out.
    failed: u64,
}

/// Cancels all instances that match a filter.
#[utoipa::path(post, path = "/alterations/submit", tag = "Instances",
    request_body = AlterationFields,
    responses(
        (status = 200, description = "The plan is accepted.", body = PlanAccepted),
    ))]
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
            let message = format!("The alteration {kind:?} is not supported; only Cancel is.");
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
    // A misspelt criterion would leave a filter that all instances meet.
    if let Some(name) = fields.unknown() {
        let message =
            format!("{name} is not a criterion of a filter; leave it out, or use one that the list of instances has.");
        return Err(ApiError::invalid_field(name, message));
    }
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

/// Gets a plan.
#[utoipa::path(get, path = "/alterations/{id}", tag = "Instances",
    params(("id" = String, Path, description = "The id of the plan.")),
    responses(
        (status = 200, description = "The plan.", body = PlanView),
        (status = 404, description = "`bulk-action-not-found`: it does not exist, or finished more than a day ago."),
    ))]
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
