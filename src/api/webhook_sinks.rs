//! The receivers of events.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::path::Id;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::runtime::WebhookSinkSummary;
use crate::webhook::{DEFAULT_RETRY_FOR, WebhookSecret, WebhookSink, WebhookSinkChange};

/// How long the secret before the current one signs as well, if a request does not say it.
const DEFAULT_OVERLAP: u32 = 24 * 3600;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(list, create))
        .routes(routes!(get, replace, change, delete))
        .routes(routes!(rotate))
}

/// A receiver of events.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct SinkFields {
    /// Its id: letters, digits and `-._~`; made if it is absent. It cannot be changed.
    id: Option<String>,
    /// What an operator calls it.
    name: Option<String>,
    /// Where the events go; needed.
    url: Option<String>,
    /// The types of its events; all, if it is absent or empty.
    event_types: Option<Vec<String>>,
    /// The definitions of its events; all, if it is absent or empty.
    definition_ids: Option<Vec<String>>,
    /// What signs: `whsec_` and the base64 of 24 to 64 bytes; made if it is absent. Only for a registration.
    secret: Option<String>,
    /// Whether events wait. `false` enables a sink that is disabled.
    is_paused: Option<bool>,
    /// How long a delivery is tried before it is given up; three days if it is absent.
    #[schema(minimum = 1, maximum = 2592000)]
    retry_for_seconds: Option<u32>,
}

/// Another secret for a sink.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct RotateFields {
    /// The secret; made if it is absent.
    secret: Option<String>,
    /// For how long the one before signs as well; a day if it is absent.
    #[schema(minimum = 0, maximum = 2592000)]
    overlap_seconds: Option<u32>,
}

/// All sinks.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SinkList {
    /// In the order of their ids.
    items: Vec<WebhookSinkSummary>,
    /// How many there are.
    total_count: u64,
}

/// A sink with its secret, which is shown this once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RegisteredSink {
    #[serde(flatten)]
    sink: WebhookSinkSummary,
    /// What signs.
    secret: String,
}

/// A secret, which is shown this once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RotatedSecret {
    /// What signs from now on.
    secret: String,
}

/// Lists the sinks, without how much waits for each. None shows its secret.
#[utoipa::path(get, path = "/webhook-sinks", tag = "Webhooks",
    responses((status = 200, description = "All sinks.", body = SinkList)))]
pub(super) async fn list(api: Api) -> ApiResult {
    let items = api.engine.webhook_sinks().await?;
    let total_count = items.len() as u64;
    Ok(Json(SinkList { items, total_count }).into_response())
}

/// Registers a sink, which receives what is committed from then on.
#[utoipa::path(post, path = "/webhook-sinks", tag = "Webhooks",
    request_body = SinkFields,
    responses(
        (status = 201, description = "It is registered; its secret is not shown again.", body = RegisteredSink),
        (status = 400, description = "`invalid-sink`, `invalid-secret`: a field is wrong. `sink-url-denied`: the rules on targets deny \
            its URL."),
        (status = 409, description = "`sink-exists`: another one has its id. `too-many-sinks`: there are 100."),
    ))]
pub(super) async fn create(api: Api, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let id = fields.text("id")?.filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
    let secret = secret(&mut fields)?;
    let url = fields.text("url")?.unwrap_or_default();
    let mut sink = WebhookSink::new(id, url, secret);
    sink.name = fields.text("name")?;
    sink.event_types = fields.texts("eventTypes")?;
    sink.definitions = fields.texts("definitionIds")?;
    sink.paused = fields.flag("isPaused")?.unwrap_or(false);
    if let Some(seconds) = fields.number("retryForSeconds", 1)? {
        sink.retry_for = Duration::from_secs(seconds.into());
    }
    let registered = RegisteredSink {
        sink: api.engine.add_webhook_sink(&sink).await?,
        secret: sink.secret.reveal(),
    };
    Ok((StatusCode::CREATED, Json(registered)).into_response())
}

fn secret(fields: &mut Fields) -> Result<WebhookSecret, ApiError> {
    match fields.text("secret")? {
        Some(text) => Ok(WebhookSecret::parse(&text)?),
        None => Ok(WebhookSecret::random()),
    }
}

/// Gets a sink, without its secret.
#[utoipa::path(get, path = "/webhook-sinks/{id}", tag = "Webhooks",
    params(("id" = String, Path, description = "The id of the sink.")),
    responses(
        (status = 200, description = "The sink.", body = WebhookSinkSummary),
        (status = 404, description = "`sink-not-found`: there is no such sink."),
    ))]
pub(super) async fn get(api: Api, Id(id): Id) -> ApiResult {
    Ok(Json(api.engine.webhook_sink(&id).await?).into_response())
}

