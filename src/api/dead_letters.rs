//! Dead letters: under the engine's own routes in its own shape, under Elsa's routes in Elsa's shape.

use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::openapi::{self, NoFields, PageQuery};
use super::paging;
use super::path::Id;
use crate::elsa_json;
use crate::http::{ApiError, ApiResult, ErrorBody, RequestBody};
use crate::id::{BookmarkId, DefinitionId, InstanceId};
use crate::runtime::{
    DeadLetter, DeadLetterBatch, DeadLetterCause, DeadLetterFilter, DeadLettersReplayed, Listed, Page,
};

/// Elsa's page size for dead letters, if a request has none.
const ELSA_PAGE: u32 = 50;

/// Elsa's reason for a replay that did nothing.
const NOT_NEEDED: &str = "NotNeeded";

const KINDS: [&str; 6] = ["start", "resume", "stimulus", "cancel", "continue", "delay"];
const CAUSES: [&str; 3] = ["failed", "crashed", "expired"];

pub(super) fn routes() -> OpenApiRouter<Api> {
    let elsa = |rest: &str| format!("/bookmark-queue/dead-letters/{{id}}{rest}");
    OpenApiRouter::default()
        .routes(routes!(list))
        .routes(routes!(replay_many))
        .routes(routes!(get, delete))
        .routes(routes!(replay))
        .routes(routes!(elsa_list, elsa_list_by_post))
        .routes(routes!(elsa_get))
        .routes(openapi::also_at(&elsa(""), routes!(delete)))
        .routes(openapi::also_at(&elsa("/replay"), routes!(replay)))
}

/// Which dead letters: those that meet all criteria.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct DeadLetterCriteria {
    /// Only of this instance.
    workflow_instance_id: Option<String>,
    /// Only of instances of this definition.
    definition_id: Option<String>,
    /// Only of these kinds: `start`, `resume`, `stimulus`, `cancel`, `continue`, `delay`.
    kinds: Option<Vec<String>>,
    /// Only with this cause: `failed`, `crashed` or `expired`.
    cause: Option<String>,
    /// Only with this text in their reason, in any case.
    reason_contains: Option<String>,
    /// Only from this time on.
    created_from: Option<DateTime<Utc>>,
    /// Only before this time.
    created_until: Option<DateTime<Utc>>,
}

/// The dead letters of a bulk replay: those that meet all criteria.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ReplayFields {
    #[serde(flatten)]
    criteria: DeadLetterCriteria,
    /// Replays all; needed if there are no criteria.
    all: Option<bool>,
    /// Only after the dead letter with this id: `next` of the previous call.
    after: Option<String>,
    /// The maximum number of dead letters of this call; 100 if absent.
    #[schema(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// Elsa's list of dead letters.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ElsaListFields {
    #[serde(flatten)]
    criteria: DeadLetterCriteria,
    /// The number of the page, from 0.
    #[schema(minimum = 0, maximum = 2147483647)]
    page: Option<u32>,
    /// The size of a page; 50 if absent.
    #[schema(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// The result of the replay of a dead letter.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ReplayView {
    /// False if it was no longer needed, and was deleted.
    replayed: bool,
    /// Its new row of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_item_id: Option<String>,
    /// `NotNeeded`, if it was not replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Its instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_instance_id: Option<InstanceId>,
}

/// Why a dead letter was not replayed.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "a schema")]
enum NotReplayed {
    /// It was not needed.
    Unneeded(ReplayView),
    /// It cannot be replayed now.
    Refused(ErrorBody),
}

