//! The hub through which Studio observes instances: SignalR's JSON protocol on WebSockets, at any node for the commits of
//! all nodes.
//!
//! A browser can send no credential with a WebSocket. So that is checked when a client negotiates, and the resulting token opens
//! one connection within half a minute, at any node, in the tenant of the caller.

mod connection;
mod protocol;

use std::sync::Arc;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{State, WebSocketUpgrade};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tokio::sync::Semaphore;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use super::path;
use crate::api::access::Access;
use crate::auth::{Credential, Permission, Refusal};
use crate::http::{ApiError, ApiResult};
use crate::id::TenantId;

/// The most connections of a node.
const MOST_CONNECTIONS: usize = 200;

/// The longest message of a client, in bytes.
const LONGEST_MESSAGE: usize = 16 * 1024;

/// The connections that may still be opened.
#[derive(Debug)]
pub(super) struct HubPermits(Arc<Semaphore>);

impl Default for HubPermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_CONNECTIONS)))
    }
}

/// The negotiation.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(negotiate))
}

/// The WebSocket, which an OpenAPI document cannot describe.
pub(super) fn socket_route() -> Router<Api> {
    Router::new().route(path::HUB, get(connect))
}

/// How a client connects.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Negotiated {
    /// 1.
    negotiate_version: u8,
    connection_id: String,
    /// Opens one connection within half a minute, at any node.
    connection_token: String,
    available_transports: [Transport; 1],
}

/// A way to connect.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Transport {
    /// `WebSockets`.
    transport: &'static str,
    /// `Text`.
    transfer_formats: [&'static str; 1],
}

/// Creates a token for one connection to the hub.
///
/// The connection is a WebSocket at `/elsa/hubs/workflow-instance?id=TOKEN`, and needs no key.
#[utoipa::path(post, path = path::HUB_NEGOTIATION, tag = "Live", responses(
    (status = 200, description = "The token, and how to connect.", body = Negotiated),
))]
async fn negotiate(api: Api) -> ApiResult {
    // Admission has checked the credential, where one is needed.
    let token = api.engine.connection_token(!api.is_anonymous()).await?;
    Ok(Json(Negotiated {
        negotiate_version: 1,
        connection_id: token.connection_id,
        connection_token: token.token,
        available_transports: [Transport {
            transport: "WebSockets",
            transfer_formats: ["Text"],
        }],
    })
    .into_response())
}

/// `GET /elsa/hubs/workflow-instance?id=TOKEN`, or `?access_token=JWT`: the WebSocket.
async fn connect(
    State(api): State<Api>,
    uri: Uri,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|_| {
        ApiError::bad_request(
            "websocket-required",
            "The hub is a WebSocket; negotiate first, then connect with the token.",
        )
    })?;
    let mut fields = Fields::from_query(&uri)?;
    let (token, bearer) = (fields.text("id")?.unwrap_or_default(), fields.text("access_token")?);
    let full = || {
        ApiError::unavailable(
            "too-many-requests",
            "The limit of connections to the hub is reached; try again.",
        )
    };
    let permit = Arc::clone(&api.hub.0).try_acquire_owned().map_err(|_| full())?;
    if api.engine.is_leaving() {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            "This node is about to stop.",
        ));
    }
    let tenant = match bearer.filter(|_| token.is_empty()) {
        Some(bearer) => tenant_of(&api, &bearer).await?,
        None => {
            let is_required = api.authenticator.is_required().await;
            let needs_key = is_required.map_err(Refusal::into_error)?;
            api.engine.spend_connection_token(&token, needs_key).await?
        }
    };
    let engine = api.engine.for_tenant(tenant);
    Ok(upgrade
        .max_message_size(LONGEST_MESSAGE)
        .max_frame_size(LONGEST_MESSAGE)
        .on_failed_upgrade(|error| tracing::debug!(%error, "a connection to the hub failed before it began"))
        .on_upgrade(move |socket| async move {
            connection::run(socket, &engine).await;
            drop(permit);
        }))
}

/// The tenant of a client that connects without a negotiation, with its token in the query as SignalR sends it.
async fn tenant_of(api: &Api, bearer: &str) -> Result<TenantId, ApiError> {
    let known = match api.authenticator.authenticate(Credential::Bearer(bearer)).await {
        Err(Refusal::Unavailable(error)) => return Err(error.into()),
        known => known.ok().flatten(),
    };
    let wrong = || {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "The access_token is wrong or has expired.",
        )
    };
    let caller = known.ok_or_else(wrong)?;
    let access = Access::OneOf(&[Permission::ReadWorkflowInstances]);
    match access.admits(&caller) {
        true => Ok(caller.tenant),
        false => Err(access.refusal(&caller)),
    }
}
