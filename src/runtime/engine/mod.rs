//! The public methods of the engine, by subject.
//!
//! # Layout
//!
//! - `builder`: settings and start; `supervisor`: keeps the node registered; `incarnation`: starts one registration.
//! - `start`, `resume`, `events`, `delete`, `bulk_actions`: requests that change instances; `start_admission`: which node
//!   runs a start; `await_reply`: waits for the result of one. `http_request`: those of HTTP clients, which an activity answers;
//!   `http_end`: what their clients receive.
//! - `resume_links`: makes, lists and revokes them; `link_use`: resumes and events by the holder of one; `link_text`: its form;
//!   `refused_links`: bounds what those cost that cannot be used.
//! - `signed_token`: the form of a token; `connection_token`: opens one connection; `token_keys`: what signs links and tokens.
//! - `audit`: what was done and tried from outside; `refused_requests`: bounds what is noted of those that are refused. `identity`:
//!   users, roles, applications, and the tokens of users.
//! - `tasks`: the tasks that wait, and their results.
//! - `bulk_dispatch`: starts of many instances.
//! - `definitions`, `schedules`, `instances`, `instance_list`, `journal`, `activity_executions`, `dead_letters`,
//!   `cluster_view`: one subject each.
//! - `transfer`: exports and imports of instances; `variables`: the execution state and the variables of an instance;
//!   `retry`: faulted activities are executed again; `alter`: changes between two bursts, for both.
//! - `accept_trace`: the traces of callers. `observe`: the observers of commits.
//! - `pause`: the pause of the whole cluster. `doctor`: what is wrong with it.
//! - `activity_test`: runs one activity; `designer`: the other queries of designers.
//! - `webhook_sinks`, `webhook_deliveries`: the receivers of events, and what was sent to them; `webhook_events`: the events that
//!   sources send.
//! - `http_routes`: which endpoint an HTTP request is for.
//! - `tests`: requests to engines of one process.
//! - `lock_reports`, `cache_invalidation`, `log_levels`: what other nodes ask for and change; `service_domains`: whether nodes have
//!   the same services; `identity_settings`: whether they admit the same callers; `gauges`: what a node knows without asking.

mod accept_trace;
pub(crate) mod activity_executions;
pub(crate) mod activity_test;
mod alter;
pub(crate) mod audit;
mod await_reply;
pub(crate) mod builder;
pub(crate) mod bulk_actions;
mod bulk_dispatch;
mod cache_invalidation;
pub(crate) mod cluster_view;
pub(crate) mod connection_token;
pub(crate) mod dead_letters;
pub(crate) mod definitions;
mod delete;
mod designer;
#[cfg(feature = "cli")]
pub(crate) mod doctor;
mod events;
mod gauges;
#[cfg(feature = "http")]
mod http_end;
#[cfg(feature = "http")]
pub(crate) mod http_request;
#[cfg(feature = "http")]
pub(crate) mod http_routes;
#[cfg(feature = "http")]
pub(crate) mod identity;
mod identity_settings;
mod incarnation;
mod instance_list;
mod instances;
pub(crate) mod journal;
mod link_text;
pub(crate) mod link_use;
mod lock_reports;
pub(crate) mod log_levels;
pub(crate) mod observe;
pub(crate) mod pause;
mod refused_links;
#[cfg(feature = "http")]
mod refused_requests;
mod resume;
pub(crate) mod resume_links;
pub(crate) mod retry;
pub(crate) mod schedules;
mod service_domains;
mod signed_token;
mod start;
mod start_admission;
mod supervisor;
pub(crate) mod tasks;
#[cfg(test)]
#[cfg(feature = "http")]
mod tests;
pub(crate) mod token_keys;
pub(crate) mod transfer;
pub(crate) mod variables;
#[cfg(feature = "http")]
pub(crate) mod webhook_deliveries;
#[cfg(feature = "http")]
pub(crate) mod webhook_events;
#[cfg(feature = "http")]
pub(crate) mod webhook_sinks;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use builder::EngineBuilder;
use incarnation::Shared;
use refused_links::RefusedLinks;
use signed_token::RefusedTokens;
use supervisor::Supervisor;

