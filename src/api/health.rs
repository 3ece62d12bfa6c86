//! Liveness and readiness of a node.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Extension, Json, Router};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::admission;
use super::metrics::{self, MetricsText};
use super::path::{LIVE, METRICS, READY};
use crate::auth::{Caller, Issuers, Permission};
use crate::runtime::{Engine, Hang, Readiness};

/// The reason that a request without the key gets: the true one may name servers and roles.
const WITHHELD: &str = "ask with the API key, or read the log of this node";

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(live)).routes(routes!(ready))
}

/// The liveness of a node.
#[derive(Serialize, ToSchema)]
pub(super) struct Liveness {
    /// `live` or `hung`.
    status: &'static str,
    /// Which part of the node hangs.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The readiness of a node.
#[derive(Serialize, ToSchema)]
pub(super) struct ReadinessView {
    /// `ready` or `not-ready`.
    status: &'static str,
    #[serde(flatten)]
    details: Readiness,
}

/// Says that the process runs, and does not hang.
#[utoipa::path(get, path = LIVE, tag = "Health", responses(
    (status = 200, description = "The process runs.", body = Liveness),
    (status = 503, description = "The node hangs, and only a new process helps.", body = Liveness),
))]
pub(super) async fn live(State(api): State<Api>) -> (StatusCode, Json<Liveness>) {
    liveness(api.engine.hang())
}

/// Says whether the node can take work.
#[utoipa::path(get, path = READY, tag = "Health", responses(
    (status = 200, description = "The node can take work.", body = ReadinessView),
    (status = 503, description = "The node cannot take work.", body = ReadinessView),
))]
///
/// The reason and the causes are for callers with `read:cluster`, and for the address of `--health-listen`.
pub(super) async fn ready(
    State(api): State<Api>,
    caller: Option<Extension<Arc<Caller>>>,
) -> (StatusCode, Json<ReadinessView>) {
    let mut readiness = api.engine.readiness();
    let away = api.issuers.iter().flat_map(Issuers::away);
    let away: Vec<String> = away.map(|(name, problem)| format!("{name}: {problem}")).collect();
    if !away.is_empty() {
        readiness.away.push("openid");
        readiness.causes.insert("openid", away.join("; "));
    }
    if !caller.is_some_and(|Extension(caller)| caller.may(&[Permission::ReadCluster])) {
        readiness.causes.clear();
        if readiness.reason.is_some() {
            readiness.reason = Some(WITHHELD.to_owned());
        }
    }
    response(readiness)
}

/// The health endpoints, and the metrics, without limits and protection, for a separate listener that starts before the engine: until the
/// engine exists, the node is live and not ready. [`health_router`](super::health_router) needs an engine.
pub fn probe_router(engine: Arc<OnceLock<Engine>>, metrics: Option<MetricsText>) -> Router {
    let text = async move || {
        metrics
            .as_ref()
            .map(MetricsText::response)
            .ok_or_else(metrics::not_kept)
    };
    let live = async |State(engine): State<Arc<OnceLock<Engine>>>| liveness(engine.get().and_then(Engine::hang));
    let ready = async |State(engine): State<Arc<OnceLock<Engine>>>| {
        let not_started = Readiness {
            database: false,
            registered: false,
            reason: None,
            away: Vec::new(),
            causes: BTreeMap::new(),
        };
        response(engine.get().map_or(not_started, Engine::readiness))
    };
    Router::new()
        .route(LIVE, get(live))
        .route(READY, get(ready))
        .route(METRICS, get(text))
        .with_state(engine)
        .fallback(admission::no_such_route)
        .method_not_allowed_fallback(admission::wrong_method)
}

fn liveness(hang: Option<Hang>) -> (StatusCode, Json<Liveness>) {
    let (code, status) = match hang {
        None => (StatusCode::OK, "live"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "hung"),
    };
    let reason = hang.map(|hang| hang.to_string());
    (code, Json(Liveness { status, reason }))
}

fn response(details: Readiness) -> (StatusCode, Json<ReadinessView>) {
    let (code, status) = if details.ready() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not-ready")
    };
    (code, Json(ReadinessView { status, details }))
}
