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
mod instances;
mod links;
mod openapi;
mod paging;
mod path;
mod runtime_admin;
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
use axum::extract::FromRef;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;

pub use health::probe_router;
pub use studio::Studio;

pub use crate::auth::ApiKey;
use crate::endpoint::{self, EndpointAdmission, WorkflowEndpoints};
use crate::http::BodyLimits;
pub use crate::http::{ConnectionLimits, MAX_BODY, serve, serve_within};
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
    /// The limit of requests in flight; an additional one gets 503. Default: 1,024.
    pub max_requests: usize,
    /// How long a client may take to send its body. Default: 30 s.
    pub body_timeout: Duration,
    /// The memory budget of the parsed bodies of all requests, in MiB. Default: 256.
    pub body_memory_mib: usize,
    /// The largest body of a request to a workflow whose endpoint sets no limit, in MiB. Default: 128.
    pub http_body_mib: usize,
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
            max_requests: 1024,
            body_timeout: Duration::from_secs(30),
            body_memory_mib: 256,
            http_body_mib: 128,
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
    /// No API key is required.
    is_anonymous: bool,
    /// The hub is not listed as a feature.
    studio_polls: bool,
    hub: Arc<hub::HubPermits>,
}

impl Api {
    fn new(engine: &Engine, options: &ApiOptions) -> Self {
        Self {
            engine: engine.for_clients(),
            body_limits: Arc::new(BodyLimits::new(options.body_timeout, options.body_memory_mib)),
            event_limits: Arc::new(BodyLimits::of_keyless(options.body_timeout)),
            descriptors: Arc::default(),
            is_anonymous: options.api_key.is_none(),
            studio_polls: options.studio_polls,
            hub: Arc::default(),
        }
    }
}

impl FromRef<Api> for Arc<BodyLimits> {
    fn from_ref(api: &Api) -> Self {
        Arc::clone(&api.body_limits)
    }
}

/// The whole API of one engine, and its workflows behind URLs, for [`serve`] or to be nested in a server of one's own.
pub fn router(engine: Engine, options: ApiOptions) -> Router {
    let api = Api::new(&engine, &options);
    let endpoints = Arc::new(workflow_endpoints(engine, &options, &api.body_limits));
    let leaving = from_fn_with_state(api.engine.clone(), admission::close_when_leaving);
    let routes = Router::from(routes()).merge(hub::socket_route()).with_state(api);
    let routes = match options.studio.clone() {
        Some(studio) => routes.merge(studio::router(studio, options.api_key.is_some())),
        None => routes,
    };
    protect(routes.layer(leaving), options).layer(from_fn_with_state(endpoints, endpoint::serve))
}

/// What takes the requests below the base path of workflows.
fn workflow_endpoints(engine: Engine, options: &ApiOptions, limits: &Arc<BodyLimits>) -> WorkflowEndpoints {
    let admission = EndpointAdmission::new(
        options.listen,
        &options.allowed_hosts,
        &options.cors_origins,
        options.api_key.clone(),
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
        .merge(bookmarks::routes())
        .merge(links::routes())
        .merge(audit::routes())
        .merge(events::routes())
        .merge(tasks::routes())
        .merge(cluster::routes())
        .merge(dead_letters::routes())
        .merge(webhook_sinks::routes())
        .merge(webhook_deliveries::routes())
        .merge(webhooks::routes());
    OpenApiRouter::default()
        .nest(PREFIX, elsa)
        .merge(links::url_routes())
        .merge(hub::routes())
        .merge(health::routes())
        .merge(openapi::routes())
}

/// The health endpoints at the address of the API, for a node without the role `api`; any other request gets `no-api-here`.
/// [`probe_router`] serves them at a separate address, before the engine exists.
pub fn health_router(engine: Engine, options: ApiOptions) -> Router {
    let api = Api::new(&engine, &options);
    let routes = Router::new()
        .route(path::LIVE, get(health::live))
        .route(path::READY, get(health::ready))
        .with_state(api);
    admit(routes.fallback(admission::no_api_here), options)
}

/// Puts admission in front of the routes, and adds the fallbacks for unknown paths and methods.
fn protect(routes: Router, options: ApiOptions) -> Router {
    admit(routes.fallback(admission::no_such_route), options)
}

fn admit(routes: Router, options: ApiOptions) -> Router {
    routes
        .method_not_allowed_fallback(admission::wrong_method)
        .layer(from_fn_with_state(
            Arc::new(admission::Admission::new(options)),
            admission::admit,
        ))
}

#[cfg(test)]
mod tests;
