//! Dead letters: under the engine's own routes in its own shape, under Elsa's routes in Elsa's shape.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::Api;
use super::fields::Fields;
use super::paging;
use super::path::Id;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{DefinitionId, InstanceId};
use crate::runtime::{DeadLetter, DeadLetterBatch, DeadLetterCause, DeadLetterFilter, Page};

/// Elsa's page size for dead letters, if a request has none.
const ELSA_PAGE: u32 = 50;

/// Elsa's reason for a replay that did nothing.
const NOT_NEEDED: &str = "NotNeeded";

const KINDS: [&str; 6] = ["start", "resume", "stimulus", "cancel", "continue", "delay"];
const CAUSES: [&str; 3] = ["failed", "crashed", "expired"];

fn filter(fields: &mut Fields) -> Result<DeadLetterFilter, ApiError> {
    let mut text = |name: &str| fields.text(name).map(|text| text.filter(|text| !text.is_empty()));
    let (instance, definition) = (text("workflowInstanceId")?, text("definitionId")?);
    let reason_contains = text("reasonContains")?;
    let mut time = |name: &str| {
        let given = text(name)?.map(|text| DateTime::parse_from_rfc3339(&text));
        let wrong = |_| ApiError::invalid_field(name, format!("{name} must be a date and time with an offset."));
        Ok::<_, ApiError>(given.transpose().map_err(wrong)?.map(|time| time.with_timezone(&Utc)))
    };
    let (from, until) = (time("createdFrom")?, time("createdUntil")?);
    Ok(DeadLetterFilter {
        instance_id: instance.map(InstanceId::new),
        definition_id: definition.map(DefinitionId::new),
        kinds: fields.keywords("kinds", &KINDS)?,
        cause: fields.keyword("cause", &CAUSES)?.map(|cause| match cause {
            "failed" => DeadLetterCause::Failed,
            "crashed" => DeadLetterCause::Crashed,
            _ => DeadLetterCause::Expired,
        }),
        reason_contains,
        from,
        until,
    })
}

/// `POST /cluster/dead-letters/replay`: those that meet all given criteria. An unknown field is an error, and so is a body
/// without criteria and without `all`: a typing error must not replay everything.
pub(super) async fn replay_many(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let filter = filter(&mut fields)?;
    let batch = DeadLetterBatch {
        after: fields.text("after")?,
        limit: paging::size(&mut fields, "pageSize")?.unwrap_or_default(),
    };
    let all = fields.flag("all")?.unwrap_or(false);
    if let Some(unknown) = fields.names().next() {
        let message = format!("A replay of dead letters has no field {unknown}.");
        return Err(ApiError::invalid_field(unknown, message));
    }
    if filter.is_empty() && !all {
        let message = "The body must select dead letters, or have `all: true`.";
        return Err(ApiError::bad_request("missing-field", message).field("all", message));
    }
    let replayed = api.engine.replay_dead_letters(&filter, &batch).await?;
    Ok(Json(replayed).into_response())
}

/// `GET /cluster/dead-letters`
pub(super) async fn list(State(api): State<Api>, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let page = paging::page(&mut fields)?;
    let listed = api.engine.dead_letters(&filter(&mut fields)?, page).await?;
    Ok(Json(listed).into_response())
}

/// `GET /cluster/dead-letters/{id}`
pub(super) async fn get(State(api): State<Api>, Id(id): Id) -> ApiResult {
    Ok(Json(api.engine.dead_letter(&id).await?).into_response())
}

/// `GET /bookmark-queue/dead-letters`
pub(super) async fn elsa_list(State(api): State<Api>, uri: Uri) -> ApiResult {
    elsa_page(&api, Fields::from_query(&uri)?).await
}

/// `POST /bookmark-queue/dead-letters`: the same with the fields in the body.
pub(super) async fn elsa_list_by_post(State(api): State<Api>, body: RequestBody) -> ApiResult {
    elsa_page(&api, Fields::from_body(body.value)?).await
}

async fn elsa_page(api: &Api, mut fields: Fields) -> ApiResult {
    let page = Page {
        page: fields.number("page", 0)?.unwrap_or(0),
        page_size: paging::size(&mut fields, "pageSize")?.unwrap_or(ELSA_PAGE),
    };
    let listed = api.engine.dead_letters(&filter(&mut fields)?, page).await?;
    let items: Vec<Value> = listed.items.into_iter().map(elsa_dead_letter).collect();
    paging::response(&items, listed.total_count)
}

/// `GET /bookmark-queue/dead-letters/{id}`
pub(super) async fn elsa_get(State(api): State<Api>, Id(id): Id) -> ApiResult {
    Ok(Json(elsa_dead_letter(api.engine.dead_letter(&id).await?)).into_response())
}

/// `POST …/dead-letters/{id}/replay`, under both routes.
pub(super) async fn replay(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    let replayed = api.engine.replay_dead_letter(&id).await?;
    let done = replayed.work_id.is_some() || replayed.published.is_some();
    let body = json!({
        "replayed": done,
        "queueItemId": replayed.work_id.map(|id| id.0.to_string()),
        "reason": if done { None } else { Some(NOT_NEEDED) },
        "workflowInstanceId": replayed.instance_id,
    });
    Ok(Json(body).into_response())
}

/// `DELETE …/dead-letters/{id}`, under both routes: 204.
pub(super) async fn delete(State(api): State<Api>, Id(id): Id) -> ApiResult {
    api.engine.delete_dead_letter(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A dead letter in Elsa's shape.
fn elsa_dead_letter(dead_letter: DeadLetter) -> Value {
    let bookmark = dead_letter.bookmark_id.as_ref().map(|id| id.as_str().to_owned());
    let failed = dead_letter.cause == DeadLetterCause::Failed;
    json!({
        "id": dead_letter.id,
        "tenantId": null,
        "originalQueueItemId": dead_letter.work_id.or(bookmark),
        "workflowInstanceId": dead_letter.workflow_instance_id,
        "correlationId": dead_letter.correlation_id,
        "bookmarkId": dead_letter.bookmark_id,
        "stimulusHash": dead_letter.stimulus_hash,
        "activityInstanceId": dead_letter.activity_instance_id,
        "activityTypeName": dead_letter.activity_type_name,
        // Elsa requires this, and has no dead letters of delays, which have no such time.
        "originalCreatedAt": dead_letter.accepted_at.unwrap_or(dead_letter.created_at),
        "deadLetteredAt": dead_letter.created_at,
        "reason": dead_letter.reason,
        "deliveryAttempts": dead_letter.attempts,
        "lastAttemptedAt": dead_letter.created_at,
        "lastErrorType": failed.then_some("Error"),
        "lastErrorMessage": dead_letter.last_error,
        "canReplay": true,
        "replayedAt": null,
        "replayedQueueItemId": null,
    })
}
