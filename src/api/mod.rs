//! Elsa's REST API: its routes, casing and envelopes over the [`Engine`].
//!
//! Every request takes the same path:
//!
//! ```text
//! connection ─▶ admission ─▶ route ─▶ body ─▶ fields ─▶ engine ─▶ response
//! (http)        (auth)       (404, 405)  (http)   (types)           (or `ApiError`)
//! ```
//!
//! Invariants of all routes:
//!
//! - **A web page cannot drive a local engine.** The name in `Host` must be admitted (a name rebound to 127.0.0.1 is not), a
//!   cross-site request is rejected even if it is a GET, a GET with side effects and a form with files need a header that no
//!   foreign page can send (`auth::cross_site`), and any other body must be declared as JSON, which no plain form can do. So
//!   a developer's engine needs no key on 127.0.0.1.
//! - **Who may call what is one table** (`access`), from which admission, the OpenAPI document, the reference and tests are made.
//!   A handler has the engine of its request: in the tenant of the caller, with its changes noted in the audit.
//! - **Studio's files are open.** `/studio` holds nothing secret; its page sends the key itself, with each call of the API.
//! - **Without a key, little is spent.** A resume link is verified before anything else of its request is read, and such
//!   requests have permits and a body limit of their own. The memory of a parsed body is reserved before it is parsed.
//! - **Invalid input changes nothing and is reported precisely.** All input is read, limited and typed before the engine is
//!   called. U+0000, half a surrogate pair and too deep nesting do not pass `http::RequestBody`.
//! - **Errors have one shape**, made by `http::ApiError`; every code is in `docs/reference/rest.md`.
//! - **A client that disconnects cancels nothing.** Its handler is dropped; accepted work continues, because the engine's
//!   methods promise that.
//!
//! Nothing here knows SQL or holds state besides the engine: any node with the role `api` may serve any request.

mod access;
mod activity_executions;
mod admission;
mod alterations;
mod audit;
mod bookmarks;
mod bulk;
mod bulk_dispatch;
mod cluster;
mod dead_letters;
mod definitions;
mod descriptors;
mod events;
mod execute;
mod expressions;
mod fields;
pub(crate) mod files;
mod health;
mod html;
mod hub;
mod identity;
mod instances;
mod links;
mod log_level;
mod metrics;
mod openapi;
mod paging;
mod path;
mod runtime_admin;
mod sign_in;
mod studio;
mod tasks;
mod upload;
mod versions;
mod webhook_deliveries;
mod webhook_sinks;
mod webhooks;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;

pub use health::probe_router;
pub use metrics::MetricsText;
pub use studio::Studio;

use access::Access;
use admission::Admission;

pub use crate::auth::ApiKey;
use crate::auth::{Authenticator, Caller, Issuers, LocalIdentity, Permission, RequestOrigin};
use crate::endpoint::{self, EndpointAdmission, WorkflowEndpoints};
use crate::http::{ApiError, BodyLimits, trace_of};
pub use crate::http::{
    ConnectionLimits, ForwardingHeader, MAX_BODY, ServerOptions, ServerTls, TrustedProxies, serve, serve_within,
};
use crate::openid::DatabaseTime;
pub use crate::openid::{BearerToken, ClaimGrant, CodeFlowOptions, IssuerList, IssuerOptions};
use crate::runtime::Engine;

/// The path prefix that Elsa's clients expect.
const PREFIX: &str = "/elsa/api";

/// The options of the REST API.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// The address that the server listens on. It and the loopback names are admitted in `Host`.
    pub listen: SocketAddr,
    /// Additional host names to admit, without a port; `*` admits every name.
    pub allowed_hosts: Vec<String>,
    /// The origins of pages that may call this server, besides its own, such as `https://studio.example`.
    pub cors_origins: Vec<String>,
    /// Elsa Studio, which is served at `/studio`.
    pub studio: Option<Studio>,
    /// Does not list the feature `RealTimeWorkflowUpdates`: Studio then polls instead of keeping a WebSocket to the hub.
    pub studio_polls: bool,
    /// The key that every request needs, except for the health endpoints and resume links.
    pub api_key: Option<ApiKey>,
    /// The OpenID Connect issuers whose tokens are taken, and that Studio signs in with.
    pub issuers: IssuerList,
    /// The limit of requests in flight; an additional one gets 503. Default: 1,024.
    pub max_requests: usize,
    /// How long a client may take to send its body. Default: 30 s.
    pub body_timeout: Duration,
    /// The memory budget of the parsed bodies of all requests, in MiB. Default: 256.
    pub body_memory_mib: usize,
    /// The largest body of a request to a workflow whose endpoint sets no limit, in MiB. Default: 128.
    pub http_body_mib: usize,
    /// What `GET /metrics` serves: the metrics of the recorder that the program has installed.
    pub metrics: Option<MetricsText>,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 5001)),
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            studio: None,
            studio_polls: false,
            api_key: None,
            issuers: IssuerList::default(),
            max_requests: 1024,
            body_timeout: Duration::from_secs(30),
            body_memory_mib: 256,
            http_body_mib: 128,
            metrics: None,
        }
    }
}