/// A dead letter in Elsa's shape.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ElsaDeadLetter {
    /// Its id.
    id: String,
    /// Its former row of work, or its bookmark.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_queue_item_id: Option<String>,
    /// Its instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_instance_id: Option<InstanceId>,
    /// The correlation id of that instance, or the one that the stimulus was for.
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    /// The bookmark that it was to resume.
    #[serde(skip_serializing_if = "Option::is_none")]
    bookmark_id: Option<BookmarkId>,
    /// The stimulus that it was to deliver, hashed.
    #[serde(skip_serializing_if = "Option::is_none")]
    stimulus_hash: Option<String>,
    /// The activity execution that it was for.
    #[serde(skip_serializing_if = "Option::is_none")]
    activity_instance_id: Option<String>,
    /// The activity type that waits for such a stimulus.
    #[serde(skip_serializing_if = "Option::is_none")]
    activity_type_name: Option<String>,
    /// When it was accepted; for a delay, when it became a dead letter.
    #[serde(serialize_with = "elsa_json::timestamp")]
    original_created_at: DateTime<Utc>,
    /// When it became a dead letter.
    #[serde(serialize_with = "elsa_json::timestamp")]
    dead_lettered_at: DateTime<Utc>,
    /// Why, in words.
    reason: String,
    /// How often it was tried.
    delivery_attempts: u32,
    /// When it became a dead letter.
    #[serde(serialize_with = "elsa_json::timestamp")]
    last_attempted_at: DateTime<Utc>,
    /// `Error`, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error_type: Option<&'static str>,
    /// The error of its last attempt, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error_message: Option<String>,
    /// True.
    can_replay: bool,
}

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

/// Replays the dead letters that meet all criteria, oldest first.
///
/// An unknown field is an error, and so is a body without criteria and without `all`: a typo must not replay everything. A
/// call takes at most `pageSize` dead letters and 16 MiB; `next` is the `after` of the next call.
#[utoipa::path(post, path = "/cluster/dead-letters/replay", tag = "Dead letters", request_body = ReplayFields,
    responses((status = 200, description = "The results of the replays.", body = DeadLettersReplayed)))]
pub(super) async fn replay_many(api: Api, body: RequestBody) -> ApiResult {
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

/// Lists dead letters, newest first.
#[utoipa::path(get, path = "/cluster/dead-letters", tag = "Dead letters", params(PageQuery, DeadLetterCriteria),
    responses((status = 200, description = "A page of dead letters.", body = Listed<DeadLetter>)))]
pub(super) async fn list(api: Api, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let page = paging::page(&mut fields)?;
    let listed = api.engine.dead_letters(&filter(&mut fields)?, page).await?;
    Ok(Json(listed).into_response())
}

/// Gets a dead letter.
#[utoipa::path(get, path = "/cluster/dead-letters/{id}", tag = "Dead letters", params(("id" = String, Path, description = "The id of the dead letter.")),
    responses(
        (status = 200, description = "The dead letter.", body = DeadLetter),
        (status = 404, description = "`dead-letter-not-found`: the dead letter does not exist."),
    ))]
pub(super) async fn get(api: Api, Id(id): Id) -> ApiResult {
    Ok(Json(api.engine.dead_letter(&id).await?).into_response())
}

/// Lists dead letters in Elsa's shape, newest first.
#[utoipa::path(get, path = "/bookmark-queue/dead-letters", tag = "Dead letters", params(PageQuery, DeadLetterCriteria),
    responses((status = 200, description = "A page of dead letters; 50 if `pageSize` is absent.", body = Listed<ElsaDeadLetter>)))]
pub(super) async fn elsa_list(api: Api, uri: Uri) -> ApiResult {
    elsa_page(&api, Fields::from_query(&uri)?).await
}

/// Lists dead letters in Elsa's shape, with the criteria in the body.
#[utoipa::path(post, path = "/bookmark-queue/dead-letters", tag = "Dead letters", request_body = Option<ElsaListFields>,
    responses((status = 200, description = "A page of dead letters.", body = Listed<ElsaDeadLetter>)))]
pub(super) async fn elsa_list_by_post(api: Api, body: RequestBody) -> ApiResult {
    elsa_page(&api, Fields::from_body(body.value)?).await
}

