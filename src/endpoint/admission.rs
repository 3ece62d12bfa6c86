//! Who may send a request to a workflow, and how many at once.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::activity::http::RouteOptions;
use crate::auth::cors::{self, CorsOrigins};
use crate::auth::{AllowedHosts, ApiKey, RefusedKeys, cross_site};
use crate::http::{ApiError, Peer};

/// Requests that wait for a later burst have permits of their own: this many for each of the others. They hold little.
const HELD_PER_PERMIT: usize = 4;

/// The checks of requests to workflows.
#[derive(Debug)]
pub(crate) struct EndpointAdmission {
    hosts: AllowedHosts,
    cors: CorsOrigins,
    key: Option<ApiKey>,
    refused: RefusedKeys,
    permits: Arc<Semaphore>,
    held_permits: Arc<Semaphore>,
}

impl EndpointAdmission {
    /// `max_requests`: how many are served at once.
    pub(crate) fn new(
        listen: SocketAddr,
        allowed_hosts: &[String],
        cors_origins: &[String],
        key: Option<ApiKey>,
        max_requests: usize,
    ) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            hosts: AllowedHosts::new(listen, allowed_hosts),
            cors: CorsOrigins::new(cors_origins),
            key,
            refused: RefusedKeys::default(),
            permits: permits(max_requests),
            held_permits: permits(max_requests.saturating_mul(HELD_PER_PERMIT)),
        }
    }

    /// Checks what does not depend on a route; returns the host.
    pub(super) fn check_host<'r, B>(&self, request: &'r Request<B>) -> Result<&'r str, ApiError> {
        self.hosts.check(request)
    }

    /// The answer to a browser that asks for a page of an admitted origin whether it may send a request.
    pub(super) fn preflight<B>(&self, request: &Request<B>) -> Option<Response> {
        let is_asked = cors::is_preflight(request.method(), request.headers());
        (is_asked && self.cors.admitted(request.headers()).is_some()).then(cors::preflight)
    }

    /// The origin of a page that may read the answer.
    pub(super) fn origin(&self, parts: &Parts) -> Option<HeaderValue> {
        self.cors.admitted(&parts.headers).cloned()
    }

    /// Lets the page of an admitted origin read the answer.
    pub(super) fn share(&self, origin: Option<HeaderValue>, response: &mut Response) {
        self.cors.share(origin, response.headers_mut());
    }

    /// A place for a request. Errors: 503.
    pub(super) fn permit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        acquire(&self.permits)
    }

    /// A place for a request that waits. Errors: 503.
    pub(super) fn held_permit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        acquire(&self.held_permits)
    }

    /// Who sends the request.
    pub(super) fn credential(&self, parts: &Parts) -> Credential {
        if let Some(key) = &self.key
            && key.matches(&parts.headers)
        {
            return Credential::Key;
        }
        match parts.headers.get(header::AUTHORIZATION) {
            Some(value) => Credential::Foreign(Sha256::digest(value.as_bytes()).into()),
            None => Credential::None,
        }
    }

    /// Checks a request against its route. Without a key at this server an endpoint that asks for a credential takes what the
    /// API takes: nothing that a page of another origin sends.
    pub(super) fn authorize(
        &self,
        parts: &Parts,
        who: &Credential,
        options: &RouteOptions,
    ) -> Result<(), Box<Response>> {
        if options.policy.is_some() {
            let message = "This server knows no policies, and the endpoint asks for one.";
            return Err(Box::new(
                ApiError::new(StatusCode::FORBIDDEN, "policy-unknown", message).into_response(),
            ));
        }
        if !options.authorize {
            return Ok(());
        }
        if self.key.is_none() {
            let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
            if self.cors.admitted(&parts.headers).is_none() {
                cross_site::reject_cross_site(&parts.headers, host.unwrap_or_default()).map_err(boxed)?;
            }
            // A page of another origin can send these without being asked: as links, images and forms.
            if [Method::GET, Method::HEAD, Method::POST].contains(&parts.method) {
                cross_site::reject_forgeable(&parts.headers).map_err(boxed)?;
            }
            return Ok(());
        }
        if *who == Credential::Key {
            return Ok(());
        }
        let kind = if *who == Credential::None { "missing" } else { "wrong" };
        let peer = parts.extensions.get::<Peer>();
        self.refused.note(peer.map(|Peer(address)| address.ip()), kind);
        // As in Elsa, without a body.
        let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey"))];
        Err(boxed((StatusCode::UNAUTHORIZED, challenge)))
    }
}

fn acquire(permits: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(permits).try_acquire_owned().map_err(|_| {
        ApiError::unavailable(
            "too-many-requests",
            "The limit of concurrent requests to workflows is reached; try again.",
        )
    })
}

/// Who sends a request, as far as this server can know. It keeps the answers of callers apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    /// The key of this server.
    Key,
    /// Something that the workflow may know: its hash.
    Foreign([u8; 32]),
    None,
}

impl Credential {
    /// A text that is the same for no other credential.
    pub(super) fn scope(&self) -> String {
        match self {
            Self::Key => "key".to_owned(),
            Self::Foreign(hash) => hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            Self::None => "none".to_owned(),
        }
    }
}

fn boxed(refusal: impl IntoResponse) -> Box<Response> {
    Box::new(refusal.into_response())
}
