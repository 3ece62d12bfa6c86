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
//! - **A web page cannot drive a local engine.** The name in `Host` must be admitted (a name that was rebound to 127.0.0.1
//!   is not), a cross-site request is rejected even if it is a GET, a GET with side effects needs a header that no foreign
//!   page can send (`auth::cross_site`), and a body must be declared as JSON, which no plain form can. So a developer's
//!   engine needs no key on 127.0.0.1.
//! - **Studio's files are open.** `/studio` holds nothing secret; its page sends the key itself, with each call of the API.
//! - **Without a key, little is spent.** A resume token is verified before anything else of its request is read, and such
//!   requests have permits and a body limit of their own. The memory of a parsed body is reserved before it is parsed.
//! - **Invalid input changes nothing and is reported precisely.** All of it is read, limited and typed before the engine is
//!   called. U+0000, half a surrogate pair and too deep nesting do not pass `http::RequestBody`.
//! - **Errors have one shape**, made by `http::ApiError`; every code is in `docs/api.md`.
//! - **A client that disconnects cancels nothing.** Its handler is dropped; what the engine has accepted goes on, because
//!   the engine's methods promise that.
//!
//! Nothing here knows SQL or holds state besides the engine: any node with the role `api` may serve any request.

mod admission;
mod bookmarks;
mod bulk;
mod cluster;
mod dead_letters;
mod definitions;
mod descriptors;
mod events;
mod execute;
mod fields;
mod health;
mod instances;
mod paging;
mod path;
mod runtime_admin;
mod studio;
mod versions;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

pub use health::probe_router;
pub use studio::Studio;

pub use crate::auth::ApiKey;
use crate::http::BodyLimits;
pub use crate::http::{ConnectionLimits, MAX_BODY, serve, serve_within};
use crate::runtime::Engine;

/// The path prefix that Elsa's clients expect.
const PREFIX: &str = "/elsa/api";

/// The options of the REST API.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// The address that the server listens on. It and the names of the loopback are admitted in `Host`.
    pub listen: SocketAddr,
    /// Further host names that are admitted, without a port; `*` admits every name.
    pub allowed_hosts: Vec<String>,
    /// The origins of pages that may call this server, besides its own: `https://studio.example`.
    pub cors_origins: Vec<String>,
    /// Elsa Studio, which is served at `/studio`.
    pub studio: Option<Studio>,
    /// The key that every request needs, except for the health endpoints and the resume URLs.
    pub api_key: Option<ApiKey>,
    /// The limit of requests in flight; a further one gets 503. Default: 1,024.
    pub max_requests: usize,
    /// How long a client may take to send its body. Default: 30 s.
    pub body_timeout: Duration,
    /// The memory budget of the parsed bodies of all requests, in MiB. Default: 256.
    pub body_memory_mib: usize,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 5001)),
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            studio: None,
            api_key: None,
            max_requests: 1024,
            body_timeout: Duration::from_secs(30),
            body_memory_mib: 256,
        }
    }
}

/// The state of all handlers.
#[derive(Clone)]
struct Api {
    engine: Engine,
    body_limits: Arc<BodyLimits>,
    /// No API key is required.
    is_anonymous: bool,
}

impl Api {
    fn new(engine: Engine, options: &ApiOptions) -> Self {
        Self {
            engine,
            body_limits: Arc::new(BodyLimits::new(options.body_timeout, options.body_memory_mib)),
            is_anonymous: options.api_key.is_none(),
        }
    }
}

impl FromRef<Api> for Arc<BodyLimits> {
    fn from_ref(api: &Api) -> Self {
        Arc::clone(&api.body_limits)
    }
}

