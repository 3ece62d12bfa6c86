//! Who may send a request to a workflow, and how many at once.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::activity::http::RouteOptions;
use crate::auth::cors::{self, CorsOrigins};
use crate::auth::{AllowedHosts, ApiKey, RefusedKeys, cross_site};
use crate::http::{ApiError, Peer};

/// Requests that wait for a later burst have permits of their own: this many for each of the others. They hold little.
const HELD_PER_PERMIT: usize = 4;

/// Requests with the key of this server have more permits than the others, which must not use up all: one for this many.
const KEYED_PERMIT_DIVISOR: usize = 8;
/// The least number of these.
const MIN_KEYED_PERMITS: usize = 16;

/// The checks of requests to workflows.
#[derive(Debug)]
pub(crate) struct EndpointAdmission {
    hosts: AllowedHosts,
    cors: CorsOrigins,
    key: Option<ApiKey>,
    refused: RefusedKeys,
    permits: Permits,
    held_permits: Permits,
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
        Self {
            hosts: AllowedHosts::new(listen, allowed_hosts),
            cors: CorsOrigins::new(cors_origins),
            key,
            refused: RefusedKeys::default(),
            permits: Permits::new(max_requests),
            held_permits: Permits::new(max_requests.saturating_mul(HELD_PER_PERMIT)),
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
    pub(super) fn permit(&self, who: &Credential) -> Result<OwnedSemaphorePermit, ApiError> {
        self.permits.take(who)
    }

    /// A place for a request that waits. Errors: 503.
    pub(super) fn held_permit(&self, who: &Credential) -> Result<OwnedSemaphorePermit, ApiError> {
        self.held_permits.take(who)
    }

    /// Who sends the request.
    pub(super) fn credential(&self, parts: &Parts) -> Credential {
        if let Some(key) = &self.key
            && key.matches(&parts.headers)
        {
            return Credential::Key;
        }
        match parts.headers.get(header::AUTHORIZATION) {
            Some(_) => Credential::Foreign,
            None => Credential::None,
        }
    }

    /// Whether a request has not the key that this server asks for.
    pub(super) fn is_stranger(&self, who: &Credential) -> bool {
        self.key.is_some() && *who != Credential::Key
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

/// How many requests are served at once.
#[derive(Debug)]
struct Permits {
    of_all: Arc<Semaphore>,
    /// Those that only a request with the key of this server takes, once the others are taken.
    of_keyed: Arc<Semaphore>,
}

impl Permits {
    fn new(count: usize) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            of_all: permits(count),
            of_keyed: permits((count / KEYED_PERMIT_DIVISOR).max(MIN_KEYED_PERMITS)),
        }
    }

    /// Takes a permit. Errors: 503.
    fn take(&self, who: &Credential) -> Result<OwnedSemaphorePermit, ApiError> {
        let take = |permits: &Arc<Semaphore>| Arc::clone(permits).try_acquire_owned().ok();
        let taken = take(&self.of_all).or_else(|| take(&self.of_keyed).filter(|_| *who == Credential::Key));
        taken.ok_or_else(|| {
            ApiError::unavailable(
                "too-many-requests",
                "The limit of concurrent requests to workflows is reached; try again.",
            )
        })
    }
}

/// The headers by which servers know a caller.
const OF_CALLER: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::COOKIE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
];

/// Who sends a request, as far as this server can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    /// The key of this server.
    Key,
    /// Something that the workflow may know.
    Foreign,
    None,
}

impl Credential {
    /// A text that is the same for no other caller: it keeps the answers of callers apart. It discloses no secret of them.
    pub(super) fn scope(self, headers: &HeaderMap) -> String {
        let mut hash = Sha256::new();
        for name in &OF_CALLER {
            hash.update(name.as_str());
            if self == Self::Key && *name == header::AUTHORIZATION {
                hash.update("\nkey");
                continue;
            }
            for value in headers.get_all(name) {
                // No value has a line feed, and no name a space.
                hash.update("\n ");
                hash.update(value.as_bytes());
            }
            hash.update("\n");
        }
        URL_SAFE_NO_PAD.encode(hash.finalize())
    }
}

fn boxed(refusal: impl IntoResponse) -> Box<Response> {
    Box::new(refusal.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_the_key_leave_permits_for_those_that_have_it() {
        let permits = Permits::new(2);
        let _held = [Credential::None, Credential::Foreign].map(|who| permits.take(&who).unwrap());
        let refused = permits.take(&Credential::None).unwrap_err();
        assert_eq!(refused.status_and_code(), (503, "too-many-requests"));
        let keyed: Vec<_> = (0..MIN_KEYED_PERMITS)
            .map(|_| permits.take(&Credential::Key).unwrap())
            .collect();
        assert!(permits.take(&Credential::Key).is_err());
        drop(keyed);
        assert!(permits.take(&Credential::Key).is_ok());
    }
    #[test]
    fn callers_with_different_credentials_have_different_scopes() {
        let scope = |who: Credential, headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            who.scope(&headers.collect())
        };
        let mut scopes = vec![
            scope(Credential::None, &[]),
            scope(Credential::Key, &[("authorization", "ApiKey s")]),
            scope(Credential::Foreign, &[("authorization", "key")]),
            scope(Credential::Foreign, &[("authorization", "a")]),
            scope(Credential::None, &[("cookie", "a")]),
            scope(Credential::None, &[("x-api-key", "a")]),
            scope(Credential::None, &[("proxy-authorization", "a")]),
            scope(Credential::None, &[("cookie", "a"), ("x-api-key", "a")]),
        ];
        assert_eq!(scope(Credential::None, &[("accept", "a")]), scopes[0]);
        scopes.sort();
        scopes.dedup();
        assert_eq!(scopes.len(), 8);
    }
}
