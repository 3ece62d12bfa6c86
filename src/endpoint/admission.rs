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
use crate::auth::{AllowedHosts, Authenticator, Caller, Credential, Refusal, RefusedKeys, cross_site};
use crate::http::{ApiError, Peer};
use crate::id::TenantId;

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
    authenticator: Authenticator,
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
        authenticator: Authenticator,
        max_requests: usize,
    ) -> Self {
        Self {
            hosts: AllowedHosts::new(listen, allowed_hosts),
            cors: CorsOrigins::new(cors_origins),
            authenticator,
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
    pub(super) fn permit(&self, who: &Requester) -> Result<OwnedSemaphorePermit, ApiError> {
        self.permits.take(who)
    }

    /// A place for a request that waits. Errors: 503.
    pub(super) fn held_permit(&self, who: &Requester) -> Result<OwnedSemaphorePermit, ApiError> {
        self.held_permits.take(who)
    }

    /// Who sends the request. What this server does not know may be for the workflow. A credential of this server that is not good
    /// now is refused at any endpoint: which tenant it is of is not known, and no workflow sees it.
    pub(super) async fn sender(&self, parts: &Parts) -> Result<Requester, Box<Response>> {
        let unknown = Requester::Foreign(Refusal::Unknown.word());
        let Ok(credential) = Credential::of(&parts.headers) else {
            return Ok(unknown);
        };
        let Some(credential) = credential else {
            return Ok(Requester::None);
        };
        match self.authenticator.authenticate(credential).await {
            Ok(Some(caller)) => Ok(Requester::Known(Arc::new(caller))),
            Ok(None) | Err(Refusal::Unknown) => Ok(unknown),
            Err(Refusal::Unavailable(error)) => {
                tracing::warn!(%error, "the credential of a request to a workflow cannot be checked");
                let message = "The credential cannot be checked now; try again.";
                Err(boxed(ApiError::unavailable("credential-unchecked", message)))
            }
            Err(refusal) => Err(self.unauthorized(parts, refusal.word())),
        }
    }

    /// As in Elsa, without a body.
    fn unauthorized(&self, parts: &Parts, why: &'static str) -> Box<Response> {
        let peer = parts.extensions.get::<Peer>();
        self.refused.note(peer.map(|Peer(address)| address.ip()), why);
        let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer, ApiKey"))];
        boxed((StatusCode::UNAUTHORIZED, challenge))
    }

    /// Whether a request has not the credential that this server asks for.
    pub(super) async fn is_stranger(&self, who: &Requester) -> bool {
        // Where it cannot be known whether one is asked for, the request has none that is known either.
        !who.is_known() && self.authenticator.is_required().await.unwrap_or(true)
    }

    /// Checks a request against its route. Without any credential at this server an endpoint that asks for one takes what the
    /// API takes: nothing that a page of another origin sends. The policy of an endpoint is the permission that a caller needs.
    pub(super) async fn authorize(
        &self,
        parts: &Parts,
        who: &Requester,
        options: &RouteOptions,
    ) -> Result<(), Box<Response>> {
        let policy = options.policy.as_deref();
        if !options.authorize && policy.is_none() {
            return Ok(());
        }
        let is_required = self.authenticator.is_required().await;
        if !is_required.map_err(|refusal| boxed(ApiError::from(refusal.into_error())))? {
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
        match who {
            Requester::Known(caller) => permitted(caller, policy),
            Requester::Foreign(why) => Err(self.unauthorized(parts, why)),
            Requester::None => Err(self.unauthorized(parts, "missing")),
        }
    }
}

/// Whether a caller has the permission that a policy names.
fn permitted(caller: &Caller, policy: Option<&str>) -> Result<(), Box<Response>> {
    match policy {
        Some(policy) if !caller.permissions.has(policy) => {
            let message = format!("This endpoint needs the permission {policy}, which this credential does not have.");
            Err(boxed(ApiError::new(
                StatusCode::FORBIDDEN,
                "permission-required",
                message,
            )))
        }
        _ => Ok(()),
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
    fn take(&self, who: &Requester) -> Result<OwnedSemaphorePermit, ApiError> {
        let take = |permits: &Arc<Semaphore>| Arc::clone(permits).try_acquire_owned().ok();
        let taken = take(&self.of_all).or_else(|| take(&self.of_keyed).filter(|_| who.is_known()));
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
#[derive(Clone, Debug)]
pub(super) enum Requester {
    /// A caller of this server.
    Known(Arc<Caller>),
    /// Something that the workflow may know, and why this server does not.
    Foreign(&'static str),
    None,
}

impl Requester {
    pub(super) fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// The tenant whose endpoints the request reaches: that of the caller, or the default one.
    pub(super) fn tenant(&self) -> TenantId {
        match self {
            Self::Known(caller) => caller.tenant.clone(),
            _ => TenantId::default(),
        }
    }

    /// A text that is the same for no other caller: it keeps the answers of callers apart. It discloses no secret of them. A
    /// caller is the same with another token.
    pub(super) fn scope(&self, headers: &HeaderMap) -> String {
        let mut hash = Sha256::new();
        for name in &OF_CALLER {
            hash.update(name.as_str());
            if let Self::Known(caller) = self
                && *name == header::AUTHORIZATION
            {
                for part in [
                    caller.kind.word(),
                    caller.kind.issuer(),
                    caller.tenant.as_str(),
                    caller.id.as_str(),
                ] {
                    hash.update(format!("\n{}:", part.len()));
                    hash.update(part);
                }
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

    fn known(id: &str) -> Requester {
        Requester::Known(Arc::new(Caller {
            id: id.to_owned(),
            ..Caller::static_key()
        }))
    }

    #[test]
    fn requests_without_the_key_leave_permits_for_those_that_have_it() {
        let permits = Permits::new(2);
        let _held = [Requester::None, Requester::Foreign("wrong")].map(|who| permits.take(&who).unwrap());
        let refused = permits.take(&Requester::None).unwrap_err();
        assert_eq!(refused.status_and_code(), (503, "too-many-requests"));
        let keyed: Vec<_> = (0..MIN_KEYED_PERMITS)
            .map(|_| permits.take(&known("")).unwrap())
            .collect();
        assert!(permits.take(&known("")).is_err());
        drop(keyed);
        assert!(permits.take(&known("")).is_ok());
    }
    #[test]
    fn callers_with_different_credentials_have_different_scopes() {
        let scope = |who: Requester, headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            who.scope(&headers.collect())
        };
        let mut scopes = vec![
            scope(Requester::None, &[]),
            scope(known(""), &[("authorization", "ApiKey s")]),
            scope(known("u"), &[("authorization", "ApiKey s")]),
            scope(Requester::Foreign("wrong"), &[("authorization", "key")]),
            scope(Requester::Foreign("wrong"), &[("authorization", "a")]),
            scope(Requester::None, &[("cookie", "a")]),
            scope(Requester::None, &[("x-api-key", "a")]),
            scope(Requester::None, &[("proxy-authorization", "a")]),
            scope(Requester::None, &[("cookie", "a"), ("x-api-key", "a")]),
        ];
        assert_eq!(scope(Requester::None, &[("accept", "a")]), scopes[0]);
        assert_eq!(scope(known("u"), &[("authorization", "Bearer newer")]), scopes[2]);
        scopes.sort();
        scopes.dedup();
        assert_eq!(scopes.len(), 9);
    }
}