/// The whole API of one engine, for [`serve`] or to be nested in a server of one's own.
pub fn router(engine: Engine, options: ApiOptions) -> Router {
    let api = Api::new(engine, &options);
    let elsa = Router::new()
        .route("/workflow-definitions", get(definitions::list).post(definitions::save))
        .route(
            "/workflow-definitions/import",
            post(definitions::import_new).put(definitions::import_new),
        )
        .route(
            "/workflow-definitions/by-definition-id/{id}",
            get(definitions::by_definition_id),
        )
        .route("/workflow-definitions/by-id/{id}", get(definitions::by_version_id))
        .route(
            "/workflow-definitions/{id}",
            get(definitions::by_definition_id).put(definitions::put),
        )
        .route(
            "/workflow-definitions/{id}/import",
            post(definitions::import).put(definitions::import),
        )
        .route("/workflow-definitions/{id}/publish", post(definitions::publish))
        .route(
            "/workflow-definitions/{id}/execute",
            get(execute::execute_by_get).post(execute::execute),
        )
        .route("/workflow-definitions/{id}/dispatch", post(execute::dispatch))
        .merge(instances::routes())
        .route("/bulk-actions/cancel/workflow-instances", post(bulk::cancel))
        .route("/bulk-actions/cancel/workflow-instances/", post(bulk::cancel))
        .route("/bulk-actions/delete/workflow-instances", post(bulk::delete))
        .route("/bulk-actions/delete/workflow-instances/by-id", post(bulk::delete))
        .route("/workflow-instances/{id}/resume", post(bookmarks::resume))
        .route("/workflow-instances/{id}/resume-token", post(bookmarks::create_token))
        .route(
            path::RESUME_BY_QUERY,
            get(bookmarks::by_query).post(bookmarks::by_query),
        )
        .route("/events/{id}/trigger", post(events::trigger))
        .route(
            "/descriptors/workflow-activation-strategies",
            get(descriptors::activation_strategies),
        )
        .merge(operator_routes());
    let leaving = from_fn_with_state(api.engine.clone(), admission::close_when_leaving);
    let routes = Router::new()
        .nest(PREFIX, elsa)
        .route(path::RESUME_BY_PATH, get(bookmarks::by_path).post(bookmarks::by_path))
        .route(path::LIVE, get(health::live))
        .route(path::READY, get(health::ready))
        .with_state(api);
    let routes = match options.studio.clone() {
        Some(studio) => routes.merge(studio::router(studio, options.api_key.is_some())),
        None => routes,
    };
    protect(routes.layer(leaving), options)
}

/// The health endpoints at the address of the API, for a node without the role `api`; any other request gets `no-api-here`.
/// [`probe_router`] serves them at a separate address, before the engine exists.
pub fn health_router(engine: Engine, options: ApiOptions) -> Router {
    let api = Api::new(engine, &options);
    let routes = Router::new()
        .route(path::LIVE, get(health::live))
        .route(path::READY, get(health::ready))
        .with_state(api);
    admit(routes.fallback(admission::no_api_here), options)
}

/// The routes for operators.
fn operator_routes() -> Router<Api> {
    Router::new()
        .route("/admin/workflow-runtime/status", get(runtime_admin::status))
        .route("/admin/workflow-runtime/pause", post(runtime_admin::pause))
        .route("/admin/workflow-runtime/resume", post(runtime_admin::resume))
        .route("/admin/workflow-runtime/force-drain", post(runtime_admin::force_drain))
        .route("/cluster/nodes", get(cluster::nodes))
        .route("/cluster/queue", get(cluster::queue))
        .route("/cluster/locks", get(cluster::locks))
        .route("/cluster/fan-outs", get(cluster::fan_outs))
        .route("/cluster/timers", get(cluster::schedules))
        .route("/cluster/timers/{id}", get(cluster::schedule))
        .route("/cluster/timers/{id}/pause", post(cluster::pause_schedule))
        .route("/cluster/timers/{id}/resume", post(cluster::resume_schedule))
        .route("/cluster/timers/{id}/trigger", post(cluster::trigger_schedule))
        .route("/cluster/dead-letters", get(dead_letters::list))
        .route("/cluster/dead-letters/replay", post(dead_letters::replay_many))
        .route(
            "/cluster/dead-letters/{id}",
            get(dead_letters::get).delete(dead_letters::delete),
        )
        .route("/cluster/dead-letters/{id}/replay", post(dead_letters::replay))
        .route(
            "/bookmark-queue/dead-letters",
            get(dead_letters::elsa_list).post(dead_letters::elsa_list_by_post),
        )
        .route(
            "/bookmark-queue/dead-letters/{id}",
            get(dead_letters::elsa_get).delete(dead_letters::delete),
        )
        .route("/bookmark-queue/dead-letters/{id}/replay", post(dead_letters::replay))
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