/// Replaces all of a sink but its secret: what is absent has its default.
#[utoipa::path(put, path = "/webhook-sinks/{id}", tag = "Webhooks",
    params(("id" = String, Path, description = "The id of the sink.")),
    request_body = SinkFields,
    responses(
        (status = 200, description = "The sink.", body = WebhookSinkSummary),
        (status = 400, description = "`invalid-sink`: a field is wrong. `sink-url-denied`: the rules on targets deny its URL."),
        (status = 404, description = "`sink-not-found`: there is no such sink."),
        (status = 409, description = "`sink-configured`: it comes from the settings of a node."),
    ))]
pub(super) async fn replace(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    check_fixed(&mut fields, &id)?;
    let retry_for = fields.number("retryForSeconds", 1)?;
    let change = WebhookSinkChange {
        name: Some(fields.text("name")?),
        url: Some(fields.text("url")?.unwrap_or_default()),
        event_types: Some(fields.texts("eventTypes")?),
        definitions: Some(fields.texts("definitionIds")?),
        retry_for: Some(retry_for.map_or(DEFAULT_RETRY_FOR, |seconds| Duration::from_secs(seconds.into()))),
        paused: Some(fields.flag("isPaused")?.unwrap_or(false)),
    };
    Ok(Json(api.engine.change_webhook_sink(&id, change).await?).into_response())
}

/// Changes those fields of a sink that are given. `isPaused: false` enables one that is disabled, and tries it at once.
#[utoipa::path(patch, path = "/webhook-sinks/{id}", tag = "Webhooks",
    params(("id" = String, Path, description = "The id of the sink.")),
    request_body = SinkFields,
    responses(
        (status = 200, description = "The sink.", body = WebhookSinkSummary),
        (status = 400, description = "`invalid-sink`: a field is wrong. `sink-url-denied`: the rules on targets deny its URL."),
        (status = 404, description = "`sink-not-found`: there is no such sink."),
        (status = 409, description = "`sink-configured`: it comes from the settings of a node, and can only be paused here."),
    ))]
pub(super) async fn change(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    // Null says that it has none.
    let has_name = fields.names().any(|name| name.eq_ignore_ascii_case("name"));
    check_fixed(&mut fields, &id)?;
    let retry_for = fields.number("retryForSeconds", 1)?;
    let change = WebhookSinkChange {
        name: has_name.then_some(fields.text("name")?),
        url: fields.text("url")?,
        event_types: fields.texts_if_any("eventTypes")?,
        definitions: fields.texts_if_any("definitionIds")?,
        retry_for: retry_for.map(|seconds| Duration::from_secs(seconds.into())),
        paused: fields.flag("isPaused")?,
    };
    Ok(Json(api.engine.change_webhook_sink(&id, change).await?).into_response())
}

/// The id stays, and a secret is not changed beside other fields, so that none is replaced by accident.
fn check_fixed(fields: &mut Fields, id: &str) -> Result<(), ApiError> {
    if fields.text("id")?.is_some_and(|given| given != id) {
        let message = "The id of a sink cannot be changed; register another sink.";
        return Err(ApiError::invalid_field("id", message));
    }
    match fields.any("secret") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(ApiError::invalid_field(
            "secret",
            "The secret of a sink is changed by POST /webhook-sinks/{id}/rotate-secret.",
        )),
    }
}

/// Deletes a sink, with what waits for it.
#[utoipa::path(delete, path = "/webhook-sinks/{id}", tag = "Webhooks",
    params(("id" = String, Path, description = "The id of the sink.")),
    responses(
        (status = 204, description = "It is deleted."),
        (status = 404, description = "`sink-not-found`: there is no such sink."),
        (status = 409, description = "`sink-configured`: it comes from the settings of a node."),
    ))]
pub(super) async fn delete(api: Api, Id(id): Id) -> ApiResult {
    api.engine.delete_webhook_sink(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Gives a sink another secret. For a while its deliveries have two signatures, that of the new one first.
#[utoipa::path(post, path = "/webhook-sinks/{id}/rotate-secret", tag = "Webhooks",
    params(("id" = String, Path, description = "The id of the sink.")),
    request_body = Option<RotateFields>,
    responses(
        (status = 200, description = "The secret, which is not shown again.", body = RotatedSecret),
        (status = 400, description = "`invalid-secret`, `invalid-sink`: a field is wrong."),
        (status = 404, description = "`sink-not-found`: there is no such sink."),
        (status = 409, description = "`sink-configured`: it comes from the settings of a node."),
    ))]
pub(super) async fn rotate(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let secret = secret(&mut fields)?;
    let overlap = fields.number("overlapSeconds", 0)?.unwrap_or(DEFAULT_OVERLAP);
    let overlap = Duration::from_secs(overlap.into());
    api.engine.rotate_webhook_secret(&id, &secret, overlap).await?;
    let secret = secret.reveal();
    Ok(Json(RotatedSecret { secret }).into_response())
}
