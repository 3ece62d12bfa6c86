//! The hub by which Studio follows instances: SignalR's JSON protocol on WebSockets, at any node for the commits of all.
//!
//! A browser can send no key with a WebSocket. So the key is checked when a client negotiates, and the token that it gets opens
//! one connection within half a minute, at whichever node.

mod connection;
mod protocol;

use std::sync::Arc;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{State, WebSocketUpgrade};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use tokio::sync::Semaphore;

use super::Api;
use super::fields::Fields;
use super::path;
use crate::http::{ApiError, ApiResult};

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

/// The routes. The OpenAPI document has none of them: it cannot describe a WebSocket.
pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route(path::HUB, get(connect))
        .route(path::HUB_NEGOTIATION, post(negotiate))
}

/// `POST /elsa/hubs/workflow-instance/negotiate`: a token for one connection.
async fn negotiate(State(api): State<Api>) -> ApiResult {
    // Admission has checked the key, where there is one.
    let token = api.engine.connection_token(!api.is_anonymous).await?;
    Ok(Json(json!({
        "negotiateVersion": 1,
        "connectionId": token.connection_id,
        "connectionToken": token.token,
        "availableTransports": [{"transport": "WebSockets", "transferFormats": ["Text"]}],
    }))
    .into_response())
}

/// `GET /elsa/hubs/workflow-instance?id=TOKEN`: the WebSocket.
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
    let token = Fields::from_query(&uri)?.text("id")?.unwrap_or_default();
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
    api.engine.spend_connection_token(&token, !api.is_anonymous).await?;
    let engine = api.engine.clone();
    Ok(upgrade
        .max_message_size(LONGEST_MESSAGE)
        .max_frame_size(LONGEST_MESSAGE)
        .on_failed_upgrade(|error| tracing::debug!(%error, "a connection to the hub failed before it began"))
        .on_upgrade(move |socket| async move {
            connection::run(socket, &engine).await;
            drop(permit);
        }))
}