use crate::activity::Catalogue;
#[cfg(feature = "http")]
use crate::activity::http::HttpServices;
use crate::db::{Connector, DatabaseUrl, Pool, SchemaName, direct, migrate};
use crate::execution::{Interpreter, InterpreterOptions, check_value};
use crate::expression::ResumeLinks;
use crate::id::{NodeId, TenantId};
use crate::identity::RequestOrigin;
use crate::metric;
#[cfg(feature = "http")]
use crate::runtime::context::known_callers::KnownCallers;
use crate::runtime::context::known_sample::KnownSample;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::observed::Observed;
use crate::runtime::context::program_cache::ProgramCache;
use crate::runtime::context::request::Readiness;
use crate::runtime::context::settings::{Role, Settings};
use crate::runtime::context::token_keys::TokenKeys;
#[cfg(feature = "http")]
use crate::store::pause::PauseMode;
use crate::trace::TraceContext;
use crate::watchdog::{self, Hang, Part, Watchdog, WatchdogOptions, WatchdogThread};
use crate::{Error, Result};

/// How long a shutdown waits until the output of workflows is written.
const CONSOLE_TIMEOUT: Duration = Duration::from_millis(200);

/// A node of the cluster, in this process. Cheap to clone. [`Engine::shutdown`] ends it in good order; dropping the last
/// clone ends it like a crash, which is safe. All methods are cancellation safe: dropping a future cancels no accepted work.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    /// It refuses changes of definitions that are read-only or belong to the system.
    guards_readonly: bool,
    /// Whose rows it reads and writes.
    pub(crate) tenant: TenantId,
    /// The request that it serves: its changes are noted in the audit.
    origin: Option<Arc<RequestOrigin>>,
    /// The trace that its requests belong to.
    trace: Option<TraceContext>,
}

pub(crate) struct Inner {
    pub(super) settings: Settings,
    pub(crate) interpreter: Interpreter,
    current: watch::Receiver<Option<Arc<NodeContext>>>,
    observed: Arc<Observed>,
    /// Nothing new is claimed; requests are still served.
    leaving: CancellationToken,
    /// Requests that would begin something are refused, while what was accepted goes on.
    refuses: AtomicBool,
    closing: CancellationToken,
    /// The database refuses this node's credentials.
    refused: Arc<AtomicBool>,
    /// How long bursts may continue during the shutdown.
    drain_timeout: Arc<OnceLock<Duration>>,
    /// The keys that sign links and tokens.
    pub(crate) token_keys: Arc<TokenKeys>,
    /// Counts refused tokens.
    pub(crate) refused_tokens: RefusedTokens,
    /// Counts attempts at links that cannot be used.
    pub(super) refused_links: RefusedLinks,
    /// Bounds what is noted of refused requests.
    #[cfg(feature = "http")]
    refused_requests: refused_requests::RefusedRequests,
    /// Counts webhooks that were ignored or refused.
    #[cfg(feature = "http")]
    refused_webhooks: webhook_events::RefusedWebhooks,
    /// Counts passwords and refresh tokens that were refused.
    #[cfg(feature = "http")]
    pub(super) refused_sign_ins: identity::sign_in::RefusedSignIns,
    /// Applications and sessions that were seen.
    #[cfg(feature = "http")]
    pub(super) known_callers: Arc<KnownCallers>,
    /// Tests of activities and of expressions that may run.
    tests: Semaphore,
    /// One refresh of all definitions at a time.
    refreshes: Arc<Semaphore>,
    supervisor: Mutex<Option<tokio::task::JoinHandle<()>>>,
    /// It ends with the supervisor.
    _gauges: AbortOnDropHandle<()>,
    watchdog: Watchdog,
    /// `None` after the engine was shut down.
    watchdog_thread: Mutex<Option<WatchdogThread>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(task) = self.supervisor.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
        if let Some(node) = self.current.borrow().as_ref() {
            node.lifecycle.stop.cancel();
        }
    }
}

impl Engine {
    /// Sets up an engine on a database: `postgres://user:password@host:port/name`, with `?sslmode=require` for TLS and
    /// `?password_file=/path` for a password that is read again for each connection. It must lead to PostgreSQL itself: a
    /// transaction pooler is refused at the start (code `pooled-connection`).
    pub fn builder(database_url: impl Into<String>) -> EngineBuilder {
        EngineBuilder::new(database_url.into())
    }

