//! Whether the process lives, and whether it can take work.

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
    told(api.engine.readiness())
}

/// Health alone, for a listener that nothing else goes through. It answers before the engine is there, too: live, and not
/// ready.
pub fn probe_router(engine: Arc<OnceLock<Engine>>) -> Router {
    let probe = async |State(engine): State<Arc<OnceLock<Engine>>>| {
        let none = Readiness {
            database: false,
            registered: false,
            reason: None,
        };
        told(engine.get().map_or(none, Engine::readiness))
    };
    Router::new()
        .route(LIVE, get(live))
        .route(READY, get(probe))
        .with_state(engine)
        .fallback(admission::no_such_route)
        .method_not_allowed_fallback(admission::wrong_method)
}

fn told(readiness: Readiness) -> (StatusCode, Json<Value>) {
    let (status, word) = if readiness.ready() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not-ready")
    };
    let mut body = json!({"status": word, "database": readiness.database, "registered": readiness.registered});
    if let (Some(reason), Some(body)) = (readiness.reason, body.as_object_mut()) {
        body.insert("reason".to_owned(), reason.into());
    }
    (status, Json(body))
}
