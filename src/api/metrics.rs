//! The metrics of a node, as Prometheus reads them.

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::path::METRICS;
use crate::http::{ApiError, ApiResult};

/// The content type of the text form, which names its version.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Renders the metrics of this process in the text form of Prometheus. The engine installs no recorder: a program that has one
/// gives what renders it.
#[derive(Clone)]
pub struct MetricsText(Arc<dyn Fn() -> String + Send + Sync>);

impl MetricsText {
    /// What `render` returns, which is called for each request; it must not block.
    pub fn new(render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(render))
    }

    pub(super) fn response(&self) -> Response {
        ([(header::CONTENT_TYPE, TEXT)], (self.0)()).into_response()
    }
}

impl fmt::Debug for MetricsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsText")
    }
}

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(read_metrics))
}

/// Reads the metrics of this node.
#[utoipa::path(get, path = METRICS, tag = "Cluster", responses(
    (status = 200, description = "The text form of Prometheus.", body = String, content_type = "text/plain"),
))]
pub(super) async fn read_metrics(State(api): State<Api>) -> ApiResult {
    match &api.metrics {
        Some(metrics) => Ok(metrics.response()),
        None => Err(not_kept()),
    }
}

/// For a program without a recorder.
pub(super) fn not_kept() -> ApiError {
    let message = "This program keeps no metrics; give `ApiOptions::metrics` what renders those of its recorder.";
    ApiError::new(StatusCode::NOT_FOUND, "no-metrics", message)
}