    pub(crate) async fn start(
        settings: Settings,
        catalogue: Catalogue,
        mut limits: InterpreterOptions,
    ) -> Result<Self> {
        let base = connector(&settings.database_url, &settings.schema)?;
        direct::verify(&base).await?;
        if settings.migrate {
            migrate::run(&base).await?;
        } else {
            migrate::verify(&base).await?;
        }
        // Options can be cloned for several engines; each signs with the key of its own cluster.
        limits.script.links = ResumeLinks::default();
        let options = WatchdogOptions {
            tolerance: settings.tolerance,
            longest_burst: limits.activity_timeout,
            on_hang: settings.on_hang.clone(),
        };
        let (watchdog, watchdog_thread) = watchdog::start(options)?;
        let interpreter = Interpreter::new(catalogue, limits);
        let (sender, current) = watch::channel(None);
        let (leaving, closing) = (CancellationToken::new(), CancellationToken::new());
        let (drain_timeout, refused) = (Arc::<OnceLock<Duration>>::default(), Arc::<AtomicBool>::default());
        let programs = ProgramCache::new(settings.cache_bytes / 4 * 3);
        let observed = Arc::<Observed>::default();
        let token_keys = Arc::new(TokenKeys::new(settings.token_secret.clone()));
        let sample = settings.samples_cluster.then(Arc::<KnownSample>::default);
        metric::register();
        let supervisor = Supervisor {
            base,
            watched: watchdog.watch(Part::Supervisor, None),
            shared: Shared {
                settings: settings.clone(),
                interpreter: interpreter.clone(),
                programs: Arc::new(programs),
                replies: Arc::default(),
                requests: Arc::default(),
                observed: Arc::clone(&observed),
                token_keys: Arc::clone(&token_keys),
                sample: sample.clone(),
                watchdog: watchdog.clone(),
            },
            current: sender,
            leaving: leaving.clone(),
            closing: closing.clone(),
            drain_timeout: Arc::clone(&drain_timeout),
            refused: Arc::clone(&refused),
        };
        let watched = supervisor.watched.clone();
        let running = watched.idle(supervisor.register(None)).await?;
        let task = tokio::spawn(supervisor.run(running));
        let gauges = AbortOnDropHandle::new(tokio::spawn(gauges::keep(current.clone(), sample)));
        let inner = Inner {
            settings,
            interpreter,
            current,
            observed,
            leaving,
            refuses: AtomicBool::new(false),
            closing,
            refused,
            drain_timeout,
            token_keys,
            refused_tokens: RefusedTokens::default(),
            refused_links: RefusedLinks::default(),
            #[cfg(feature = "http")]
            refused_requests: refused_requests::RefusedRequests::default(),
            #[cfg(feature = "http")]
            refused_webhooks: webhook_events::RefusedWebhooks::default(),
            #[cfg(feature = "http")]
            refused_sign_ins: identity::sign_in::RefusedSignIns::default(),
            #[cfg(feature = "http")]
            known_callers: Arc::default(),
            tests: Semaphore::new(activity_test::MOST_TESTS),
            refreshes: Arc::new(Semaphore::new(1)),
            supervisor: Mutex::new(Some(task)),
            _gauges: gauges,
            watchdog,
            watchdog_thread: Mutex::new(Some(watchdog_thread)),
        };
        let engine = Self {
            inner: Arc::new(inner),
            guards_readonly: false,
            tenant: TenantId::default(),
            origin: None,
            trace: None,
        };
        if let Err(error) = engine.sign_links().await {
            engine.shutdown().await;
            return Err(error);
        }
        #[cfg(feature = "http")]
        if let Err(error) = engine.configure_webhooks().await {
            engine.shutdown().await;
            return Err(error);
        }
        #[cfg(feature = "http")]
        if let Err(error) = engine.add_first_administrator().await {
            engine.shutdown().await;
            return Err(error);
        }
        Ok(engine)
    }

    /// The same engine for requests of clients, which may not change a definition that is read-only or belongs to the
    /// system; a program may.
    #[cfg(feature = "http")]
    pub(crate) fn for_clients(&self) -> Self {
        Self {
            guards_readonly: true,
            ..self.clone()
        }
    }

    /// The same engine for another tenant: nothing of one tenant is visible to, or changed by, another one. What it starts
    /// (instances, timers, children, bulk actions) belongs to that tenant.
    pub fn for_tenant(&self, tenant: TenantId) -> Self {
        Self { tenant, ..self.clone() }
    }

    /// The same engine for one request: in the tenant of its caller, with its changes noted in the audit.
    #[cfg(feature = "http")]
    pub(crate) fn for_request(&self, origin: &Arc<RequestOrigin>) -> Self {
        Self {
            tenant: origin.caller.tenant.clone(),
            origin: Some(Arc::clone(origin)),
            ..self.clone()
        }
    }

