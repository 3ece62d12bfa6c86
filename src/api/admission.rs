//! Admission of requests, before their handler: the host, the origin, the caller, what the caller may do ([`access`]), and the
//! limit of requests in flight. The health endpoints are open: a supervisor needs no key, and they disclose nothing.
//!
//! A request is in flight until its response has been sent: the permit lives as long as the body, so slow readers count as
//! well.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ApiOptions;
use super::access::{Access, Found, PERMISSION_REQUIRED};
use super::{path, studio};
use crate::auth::cors::{self, CorsOrigins};
use crate::auth::{AllowedHosts, Authenticator, Caller, Credential, Refusal, RefusedKeys, RequestOrigin, cross_site};
use crate::http::{ApiError, ErrorCode, HoldingBody, Peer};
use crate::runtime::Engine;

/// Requests that need no key have permits of their own: one for this many permits of the others.
const KEYLESS_PERMIT_DIVISOR: usize = 8;
/// The least number of permits for them.
const MIN_KEYLESS_PERMITS: usize = 16;

/// How long the readiness waits for who asks.
const HEALTH_TIMEOUT: Duration = Duration::from_millis(250);

/// What finds the access of a route, by its method and the template of its path.
pub(super) type FindAccess = fn(&Method, &str) -> Found;

/// The checks of every request.
pub(super) struct Admission {
    hosts: AllowedHosts,
    cors: CorsOrigins,
    authenticator: Authenticator,
    find_access: FindAccess,
    /// Writes the audit. Tests of admission have none.
    engine: Option<Engine>,
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

/// What is known of a request before its caller is: a request itself is not kept over an await, as its body is not `Sync`.
struct Asked {
    access: Access,
    changes: bool,
    client: Option<IpAddr>,
    method: String,
    /// The template of its path; empty if no route has it.
    template: String,
    /// What its path names.
    target: String,
}

impl Asked {
    /// Where the request of a caller comes from.
    fn origin(&self, caller: &Arc<Caller>) -> RequestOrigin {
        let mut origin = RequestOrigin::new(Arc::clone(caller), self.client, &self.method, &self.template);
        origin.is_reading = !self.changes;
        origin.target.clone_from(&self.target);
        origin
    }
}

impl Admission {
    pub(super) fn new(
        options: &ApiOptions,
        authenticator: Authenticator,
        find_access: FindAccess,
        engine: Option<Engine>,
    ) -> Self {
        let keyless = || {
            let permits = (options.max_requests / KEYLESS_PERMIT_DIVISOR).max(MIN_KEYLESS_PERMITS);
            Arc::new(Semaphore::new(permits))
        };
        Self {
            hosts: AllowedHosts::new(options.listen, &options.allowed_hosts),
            cors: CorsOrigins::new(&options.cors_origins),
            authenticator,
            find_access,
            engine,
            refused: RefusedKeys::default(),
            permits: Arc::new(Semaphore::new(options.max_requests.min(Semaphore::MAX_PERMITS))),
            token_permits: keyless(),
            event_permits: keyless(),
            file_permits: keyless(),
        }
    }

    /// Checks what does not depend on the caller.
    fn check(&self, request: &Request, access: Access) -> Result<(), ApiError> {
        let host = self.hosts.check(request)?;
        let path = request.uri().path();
        // A link to Studio, or to a resume URL, may be on any page.
        let is_linked = studio::is_open(request.method(), path) || path::takes_token(path);
        if !(is_linked && access.is_open()) && self.cors.admitted(request.headers()).is_none() {
            cross_site::reject_cross_site(request.headers(), host)?;
        }
        Ok(())
    }

    /// What the table has for a request. A path that no route has is answered to each caller that is known.
    fn asked(&self, request: &Request) -> Result<Asked, ApiError> {
        let template = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        let (access, changes) = match template.map(|template| (self.find_access)(request.method(), template)) {
            Some(Found::Route(route)) => (route.access, route.changes),
            // 404 and 405 tell a stranger no more than the open routes do.
            Some(Found::OtherMethod) | None if is_open(request) => (Access::Open, false),
            Some(Found::OtherMethod) | None => (Access::Caller, false),
            Some(Found::None) => {
                tracing::error!(
                    path = request.uri().path(),
                    "a route is not in the table of accesses; it is refused"
                );
                return Err(ApiError::internal());
            }
        };
        let template = template.unwrap_or_default();
        let peer = request.extensions().get::<Peer>();
        Ok(Asked {
            access,
            changes,
            client: peer.map(|Peer(address)| address.ip()),
            method: request.method().as_str().to_owned(),
            target: target_of(template, request.uri().path()),
            template: template.to_owned(),
        })
    }

    /// Who sends a request; `None` without a credential where one is needed. Without anything that a credential could be checked by,
    /// each request is one of its caller.
    async fn caller(&self, headers: &HeaderMap) -> Result<Option<Caller>, Refusal> {
        if !self.authenticator.is_required().await? {
            return Ok(Some(Caller::anonymous()));
        }
        match Credential::of(headers)? {
            None => Ok(None),
            Some(credential) => {
                let known = self.authenticator.authenticate(credential).await?;
                known.map(Some).ok_or(Refusal::Unknown)
            }
        }
    }