/// The state of all handlers.
#[derive(Clone)]
struct Api {
    engine: Engine,
    body_limits: Arc<BodyLimits>,
    /// Those of events, which anyone may send: they take nothing from requests with a key.
    event_limits: Arc<BodyLimits>,
    /// The activity types of this node, as they are sent.
    descriptors: Arc<descriptors::ActivityDescriptors>,
    /// Who can send requests.
    authenticator: Authenticator,
    /// The server has an API key.
    accepts_key: bool,
    /// The issuers of OpenID Connect, if there are any.
    issuers: Option<Issuers>,
    /// The caller of the request; `None` outside of one, and where the route needs none.
    caller: Option<Arc<Caller>>,
    /// The hub is not listed as a feature.
    studio_polls: bool,
    hub: Arc<hub::HubPermits>,
    metrics: Option<MetricsText>,
}

impl Api {
    fn new(engine: &Engine, options: &ApiOptions, authenticator: &Authenticator, issuers: Option<Issuers>) -> Self {
        Self {
            engine: engine.for_clients(),
            authenticator: authenticator.clone(),
            accepts_key: options.api_key.is_some(),
            issuers,
            caller: None,
            body_limits: Arc::new(BodyLimits::new(options.body_timeout, options.body_memory_mib)),
            event_limits: Arc::new(BodyLimits::of_keyless(options.body_timeout)),
            descriptors: Arc::default(),
            studio_polls: options.studio_polls,
            hub: Arc::default(),
            metrics: options.metrics.clone(),
        }
    }
}

impl Api {
    /// Whether no credential is configured: each request may do everything, but no page of another origin.
    fn is_anonymous(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| caller.is_anonymous())
    }

    /// Refuses a request whose body asks for more than its route does. Errors: 403.
    fn require(&self, any_of: &'static [Permission]) -> Result<(), ApiError> {
        let caller = self.caller.as_ref().ok_or_else(ApiError::internal)?;
        let access = Access::OneOf(any_of);
        if access.admits(caller) {
            return Ok(());
        }
        Err(access.refusal(caller))
    }
}

/// The state for one request: in the tenant of its caller, with its changes noted in the audit.
impl FromRequestParts<Api> for Api {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Api) -> Result<Self, ApiError> {
        // A route without admission in front of it is a defect, which must not pass for a caller with every permission.
        let origin = parts
            .extensions
            .get::<Arc<RequestOrigin>>()
            .ok_or_else(ApiError::internal)?;
        Ok(Self {
            engine: state.engine.for_request(origin).continuing(trace_of(&parts.headers)),
            caller: Some(Arc::clone(&origin.caller)),
            ..state.clone()
        })
    }
}

impl FromRef<Api> for Arc<BodyLimits> {
    fn from_ref(api: &Api) -> Self {
        Arc::clone(&api.body_limits)
    }
}

/// The whole API of one engine, and its workflows behind URLs, for [`serve`] or to be nested in a server of one's own.
pub fn router(engine: Engine, options: ApiOptions) -> Router {
    let issuers = issuers(&engine, &options);
    let authenticator = authenticator(&engine, &options, issuers.clone());
    let api = Api::new(&engine, &options, &authenticator, issuers);
    let endpoints = workflow_endpoints(engine.clone(), &options, &authenticator, &api.body_limits);
    let endpoints = Arc::new(endpoints);
    let leaving = from_fn_with_state(api.engine.clone(), admission::close_when_leaving);
    let routes = Router::from(routes()).merge(hub::socket_route()).with_state(api);
    let routes = match options.studio.clone() {
        Some(studio) => routes.merge(studio::router(studio)),
        None => routes,
    };
    let admission = Admission::new(&options, authenticator, access::find, Some(engine));
    admit(routes.layer(leaving).fallback(admission::no_such_route), admission)
        .layer(from_fn_with_state(endpoints, endpoint::serve))
}

