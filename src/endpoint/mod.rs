//! Workflows behind URLs: what a client sends below the base path starts or resumes a workflow, whose answer it receives.
//!
//! ```text
//! request ─▶ admission ─▶ route ─▶ credential ─▶ body ─▶ engine ─▶ answer
//!            (host)      (404, 405)  (401)   (limits, spool)   (after the commit)
//! ```
//!
//! - **A route decides, not the client.** Whether a credential is needed, how large a body may be and which files it may have
//!   are options of the endpoint. They are checked before anything runs, and again if the route moves meanwhile.
//! - **Nothing is held whole that is large.** A body up to `INLINE_BYTES` becomes part of the accepted row; anything larger is
//!   streamed to the spool of this node.
//! - **Slow clients bound themselves.** A request has a permit from its begin to the end of its answer, its body must make
//!   progress, and a client that takes nothing loses its connection (`http::connections`).
//! - **A client that hangs up cancels nothing.** Its handler is dropped; what was accepted goes on.
//! - **An answer leaves after the commit of its burst**: the engine returns it no sooner.
//!
//! An endpoint that does not ask for a credential is open to every client, web pages of other origins included: its
//! author has chosen so. One that asks for it is protected like the API, whose key it takes.
//!
//! # Layout
//! - `admission`: hosts, credentials, permits; `run`: the way of a request through its route and the engine.
//! - `incoming`: a request without its body; `body`, `form`: its body by its kind; `body_stream`: the bytes as they come; `content`:
//!   what is read; `digest`: what a repeat is compared by.
//! - `answer`: what a client receives.

mod admission;
mod answer;
mod body;
mod body_stream;
mod content;
mod digest;
mod form;
mod incoming;
mod run;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

pub(crate) use admission::EndpointAdmission;
use incoming::below;

use crate::activity::RESERVED;
use crate::http::{ApiError, BodyLimits};
use crate::runtime::Engine;

/// Serves workflows of one engine.
pub(crate) struct WorkflowEndpoints {
    engine: Engine,
    admission: EndpointAdmission,
    limits: Arc<BodyLimits>,
    /// How long a body may make no progress.
    body_timeout: Duration,
    /// The largest body where the endpoint sets no limit, in bytes.
    max_body: u64,
}

impl WorkflowEndpoints {
    /// `max_body`: the largest body where an endpoint sets no limit, in bytes.
    pub(crate) fn new(
        engine: Engine,
        admission: EndpointAdmission,
        limits: Arc<BodyLimits>,
        body_timeout: Duration,
        max_body: u64,
    ) -> Self {
        Self {
            engine,
            admission,
            limits,
            body_timeout,
            max_body,
        }
    }
}

/// The middleware around the API: it takes the requests below the base path.
pub(crate) async fn serve(State(endpoints): State<Arc<WorkflowEndpoints>>, request: Request, next: Next) -> Response {
    let base = &endpoints.engine.http_services().base_path;
    let Some(path) = below(base, request.uri().path()).filter(|path| !is_reserved(path)) else {
        return next.run(request).await;
    };
    let path = path.to_owned();
    // A panic is a defect; to the client it must not look like a broken network.
    let served = AssertUnwindSafe(run::serve(&endpoints, request, &path)).catch_unwind();
    let mut response = served.await.unwrap_or_else(|_| {
        tracing::error!("the handler of a request to a workflow panicked");
        ApiError::internal().into_response()
    });
    let class = match response.status().as_u16() / 100 {
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        5 => "5xx",
        _ => "1xx",
    };
    metrics::counter!("mainspring_http_requests_total", "status" => class).increment(1);
    if endpoints.engine.is_leaving() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

fn is_reserved(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    first.eq_ignore_ascii_case(RESERVED)
}
