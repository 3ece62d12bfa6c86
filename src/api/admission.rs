//! What every request passes before its route: is it meant for us, does a foreign web page send it, who sends it, and
//! is there room. The routes of health are open, so that a supervisor needs no key and learns nothing of use.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tokio::sync::Semaphore;

use super::ApiOptions;
use super::path;
use crate::auth::{ApiKey, Hosts, cross_site};
use crate::http::ApiError;
use crate::runtime::Engine;

/// For so many places of requests there is one more for requests that show a token and no key.
const TOKEN_SHARE: usize = 8;
/// And at least so many.
const LEAST_TOKEN_PLACES: usize = 16;

/// What the admission checks against.
#[derive(Debug)]
pub(super) struct Admission {
    hosts: Hosts,
    key: Option<ApiKey>,
    room: Semaphore,
    /// Places of requests that show a token and no key: they must not take those of the others.
    token_room: Semaphore,
}

impl Admission {
    pub(super) fn new(options: ApiOptions) -> Self {
        Self {
            hosts: Hosts::new(options.listen, &options.allowed_hosts),
            key: options.api_key,
            room: Semaphore::new(options.requests.min(Semaphore::MAX_PERMITS)),
            token_room: Semaphore::new((options.requests / TOKEN_SHARE).max(LEAST_TOKEN_PLACES)),
        }
    }

    /// Says why a request may not go on.
    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let headers = request.headers();
        let text = |name| {
            headers
                .get(name)
                .map(|value: &HeaderValue| value.to_str().unwrap_or_default())
        };
        // A request line may hold an absolute URL, whose host then counts; no browser does that, so both must be ours.
        let host = text(header::HOST).unwrap_or_default();
        let target = request.uri().authority().map_or(host, |authority| authority.as_str());
        if headers.get_all(header::HOST).iter().count() != 1 || !self.hosts.admits(host) || !self.hosts.admits(target) {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "host-not-allowed",
                "The host that the request names is not one of this server's; call it by its address, or let it start \
                 with --allowed-host and the name.",
            ));
        }
        // A token is all that its URL needs: no key, and from whichever page the link is followed.
        if path::takes_token(request.uri().path()) {
            return Ok(());
        }
        cross_site::refuse_cross_site(headers, &self.hosts, host)?;
        if self.key.as_ref().is_some_and(|key| !key.is_shown(headers)) {
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

/// The middleware around all routes.
pub(super) async fn pass(State(admission): State<Arc<Admission>>, request: Request, next: Next) -> Response {
    if path::is_health(request.uri().path()) {
        return next.run(request).await;
    }
    if let Err(refusal) = admission.check(&request) {
        return refusal.into_response();
    }
    let by_token = path::takes_token(request.uri().path());
    let room = if by_token {
        &admission.token_room
    } else {
        &admission.room
    };
    let Ok(_place) = room.try_acquire() else {
        return ApiError::unavailable(
            "too-many-requests",
            "This server works on as many requests as it may; try again.",
        )
        .into_response();
    };
    // A panic is a defect; it must not look like a broken network to the client.
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!("a request's handler panicked");
            ApiError::internal().into_response()
        }
    }
}

/// A node that is about to stop keeps no connection: whoever comes by one of them would find it closed one day.
pub(super) async fn part(State(engine): State<Engine>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if engine.is_leaving() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Answers what no route answers.
pub(super) async fn no_such_route(request: Request) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "no-such-route",
        format!("There is nothing at {}.", request.uri().path()),
    )
}

/// Answers everything but health where a node has not the role of answering.
pub(super) async fn no_api_here() -> ApiError {
    ApiError::new(
        StatusCode::MISDIRECTED_REQUEST,
        "no-api-here",
        "This node has not the role `api`; ask one that has.",
    )
}

/// Answers a known path with an unknown method.
pub(super) async fn wrong_method(request: Request) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        format!("{} is not possible at {}.", request.method(), request.uri().path()),
    )
}
