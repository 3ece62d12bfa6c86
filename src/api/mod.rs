//! The REST door: Elsa's routes, casing and envelopes over the [`Engine`].
//!
//! Every request takes the same way in, and each step has a file of its own:
//!
//! ```text
//! connection ─▶ admission ─▶ route ─▶ body ─▶ fields ─▶ engine ─▶ answer
//! (server)      (who may  (404, 405)  (bounds, JSON)  (types)         (or a refusal)
//! ```
//!
//! What holds here, whatever the route:
//!
//! - **A web page cannot drive a local engine.** The name in `Host` must be one of ours (a name that was rebound to
//!   127.0.0.1 is not), a request that a browser calls cross-site is refused even where it is a GET, a GET that acts needs a
//!   sign that no foreign page can give (`page`), and a body must say that it is JSON, which no plain form can. So a
//!   developer's engine needs no key on 127.0.0.1.
//! - **Without a key, little is spent.** A token is verified before anything else of its request is read; such requests have
//!   places and a bound of their own, and what bodies are parsed into is weighed before it is parsed (`weight`).
//! - **Bad input changes nothing and says what is wrong.** All of it is read, bounded and typed before the engine
//!   hears of it. Nothing that the engine cannot store (U+0000, half a surrogate pair) and nothing too deep to walk
//!   gets past `body`.
//! - **Errors have one shape** and are made in one place, `refusal`; every code stands in `docs/api.md`.
//! - **A client that hangs up cancels nothing.** Its handler is dropped; what the engine has accepted goes on, because
//!   the engine's methods promise that.
//!
//! Nothing here knows SQL or holds state beside the engine: any node may answer any request.

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
mod journal;
mod paging;
mod path;
mod versions;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

pub use health::probe_router;

pub use crate::auth::ApiKey;
use crate::http::BodyLimits;
pub use crate::http::{ConnectionLimits, MAX_BODY, serve, serve_within};
use crate::runtime::Engine;

/// Where Elsa's clients expect the API.
const PREFIX: &str = "/elsa/api";

/// How the REST door behaves.
#[derive(Clone)]
pub struct ApiOptions {
    /// The address that the server listens on. Its name and the names of the loopback are admitted in `Host`.
    pub listen: SocketAddr,
    /// Further host names that are admitted, without a port; `*` admits every name.
    pub allowed_hosts: Vec<String>,
    /// The key that every request must show, but for those for health.
    pub api_key: Option<ApiKey>,
    /// Requests that are worked on at the same time; one more is answered with 503. 1,024 unless told otherwise.
    pub requests: usize,
    /// How long a client may take to send its body; 30 s unless told otherwise.
    pub body_timeout: Duration,
    /// What the parsed bodies of all requests may take of the memory, in MiB; 256 unless told otherwise.
    pub body_memory: usize,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 5001)),
            allowed_hosts: Vec::new(),
            api_key: None,
            requests: 1024,
            body_timeout: Duration::from_secs(30),
            body_memory: 256,
        }
    }
}

impl fmt::Debug for ApiOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiOptions")
            .field("listen", &self.listen)
            .field("allowed_hosts", &self.allowed_hosts)
            .field("api_key", &self.api_key)
            .field("requests", &self.requests)
            .field("body_timeout", &self.body_timeout)
            .field("body_memory", &self.body_memory)
            .finish()
    }
}

/// What every handler can reach.
#[derive(Clone)]
struct Api {
    engine: Engine,
    bodies: Arc<BodyLimits>,
    /// No key is asked for.
    is_open: bool,
}

impl Api {
    fn new(engine: Engine, options: &ApiOptions) -> Self {
        Self {
            engine,
            bodies: Arc::new(BodyLimits::new(options.body_timeout, options.body_memory)),
            is_open: options.api_key.is_none(),
        }
    }
}

impl FromRef<Api> for Arc<BodyLimits> {
    fn from_ref(api: &Api) -> Self {
        Arc::clone(&api.bodies)
    }
}

/// The whole API of one engine, to be given to [`serve`] or to be nested in a server of one's own.
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
        .route(
            "/workflow-instances",
            get(instances::list).post(instances::list_or_start),
        )
        .route(
            "/workflow-instances/{id}",
            get(instances::get).delete(instances::delete),
        )
        .route("/bulk-actions/cancel/workflow-instances", post(bulk::cancel))
        .route("/bulk-actions/cancel/workflow-instances/", post(bulk::cancel))
        .route("/bulk-actions/delete/workflow-instances", post(bulk::delete))
        .route("/bulk-actions/delete/workflow-instances/by-id", post(bulk::delete))
        .route(
            "/workflow-instances/{id}/journal",
            get(journal::list).post(journal::filtered),
        )
        .route("/workflow-instances/{id}/resume", post(bookmarks::resume))
        .route("/workflow-instances/{id}/resume-token", post(bookmarks::make))
        .route(
            path::RESUME_BY_QUERY,
            get(bookmarks::by_query).post(bookmarks::by_query),
        )
        .route("/cancel/workflow-instances/{id}", post(instances::cancel))
        .route("/events/{id}/trigger", post(events::trigger))
        .route(
            "/descriptors/workflow-activation-strategies",
            get(descriptors::activation_strategies),
        )
        .merge(operator_routes());
    let leaving = from_fn_with_state(api.engine.clone(), admission::part);
    let routes = Router::new()
        .nest(PREFIX, elsa)
        .route(path::RESUME_BY_PATH, get(bookmarks::by_path).post(bookmarks::by_path))
        .route(path::LIVE, get(health::live))
        .route(path::READY, get(health::ready))
        .with_state(api)
        .layer(leaving);
    protect(routes, options)
}

/// Only health, for a node that does not answer requests: it says so to whoever asks for anything else.
pub fn health_router(engine: Engine, options: ApiOptions) -> Router {
    let api = Api::new(engine, &options);
    Router::new()
        .route(path::LIVE, get(health::live))
        .route(path::READY, get(health::ready))
        .with_state(api)
        .fallback(admission::no_api_here)
        .method_not_allowed_fallback(admission::wrong_method)
        .layer(from_fn_with_state(
            Arc::new(admission::Admission::new(options)),
            admission::pass,
        ))
}

/// What an operator looks at, and does.
fn operator_routes() -> Router<Api> {
    Router::new()
        .route("/cluster/nodes", get(cluster::nodes))
        .route("/cluster/queue", get(cluster::queue))
        .route("/cluster/locks", get(cluster::locks))
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

/// Puts the admission before the routes, and makes what no route answers look like everything else.
fn protect(routes: Router, options: ApiOptions) -> Router {
    routes
        .fallback(admission::no_such_route)
        .method_not_allowed_fallback(admission::wrong_method)
        .layer(from_fn_with_state(
            Arc::new(admission::Admission::new(options)),
            admission::pass,
        ))
}

#[cfg(test)]
mod tests;
