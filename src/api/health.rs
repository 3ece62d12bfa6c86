//! Liveness and readiness of a node.

use std::sync::{Arc, OnceLock};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Api;
use super::admission;
use super::path::{LIVE, READY};
use crate::runtime::{Engine, Readiness};

pub(super) async fn live() -> Json<Value> {
    Json(json!({"status": "live"}))
}

pub(super) async fn ready(State(api): State<Api>) -> (StatusCode, Json<Value>) {
    response(api.engine.readiness())
}

/// The health endpoints without limits and protection, for a separate listener that starts before the engine: until the
/// engine exists, the node is live and not ready. [`health_router`](super::health_router) needs an engine.
pub fn probe_router(engine: Arc<OnceLock<Engine>>) -> Router {
    let probe = async |State(engine): State<Arc<OnceLock<Engine>>>| {
        let not_started = Readiness {
            database: false,
            registered: false,
            reason: None,
        };
        response(engine.get().map_or(not_started, Engine::readiness))
    };
    Router::new()
        .route(LIVE, get(live))
        .route(READY, get(probe))
        .with_state(engine)
        .fallback(admission::no_such_route)
        .method_not_allowed_fallback(admission::wrong_method)
}

fn response(readiness: Readiness) -> (StatusCode, Json<Value>) {
    let (status, status_text) = if readiness.ready() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not-ready")
    };
    let mut body = json!({"status": status_text, "database": readiness.database, "registered": readiness.registered});
    if let (Some(reason), Some(body)) = (readiness.reason, body.as_object_mut()) {
        body.insert("reason".to_owned(), reason.into());
    }
    (status, Json(body))
}
