//! Admission of requests, before their route: the host, the origin, the API key, and the limit of requests in flight. The
//! health endpoints are open: a supervisor needs no key, and they disclose nothing.
//!
//! A request is in flight until its response has been sent: the permit lives as long as the body, so slow readers count as
//! well.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ApiOptions;
use super::{path, studio};
use crate::auth::cors::{self, CorsOrigins};
use crate::auth::{AllowedHosts, ApiKey, RefusedKeys, cross_site};
use crate::http::{ApiError, HoldingBody, Peer};
use crate::runtime::Engine;

/// Requests that need no key have permits of their own: one for this many permits of the others.
const KEYLESS_PERMIT_DIVISOR: usize = 8;
/// The least number of permits for them.
const MIN_KEYLESS_PERMITS: usize = 16;

/// The checks of every request.
#[derive(Debug)]
pub(super) struct Admission {
    hosts: AllowedHosts,
    cors: CorsOrigins,
    key: Option<ApiKey>,
    /// Requests without the right key.
    refused: RefusedKeys,
    permits: Arc<Semaphore>,
    /// The permits of requests with a token and no key, which must not use up those of the others.
    token_permits: Arc<Semaphore>,
    /// Those of events, whose senders are not known before their bodies are read.
    event_permits: Arc<Semaphore>,
    /// Those of requests for the files of Studio: each lasts as long as its client reads, and needs no key.
    file_permits: Arc<Semaphore>,
}

impl Admission {
    pub(super) fn new(options: ApiOptions) -> Self {
        let keyless = || {
            let permits = (options.max_requests / KEYLESS_PERMIT_DIVISOR).max(MIN_KEYLESS_PERMITS);
            Arc::new(Semaphore::new(permits))
        };
        Self {
            hosts: AllowedHosts::new(options.listen, &options.allowed_hosts),
            cors: CorsOrigins::new(&options.cors_origins),
            key: options.api_key,
            refused: RefusedKeys::default(),
            permits: Arc::new(Semaphore::new(options.max_requests.min(Semaphore::MAX_PERMITS))),
            token_permits: keyless(),
            event_permits: keyless(),
            file_permits: keyless(),
        }
    }

    /// Counts a request without the right key.
    fn note_refused(&self, request: &Request, kind: &'static str) {
        let peer = request.extensions().get::<Peer>();
        self.refused.note(peer.map(|Peer(address)| address.ip()), kind);
    }

    /// Returns the reason why a request is not admitted.
    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let host = self.hosts.check(request)?;
        let headers = request.headers();
        if studio::is_open(request.method(), request.uri().path()) {
            return Ok(());
        }
        // A resume URL needs only its token: no key, and a link to it may be on any page.
        if path::takes_token(request.uri().path()) {
            return Ok(());
        }
        if self.cors.admitted(headers).is_none() {
            cross_site::reject_cross_site(headers, host)?;
        }
        // A browser sends no key with a WebSocket: the token in the query stands for it.
        if path::is_open(request.uri().path()) || request.uri().path() == path::HUB {
            return Ok(());
        }
        if self.key.is_some() && request.extensions().get::<ShowsKey>().is_none() {
            if !headers.contains_key(header::AUTHORIZATION) {
                self.note_refused(request, "missing");
            }
            return Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "Send the API key of this server in the header `Authorization: ApiKey KEY`.",
            )
            .header(header::WWW_AUTHENTICATE, "ApiKey"));
        }
        Ok(())
    }
}

/// In the extensions of a request: its place among those in flight, which what goes on without its client holds as well.
#[derive(Clone, Debug)]
pub(super) struct RequestPlace {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// In the extensions of a request that has the key of this server. Routes that need no key answer more to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShowsKey;

/// The middleware around all routes.
pub(super) async fn admit(admission: State<Arc<Admission>>, request: Request, next: Next) -> Response {
    let mut response = admitted(admission, request, next).await;
    let headers = response.headers_mut();
    // The answers of the API are about instances, and may hold what only this caller may read. Studio's files say otherwise.
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn admitted(State(admission): State<Arc<Admission>>, mut request: Request, next: Next) -> Response {
    if let Some(key) = &admission.key {
        if key.matches(request.headers()) {
            request.extensions_mut().insert(ShowsKey);
        } else if request.headers().contains_key(header::AUTHORIZATION) {
            // Also where a request needs no key: it is shown more with one.
            admission.note_refused(&request, "wrong");
        }
    }
    if path::is_health(request.uri().path()) {
        return next.run(request).await;
    }
    let origin = admission.cors.admitted(request.headers()).cloned();
    // A preflight request has no key.
    let mut response = if origin.is_some() && cors::is_preflight(request.method(), request.headers()) {
        let host = admission.hosts.check(&request);
        host.map_or_else(IntoResponse::into_response, |_| cors::preflight())
    } else {
        admit_and_run(&admission, request, next).await
    };
    admission.cors.share(origin, response.headers_mut());
    response
}

async fn admit_and_run(admission: &Admission, mut request: Request, next: Next) -> Response {
    if let Err(error) = admission.check(&request) {
        return error.into_response();
    }
    let by_token = path::takes_token(request.uri().path()) || request.uri().path() == path::HUB;
    let permits = if path::is_event(request.uri().path()) {
        &admission.event_permits
    } else if by_token {
        &admission.token_permits
    } else if studio::is_open(request.method(), request.uri().path()) {
        &admission.file_permits
    } else {
        &admission.permits
    };
    let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
        return ApiError::unavailable(
            "too-many-requests",
            "The limit of concurrent requests is reached; try again.",
        )
        .into_response();
    };
    let place = RequestPlace {
        _permit: Arc::new(permit),
    };
    request.extensions_mut().insert(place.clone());
    // A panic is a defect; to the client it must not look like a broken network.
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response.map(|body| Body::new(HoldingBody::new(body, place))),
        Err(_) => {
            tracing::error!("the handler of a request panicked");
            ApiError::internal().into_response()
        }
    }
}

/// While the node leaves, every response closes its connection, so that no client reuses one that is about to close.
pub(super) async fn close_when_leaving(State(engine): State<Engine>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if engine.is_leaving() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// The fallback for unknown paths.
pub(super) async fn no_such_route(request: Request) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "no-such-route",
        format!("No route has the path {}.", request.uri().path()),
    )
}

/// The fallback of a node without the role `api`.
pub(super) async fn no_api_here() -> ApiError {
    ApiError::new(
        StatusCode::MISDIRECTED_REQUEST,
        "no-api-here",
        "This node does not have the role `api`; call a node that has it.",
    )
}

/// The fallback for a known path with another method.
pub(super) async fn wrong_method(request: Request) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        format!(
            "The path {} does not support {}.",
            request.uri().path(),
            request.method()
        ),
    )
}
