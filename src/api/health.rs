//! Whether the process lives, and whether it can take work.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Api;

/// Answers as long as the process does.
pub(super) const LIVE: &str = "/health/live";
/// Answers 200 only while this node can take work.
pub(super) const READY: &str = "/health/ready";

/// Whether the path is open to everybody.
pub(super) fn is_health(path: &str) -> bool {
    path == LIVE || path == READY
}

pub(super) async fn live() -> Json<Value> {
    Json(json!({"status": "live"}))
}

pub(super) async fn ready(State(api): State<Api>) -> (StatusCode, Json<Value>) {
    let readiness = api.engine.readiness();
    let (status, word) = if readiness.database && readiness.registered {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not-ready")
    };
    let body = json!({"status": word, "database": readiness.database, "registered": readiness.registered});
    (status, Json(body))
}
