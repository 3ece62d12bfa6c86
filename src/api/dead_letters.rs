//! Work that was given up: as this engine tells it, and under Elsa's routes in Elsa's shape.

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

/// Elsa's page where a request for its dead letters names none.
const ELSA_PAGE: u32 = 50;

/// Elsa's words for what became of a replay.
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
        kinds: fields.words("kinds", &KINDS)?,
        cause: fields.word("cause", &CAUSES)?.map(|cause| match cause {
            "failed" => DeadLetterCause::Failed,
            "crashed" => DeadLetterCause::Crashed,
            _ => DeadLetterCause::Expired,
        }),
        reason_contains,
        from,
        until,
    })
}

/// `POST /cluster/dead-letters/replay`: those that fit all that is given. A field that is not known is refused, and so is
/// none without `all`: a slip must not replay everything.
pub(super) async fn replay_many(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let mut fields = Fields::of_body(body.value)?;
    let filter = filter(&mut fields)?;
    let batch = DeadLetterBatch {
        after: fields.text("after")?,
        limit: paging::size(&mut fields, "pageSize")?.unwrap_or_default(),
    };
    let all = fields.flag("all")?.unwrap_or(false);
    if let Some(unknown) = fields.names().next() {
        let message = format!("{unknown} is no field of a replay of dead letters.");
        return Err(ApiError::invalid_field(unknown, message));
    }
    if filter.is_empty() && !all {
        let message = "The body must say which dead letters are meant, or `all: true`.";
        return Err(ApiError::bad_request("missing-field", message).field("all", message));
    }
    let replayed = api.engine.replay_dead_letters(&filter, &batch).await?;
    Ok(Json(replayed).into_response())
}

/// `GET /cluster/dead-letters`
pub(super) async fn list(State(api): State<Api>, uri: Uri) -> ApiResult {
    let mut fields = Fields::of_query(&uri)?;
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
    elsa_listed(&api, Fields::of_query(&uri)?).await
}

/// `POST /bookmark-queue/dead-letters`: the same with the fields in the body.
pub(super) async fn elsa_list_by_post(State(api): State<Api>, body: RequestBody) -> ApiResult {
    elsa_listed(&api, Fields::of_body(body.value)?).await
}

async fn elsa_listed(api: &Api, mut fields: Fields) -> ApiResult {
    let page = Page {
        page: fields.number("page", 0)?.unwrap_or(0),
        page_size: paging::size(&mut fields, "pageSize")?.unwrap_or(ELSA_PAGE),
    };
    let listed = api.engine.dead_letters(&filter(&mut fields)?, page).await?;
    let items: Vec<Value> = listed.items.into_iter().map(elsa).collect();
    Ok(Json(json!({"items": items, "totalCount": listed.total_count})).into_response())
}

/// `GET /bookmark-queue/dead-letters/{id}`
pub(super) async fn elsa_get(State(api): State<Api>, Id(id): Id) -> ApiResult {
    Ok(Json(elsa(api.engine.dead_letter(&id).await?)).into_response())
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

/// A letter in Elsa's shape.
fn elsa(letter: DeadLetter) -> Value {
    let bookmark = letter.bookmark_id.as_ref().map(|id| id.as_str().to_owned());
    let failed = letter.cause == DeadLetterCause::Failed;
    json!({
        "id": letter.id,
        "tenantId": null,
        "originalQueueItemId": letter.work_id.or(bookmark),
        "workflowInstanceId": letter.workflow_instance_id,
        "correlationId": letter.correlation_id,
        "bookmarkId": letter.bookmark_id,
        "stimulusHash": letter.stimulus_hash,
        "activityInstanceId": letter.activity_instance_id,
        "activityTypeName": letter.activity_type_name,
        // Elsa has no delays here, and always knows this.
        "originalCreatedAt": letter.accepted_at.unwrap_or(letter.created_at),
        "deadLetteredAt": letter.created_at,
        "reason": letter.reason,
        "deliveryAttempts": letter.attempts,
        "lastAttemptedAt": letter.created_at,
        "lastErrorType": failed.then_some("Error"),
        "lastErrorMessage": letter.last_error,
        "canReplay": true,
        "replayedAt": null,
        "replayedQueueItemId": null,
    })
}