    /// The context of the current incarnation.
    pub(super) fn node(&self) -> Result<Arc<NodeContext>> {
        self.inner.current.borrow().clone().ok_or_else(|| {
            if self.inner.closing.is_cancelled() {
                return Error::stopped("this engine was shut down; start another one, or ask another node");
            }
            if self.inner.refused.load(Ordering::Relaxed) {
                return Error::unavailable(
                    "database-refused",
                    "the database refuses this node's user or password; ask another node",
                );
            }
            Error::unavailable(
                "not-registered",
                "this node is not registered with the database just now; try again",
            )
        })
    }

    /// The same, if it accepts new work and its last check-in is recent.
    pub(super) fn accepting(&self) -> Result<Arc<NodeContext>> {
        let node = self.node()?;
        if self.inner.closing.is_cancelled() || self.inner.refuses.load(Ordering::Relaxed) {
            return Err(Error::unavailable(
                "draining",
                "this node is about to stop; try another one",
            ));
        }
        if !node.lifecycle.reports.borrow().is_fresh() {
            // It may have expired. The caller can ask another node sooner than the request here would time out.
            return Err(Error::unavailable(
                "cut-off",
                "this node has received nothing from its database for too long; try another one",
            ));
        }
        Ok(node)
    }

    /// Refuses a value from outside that an instance must not have.
    pub(crate) fn checked(&self, field: &str, value: &impl serde::Serialize) -> Result<()> {
        let value = serde_json::to_value(value).map_err(|error| {
            Error::invalid("invalid-json", format!("{field} cannot be written as JSON")).caused_by(error)
        })?;
        check_value(field, &value, self.inner.interpreter.options().max_value_bytes)
    }

    /// What the HTTP activities of this node share.
    #[cfg(feature = "http")]
    pub(crate) fn http_services(&self) -> &Arc<HttpServices> {
        self.inner.interpreter.catalogue().http_services()
    }