/// What can know the credential of a request.
fn authenticator(engine: &Engine, options: &ApiOptions, issuers: Option<Issuers>) -> Authenticator {
    let local = LocalIdentity::new(engine.clone());
    Authenticator::new(options.api_key.clone(), Some(local), issuers)
}

/// The issuers of the settings, which are read from now on; tokens are compared with the database's clock.
fn issuers(engine: &Engine, options: &ApiOptions) -> Option<Issuers> {
    let clock = engine.for_clients();
    let time: DatabaseTime = Arc::new(move || clock.database_seconds());
    Issuers::start(&options.issuers, &engine.http_services().outgoing, &time)
}

/// What takes the requests below the base path of workflows.
fn workflow_endpoints(
    engine: Engine,
    options: &ApiOptions,
    authenticator: &Authenticator,
    limits: &Arc<BodyLimits>,
) -> WorkflowEndpoints {
    let admission = EndpointAdmission::new(
        options.listen,
        &options.allowed_hosts,
        &options.cors_origins,
        authenticator.clone(),
        options.max_requests,
    );
    let max_body = u64::try_from(options.http_body_mib)
        .unwrap_or(u64::MAX)
        .saturating_mul(1 << 20);
    WorkflowEndpoints::new(engine, admission, Arc::clone(limits), options.body_timeout, max_body)
}

/// All routes but the WebSocket of the hub and the files of Studio, with what the OpenAPI document says of them.
fn routes() -> OpenApiRouter<Api> {
    let elsa = OpenApiRouter::default()
        .merge(definitions::routes())
        .merge(instances::routes())
        .merge(bulk::routes())
        .merge(bulk_dispatch::routes())
        .merge(alterations::routes())
        .merge(activity_executions::routes())
        .merge(execute::routes())
        .merge(descriptors::routes())
        .merge(expressions::routes())
        .merge(runtime_admin::routes())
        .merge(sign_in::routes())
        .merge(bookmarks::routes())
        .merge(links::routes())
        .merge(audit::routes())
        .merge(identity::routes())
        .merge(events::routes())
        .merge(tasks::routes())
        .merge(cluster::routes())
        .merge(log_level::routes())
        .merge(dead_letters::routes())
        .merge(webhook_sinks::routes())
        .merge(webhook_deliveries::routes())
        .merge(webhooks::routes());
    OpenApiRouter::default()
        .nest(PREFIX, elsa)
        .merge(links::url_routes())
        .merge(hub::routes())
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(openapi::routes())
}

/// The health endpoints and the metrics at the address of the API, for a node without the role `api`; any other request gets `no-api-here`.
/// [`probe_router`] serves them at a separate address, before the engine exists.
pub fn health_router(engine: Engine, options: ApiOptions) -> Router {
    // No request here has a token of an issuer, so none of them is asked.
    let authenticator = authenticator(&engine, &options, None);
    let api = Api::new(&engine, &options, &authenticator, None);
    let routes = Router::new()
        .route(path::LIVE, get(health::live))
        .route(path::READY, get(health::ready))
        .route(path::METRICS, get(metrics::read_metrics))
        .with_state(api);
    let admission = Admission::new(&options, authenticator, access::find, Some(engine));
    admit(routes.fallback(admission::no_api_here), admission)
}

/// Puts admission in front of the routes, and adds the fallback for unknown methods.
fn admit(routes: Router, admission: Admission) -> Router {
    routes
        .method_not_allowed_fallback(admission::wrong_method)
        .layer(from_fn_with_state(Arc::new(admission), admission::admit))
}

/// Admission with the static key in front of routes of a test, for each known caller.
#[cfg(test)]
fn protect(routes: Router, options: ApiOptions) -> Router {
    let authenticator = Authenticator::new(options.api_key.clone(), None, None);
    let find = |_: &axum::http::Method, _: &str| access::Found::OtherMethod;
    let admission = Admission::new(&options, authenticator, find, None);
    admit(routes.fallback(admission::no_such_route), admission)
}

#[cfg(test)]
mod tests;