async fn elsa_page(api: &Api, mut fields: Fields) -> ApiResult {
    let page = Page {
        page: fields.number("page", 0)?.unwrap_or(0),
        page_size: paging::size(&mut fields, "pageSize")?.unwrap_or(ELSA_PAGE),
    };
    let listed = api.engine.dead_letters(&filter(&mut fields)?, page).await?;
    let items: Vec<ElsaDeadLetter> = listed.items.into_iter().map(elsa_dead_letter).collect();
    paging::response(&items, listed.total_count)
}

/// Gets a dead letter in Elsa's shape.
#[utoipa::path(get, path = "/bookmark-queue/dead-letters/{id}", tag = "Dead letters", params(("id" = String, Path, description = "The id of the dead letter.")),
    responses(
        (status = 200, description = "The dead letter.", body = ElsaDeadLetter),
        (status = 404, description = "`dead-letter-not-found`: the dead letter does not exist."),
    ))]
pub(super) async fn elsa_get(api: Api, Id(id): Id) -> ApiResult {
    Ok(Json(elsa_dead_letter(api.engine.dead_letter(&id).await?)).into_response())
}

/// Turns a dead letter into work again.
///
/// If it is no longer needed because its instance has finished, it is only deleted.
#[utoipa::path(post, path = "/cluster/dead-letters/{id}/replay", tag = "Dead letters", params(("id" = String, Path, description = "The id of the dead letter.")),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "It is work again.", body = ReplayView),
        (status = 404, description = "`dead-letter-not-found`: the dead letter does not exist."),
        (status = 409, description = "It was not needed (`replayed` is false), and is deleted. Or an error: \
            `cannot-start`: the activation strategy allows no other instance now; \
            `schedule-running`: an earlier instance of its schedule runs.", body = NotReplayed),
    ))]
pub(super) async fn replay(api: Api, Id(id): Id, _body: RequestBody) -> ApiResult {
    let replayed = api.engine.replay_dead_letter(&id).await?;
    let done = replayed.work_id.is_some() || replayed.published.is_some();
    let body = ReplayView {
        replayed: done,
        queue_item_id: replayed.work_id.map(|id| id.0.to_string()),
        reason: (!done).then_some(NOT_NEEDED),
        workflow_instance_id: replayed.instance_id,
    };
    let status = if done { StatusCode::OK } else { StatusCode::CONFLICT };
    Ok((status, Json(body)).into_response())
}

/// Deletes a dead letter.
#[utoipa::path(delete, path = "/cluster/dead-letters/{id}", tag = "Dead letters", params(("id" = String, Path, description = "The id of the dead letter.")),
    responses(
        (status = 204, description = "It is deleted."),
        (status = 404, description = "`dead-letter-not-found`: the dead letter does not exist."),
        (status = 409, description = "`dead-letter-needed`: without it its instance would wait forever; replay it, or cancel the instance."),
    ))]
pub(super) async fn delete(api: Api, Id(id): Id) -> ApiResult {
    api.engine.delete_dead_letter(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn elsa_dead_letter(dead_letter: DeadLetter) -> ElsaDeadLetter {
    let bookmark = dead_letter.bookmark_id.as_ref().map(|id| id.as_str().to_owned());
    let failed = dead_letter.cause == DeadLetterCause::Failed;
    ElsaDeadLetter {
        id: dead_letter.id,
        original_queue_item_id: dead_letter.work_id.or(bookmark),
        workflow_instance_id: dead_letter.workflow_instance_id,
        correlation_id: dead_letter.correlation_id,
        bookmark_id: dead_letter.bookmark_id,
        stimulus_hash: dead_letter.stimulus_hash,
        activity_instance_id: dead_letter.activity_instance_id,
        activity_type_name: dead_letter.activity_type_name,
        // Elsa requires this, and has no dead letters of delays, which have no such time.
        original_created_at: dead_letter.accepted_at.unwrap_or(dead_letter.created_at),
        dead_lettered_at: dead_letter.created_at,
        reason: dead_letter.reason,
        delivery_attempts: dead_letter.attempts,
        last_attempted_at: dead_letter.created_at,
        last_error_type: failed.then_some("Error"),
        last_error_message: dead_letter.last_error,
        can_replay: true,
    }
}
