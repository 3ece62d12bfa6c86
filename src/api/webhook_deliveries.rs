//! What was sent to the sinks of webhooks, and the replay of what was given up.

use axum::Json;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::openapi::NoFields;
use super::paging;
use super::path::{Id, IdPair};
use crate::http::{ApiResult, RequestBody};
use crate::id::InstanceId;
use crate::runtime::{Page, WebhookDeliveryList, WebhookDeliveryState};

/// The most dead letters of one replay, if a request does not say it.
const DEFAULT_REPLAY: u32 = 100;

const STATES: [&str; 3] = ["pending", "delivered", "deadLetter"];
const STATES_OF_SINK: [&str; 2] = ["pending", "deadLetter"];

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(of_instance))
        .routes(routes!(of_sink))
        .routes(routes!(replay_many))
        .routes(routes!(replay))
}

/// The part of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct DeliveryQuery {
    /// Only in this state: `pending`, `delivered` or `deadLetter`. Of a sink: `pending` or `deadLetter`, which it is if absent.
    state: Option<String>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
    /// How many deliveries; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// Which dead letters are replayed.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct WebhookReplayFields {
    /// How many, the oldest first; 100 if absent.
    #[schema(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// What a replay has done.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct WebhooksReplayed {
    /// How many dead letters are sent again.
    replayed: u64,
}

/// Lists the deliveries about an instance, the newest first.
#[utoipa::path(get, path = "/workflow-instances/{id}/webhook-deliveries", tag = "Webhooks",
    params(("id" = String, Path, description = "The id of the instance."), DeliveryQuery),
    responses((status = 200, description = "A page of deliveries.", body = WebhookDeliveryList)))]
pub(super) async fn of_instance(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let state = fields.keyword("state", &STATES)?.map(|state| match state {
        "pending" => WebhookDeliveryState::Pending,
        "delivered" => WebhookDeliveryState::Delivered,
        _ => WebhookDeliveryState::DeadLetter,
    });
    let (cursor, size) = part(&mut fields)?;
    let page = api
        .engine
        .instance_webhooks(&InstanceId::new(id), state, cursor.as_deref(), size)
        .await?;
    Ok(Json(page).into_response())
}

/// Lists the dead letters of a sink, the newest first, or what is pending for it, the first due first.
#[utoipa::path(get, path = "/webhook-sinks/{id}/deliveries", tag = "Webhooks",
    params(("id" = String, Path, description = "The id of the sink."), DeliveryQuery),
    responses(
        (status = 200, description = "A page of deliveries.", body = WebhookDeliveryList),
        (status = 404, description = "`sink-not-found`: there is no such sink."),
    ))]
pub(super) async fn of_sink(api: Api, Id(id): Id, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let state = fields.keyword("state", &STATES_OF_SINK)?;
    let (cursor, size) = part(&mut fields)?;
    let dead = state != Some("pending");
    let page = api.engine.sink_webhooks(&id, dead, cursor.as_deref(), size).await?;
    Ok(Json(page).into_response())
}

fn part(fields: &mut Fields) -> Result<(Option<String>, u32), crate::http::ApiError> {
    let size = paging::size(fields, "pageSize")?;
    let cursor = fields.id("cursor")?;
    Ok((cursor, size.unwrap_or(Page::default().page_size)))
}

/// Sends dead letters of a sink again, the oldest first, each under its id.
#[utoipa::path(post, path = "/webhook-sinks/{id}/deliveries/replay", tag = "Webhooks",
    params(("id" = String, Path, description = "The id of the sink.")),
    request_body = Option<WebhookReplayFields>,
    responses(
        (status = 200, description = "They are pending again.", body = WebhooksReplayed),
        (status = 404, description = "`sink-not-found`: there is no such sink."),
        (status = 409, description = "`sink-disabled`: it has answered that it is gone; set its isPaused to false first."),
    ))]
pub(super) async fn replay_many(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let size = paging::size(&mut fields, "pageSize")?;
    let replayed = api.engine.replay_webhooks(&id, size.unwrap_or(DEFAULT_REPLAY)).await?;
    Ok(Json(WebhooksReplayed { replayed }).into_response())
}

/// Sends a dead letter of a sink again, under its id.
#[utoipa::path(post, path = "/webhook-sinks/{id}/deliveries/{deliveryId}/replay", tag = "Webhooks",
    params(
        ("id" = String, Path, description = "The id of the sink."),
        ("deliveryId" = String, Path, description = "The id of the delivery."),
    ),
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "It is pending again.", body = WebhooksReplayed),
        (status = 404, description = "`sink-not-found`: there is no such sink. `delivery-not-found`: it has no such dead letter."),
        (status = 409, description = "`sink-disabled`: it has answered that it is gone; set its isPaused to false first."),
    ))]
pub(super) async fn replay(api: Api, IdPair(sink, id): IdPair, _body: RequestBody) -> ApiResult {
    api.engine.replay_webhook(&sink, &id).await?;
    Ok(Json(WebhooksReplayed { replayed: 1 }).into_response())
}