    /// The caller, if the route has need of one and the caller may use it.
    async fn authorize(&self, headers: &HeaderMap, asked: &Asked) -> Result<Option<Caller>, ApiError> {
        let client = asked.client;
        let caller = match self.caller(headers).await {
            // It is shown more with a credential, and nothing less with a wrong one.
            Ok(caller) if asked.access.is_open() => return Ok(caller),
            // A refresh token is sent to the route that takes it.
            Err(Refusal::WrongUse) if asked.access.is_open() => return Ok(None),
            Err(refusal) if asked.access.is_open() => {
                self.refused.note(client, refusal.word());
                return Ok(None);
            }
            Ok(Some(caller)) => caller,
            Ok(None) => {
                self.refused.note(client, "missing");
                return Err(unauthorized(
                    "Send a credential in the header `Authorization`: `ApiKey KEY` or `Bearer TOKEN`.",
                ));
            }
            Err(Refusal::Unavailable(error)) => return Err(error.into()),
            Err(refusal) => {
                self.refused.note(client, refusal.word());
                return Err(unauthorized(match refusal {
                    Refusal::Expired => "The credential has expired: sign in again, or ask for another key.",
                    Refusal::WrongUse => {
                        "This token is for another use, such as a refresh token that is sent as an access token."
                    }
                    _ => "The credential is wrong, or was revoked: send a key or a token of this server.",
                }));
            }
        };
        if asked.access.admits(&caller) {
            return Ok(Some(caller));
        }
        let refused = asked.access.refusal(&caller);
        if asked.changes
            && let Some(engine) = &self.engine
        {
            let origin = asked.origin(&Arc::new(caller));
            let engine = engine.for_request(&Arc::new(origin));
            engine
                .note_own_request(StatusCode::FORBIDDEN.as_u16(), Some(PERMISSION_REQUIRED))
                .await;
        }
        Err(refused)
    }

    fn permits_of(&self, request: &Request) -> &Arc<Semaphore> {
        let path = request.uri().path();
        if path::is_event(path) {
            &self.event_permits
        } else if path::takes_token(path) || path::is_sign_in(path) || path == path::HUB {
            &self.token_permits
        } else if studio::is_open(request.method(), path) {
            &self.file_permits
        } else {
            &self.permits
        }
    }
}

/// In the extensions of a request: its place among those in flight, which what goes on without its client holds as well.
#[derive(Clone, Debug)]
pub(super) struct RequestPlace {
    _permit: Arc<OwnedSemaphorePermit>,
}

fn unauthorized(message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message).header(header::WWW_AUTHENTICATE, "Bearer, ApiKey")
}

/// Whether a path is one of those whose routes are open, whatever the method.
fn is_open(request: &Request) -> bool {
    let path = request.uri().path();
    studio::is_open(request.method(), path) || path::takes_token(path) || path::is_open(path) || path == path::HUB
}

/// What a path names: the parts in the place of the parameters of its template, decoded.
fn target_of(template: &str, path: &str) -> String {
    let parts = template.split('/').zip(path.split('/'));
    let named = parts.filter(|(part, _)| part.starts_with('{'));
    let decoded = named.map(|(_, value)| {
        percent_encoding::percent_decode_str(value)
            .decode_utf8_lossy()
            .into_owned()
    });
    decoded.collect::<Vec<_>>().join("/")
}

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
    if path::is_health(request.uri().path()) {
        // It is shown more with a credential, and waits for nothing that may be away.
        if request.uri().path() == path::READY {
            let known = tokio::time::timeout(HEALTH_TIMEOUT, admission.caller(request.headers())).await;
            if let Ok(Ok(Some(caller))) = known {
                request.extensions_mut().insert(Arc::new(caller));
            }
        }
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
    let asked = match admission.asked(&request) {
        Ok(asked) => asked,
        Err(error) => return error.into_response(),
    };
    if let Err(error) = admission.check(&request, asked.access) {
        return error.into_response();
    }
    // Before the caller is looked up: what that costs is bounded, too.
    let Ok(permit) = Arc::clone(admission.permits_of(&request)).try_acquire_owned() else {
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
    let origin = match admission.authorize(request.headers(), &asked).await {
        Err(error) => return error.into_response(),
        Ok(None) => None,
        Ok(Some(caller)) => {
            let caller = Arc::new(caller);
            let origin = Arc::new(asked.origin(&caller));
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(Arc::clone(&origin));
            Some(origin)
        }
    };
    let to_note = origin.filter(|_| asked.changes).zip(admission.engine.as_ref());
    let unanswered = to_note.map(|(origin, engine)| Unanswered(Some(engine.for_request(&origin))));
    let served = AssertUnwindSafe(next.run(request)).catch_unwind();
    // A panic is a defect; to the client it must not look like a broken network.
    let response = served.await.unwrap_or_else(|_| {
        tracing::error!("the handler of a request panicked");
        ApiError::internal().into_response()
    });
    if let Some(engine) = unanswered.and_then(Unanswered::answered) {
        let code = response.extensions().get::<ErrorCode>().map(|ErrorCode(code)| *code);
        let status = response.status().as_u16();
        engine.note_own_request(status, code).await;
    }
    response.map(|body| Body::new(HoldingBody::new(body, place)))
}

/// A request that may change something, until it is answered. Dropped before, as its client is gone, it is noted as such.
struct Unanswered(Option<Engine>);

impl Unanswered {
    fn answered(mut self) -> Option<Engine> {
        self.0.take()
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(engine) = &self.0 {
            engine.note_unanswered_request();
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
