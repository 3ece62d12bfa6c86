//! Alterations of many instances: cancels, and retries of what has faulted.

use axum::Json;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};

use super::Api;
use super::fields::Fields;
use super::instances::filter;
use super::path::Id;
use crate::elsa_json::{self, timestamp_text, without_nulls};
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{ActivityId, InstanceId};
use crate::runtime::{InstanceFilter, RetriedInstance};
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(retry))
        .routes(routes!(submit))
        .routes(routes!(plan))
}

/// Which instances to retry.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct RetryFields {
    /// 1 to 1,000 instances.
    workflow_instance_ids: Vec<String>,
    /// Only these activities, at most 100; else all that incidents name.
    activity_ids: Option<Vec<String>>,
}

/// What became of each instance.
#[derive(Serialize, ToSchema)]
struct AlterationResults {
    results: Vec<AlterationResult>,
}

/// What became of one instance.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AlterationResult {
    /// The instance.
    workflow_instance_id: InstanceId,
    log: AlterationLog,
    /// Whether anything is executed again.
    workflow_has_scheduled_work: bool,
    /// Whether all that was asked for is done.
    is_successful: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AlterationLog {
    log_entries: Vec<AlterationLogEntry>,
}

/// One alteration of an instance, or why it was not made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AlterationLogEntry {
    /// For people.
    message: String,
    /// `Information`, or `Error`.
    log_level: &'static str,
    #[serde(serialize_with = "elsa_json::timestamp")]
    timestamp: DateTime<Utc>,
    /// `ScheduleActivity`.
    event_name: &'static str,
}

/// Executes activities that have faulted again, and lets what contains them go on.
///
/// Each activity keeps the id of its execution and its idempotency key, and has its inputs evaluated anew. An instance that
/// cannot be retried has the reason in its result.
#[utoipa::path(post, path = "/alterations/workflows/retry", tag = "Instances",
    request_body = RetryFields,
    responses(
        (status = 200, description = "What became of each instance, in the order of the ids.", body = AlterationResults),
    ))]
async fn retry(api: Api, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let ids = fields.texts("workflowInstanceIds")?.into_iter().map(InstanceId::new);
    let activities = fields.texts_or_null("activityIds")?.into_iter().map(ActivityId::new);
    let retried = api.engine.retry_instances(ids.collect(), activities.collect()).await?;
    let now = Utc::now();
    let results = retried.into_iter().map(|instance| result(instance, now)).collect();
    Ok(Json(AlterationResults { results }).into_response())
}

fn result(instance: RetriedInstance, now: DateTime<Utc>) -> AlterationResult {
    let has_retried = instance.has_retried();
    let entry = |message: String, is_done: bool| AlterationLogEntry {
        message,
        log_level: if is_done { "Information" } else { "Error" },
        timestamp: now,
        event_name: "ScheduleActivity",
    };
    let log_entries: Vec<_> = match instance.activities {
        Ok(activities) => activities
            .into_iter()
            .map(|activity| match activity.attempt {
                Ok(attempt) => {
                    let title = activity.title;
                    entry(
                        format!("The activity {title} is executed again: attempt {attempt}"),
                        true,
                    )
                }
                Err(reason) => entry(reason, false),
            })
            .collect(),
        Err(error) => vec![entry(error.message().to_owned(), false)],
    };
    AlterationResult {
        workflow_instance_id: instance.instance_id,
        is_successful: log_entries.iter().all(|entry| entry.log_level != "Error"),
        log: AlterationLog { log_entries },
        workflow_has_scheduled_work: has_retried,
    }
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
async fn submit(api: Api, body: RequestBody) -> ApiResult {
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
async fn plan(api: Api, Id(id): Id) -> ApiResult {
    let action = api.engine.bulk_action(&id).await?;
    let status = if action.finished_at.is_some() {
        "Completed"
    } else {
        "Running"
    };
    Ok(Json(json!({
        "plan": without_nulls(json!({
            "id": action.id,
            "alterations": [{"type": if action.kind == "delete" { "Delete" } else { "Cancel" }}],
            "workflowInstanceFilter": action.filter,
            "status": status,
            "createdAt": timestamp_text(action.accepted_at),
            "startedAt": timestamp_text(action.accepted_at),
            "completedAt": action.finished_at.map(timestamp_text),
            "processed": action.processed,
            "failed": action.failed,
        })),
        "jobs": [],
    }))
    .into_response())
}