    /// How long a request waits for its burst.
    #[cfg(feature = "http")]
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.inner.settings.answer_timeout
    }

    /// The largest value of a workflow, in bytes.
    #[cfg(feature = "http")]
    pub(crate) fn max_value_bytes(&self) -> u64 {
        let bytes = self.inner.interpreter.options().max_value_bytes;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The pause of the cluster, as far as this node knows; `None` if it is not registered.
    #[cfg(feature = "http")]
    pub(crate) fn pause_mode(&self) -> Option<PauseMode> {
        Some(self.node().ok()?.pause.mode())
    }

    /// The time by the database's clock, in seconds since 1970, without a statement; `None` if this node is not registered.
    #[cfg(feature = "http")]
    pub(crate) fn database_seconds(&self) -> Option<i64> {
        Some(self.node().ok()?.database_now().timestamp())
    }

    /// Whether this node accepts work: it is registered and not draining, its last check-in is recent, the database does not
    /// refuse its commits, and each part of it has answered within half of the tolerance.
    pub fn readiness(&self) -> Readiness {
        let unresponsive = self.inner.watchdog.unresponsive().map(|part| part.to_string());
        let current = self.inner.current.borrow();
        let Some(node) = current.as_ref() else {
            return Readiness {
                database: false,
                registered: false,
                reason: unresponsive,
                away: Vec::new(),
                causes: BTreeMap::new(),
            };
        };
        Readiness {
            database: node.lifecycle.reports.borrow().is_fresh(),
            registered: !self.is_leaving() && !node.lifecycle.stop.is_cancelled(),
            reason: unresponsive
                .or_else(|| node.locks.session.full_table())
                .or_else(|| node.commits.writer.breaker().reason()),
            away: node.services_away(),
            causes: node.causes_of_away(),
        }
    }

    /// Why this node hangs, if it does: a part of it has not answered for the tolerance. Its registration is then over, and
    /// other nodes take over; it registers again once the part answers. A program that cannot wait for that ends its
    /// process, see [`EngineBuilder::on_hang`]. Call this from a thread of another runtime.
    pub fn hang(&self) -> Option<Hang> {
        self.inner.watchdog.hang()
    }

    /// Returns when eight threads of this process hang in scripts whose native code cannot be interrupted. Such a thread
    /// ends only with its process, so a program then shuts down its engine ([`Engine::shutdown`]) and ends: other nodes, or
    /// its next start, run what is left. Until then bursts whose scripts find no thread are deferred. Cancellation safe.
    pub async fn scripts_exhausted(&self) {
        self.inner.interpreter.scripts_exhausted().await;
    }

    /// The name of this node.
    pub fn node_id(&self) -> NodeId {
        self.inner.settings.node_id.clone()
    }

    /// Begins to drain before a shutdown: [`Engine::readiness`] reports that, and nothing new is claimed, while requests are
    /// still served until load balancers have noticed. [`Engine::shutdown`] follows. Returns true if this node and another
    /// one that does not drain have the role [`Role::Api`], so that it is worth waiting until clients use the other one.
    pub fn begin_drain(&self) -> bool {
        self.inner.leaving.cancel();
        let Ok(node) = self.node() else { return false };
        let (has_api_peers, has_worker_peers) = {
            let report = node.lifecycle.reports.borrow();
            (report.check_in.has_api_peers, report.check_in.has_worker_peers)
        };
        // Without another worker it continues until the shutdown.
        if has_worker_peers {
            node.begin_drain();
        }
        has_api_peers && self.inner.settings.roles.contains(&Role::Api)
    }

    /// Refuses what would begin something as `draining`, while what was accepted goes on as if the node did not stop:
    /// where no other node serves, clients have to come back. [`Engine::shutdown`] follows.
    #[cfg(feature = "cli")]
    pub(crate) fn refuse_new(&self) {
        self.inner.refuses.store(true, Ordering::Relaxed);
    }

    /// Whether this node is about to stop.
    pub fn is_leaving(&self) -> bool {
        self.inner.leaving.is_cancelled()
    }

    /// Claims nothing new, finishes running bursts within the drain timeout, releases the other claims and leaves. If it is
    /// called twice, or dropped halfway, the shutdown still continues. In the meantime calls that would begin something are
    /// refused as `draining`; afterwards every call is refused as `engine-stopped` ([`Error::is_stopped`], which is not
    /// transient).
    pub async fn shutdown(&self) {
        self.shutdown_within(self.inner.settings.drain_timeout).await;
    }

    /// The same with another drain timeout; the first call counts. Releasing claims and leaving come after it, and take
    /// milliseconds, or up to about ten seconds while the database does not answer.
    pub async fn shutdown_within(&self, drain_timeout: Duration) {
        self.inner.drain_timeout.get_or_init(|| drain_timeout);
        self.inner.leaving.cancel();
        self.inner.closing.cancel();
        if let Ok(node) = self.node() {
            node.lifecycle.close();
        }
        let task = self
            .inner
            .supervisor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the supervisor failed");
        }
        let watchdog_thread = self.inner.watchdog_thread.lock();
        drop(watchdog_thread.unwrap_or_else(PoisonError::into_inner).take());
        let console = Arc::clone(&self.inner.interpreter.options().console);
        // The last output of workflows is written.
        let _ = tokio::task::spawn_blocking(move || console.flush(CONSOLE_TIMEOUT)).await;
    }
}

fn connector(database_url: &str, schema: &str) -> Result<Connector> {
    Connector::new(&DatabaseUrl::parse(database_url)?, &SchemaName::parse(schema)?)
}

/// A connection for what a program does without a node.
async fn lone_pool(database_url: &str, schema: &str) -> Result<Pool> {
    let connector = connector(database_url, schema)?;
    migrate::verify(&connector).await?;
    Pool::new(&connector, 1)
}

/// Migrates a schema to the version of this library; returns what was applied. Any number of processes may do so at once.
pub async fn migrate(database_url: &str, schema: &str) -> Result<Vec<String>> {
    let connector = connector(database_url, schema)?;
    direct::verify(&connector).await?;
    migrate::run(&connector).await
}

/// Makes or renews the views by the names of Elsa's tables.
#[cfg(feature = "cli")]
pub(crate) async fn make_elsa_views(database_url: &str, schema: &str) -> Result<()> {
    let connector = connector(database_url, schema)?;
    crate::store::elsa_views::make(&connector.open().await?.client).await
}

/// Checks the invariants of a schema; returns the violations.
pub async fn check(database_url: &str, schema: &str) -> Result<Vec<crate::Violation>> {
    let connector = connector(database_url, schema)?;
    migrate::verify(&connector).await?;
    crate::store::check::check(&connector.open().await?.client).await
}
