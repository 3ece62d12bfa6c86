//! The public methods of the engine, by subject.
//!
//! # Layout
//!
//! - `builder`: settings and start; `supervisor`: registers the node and keeps it registered.
//! - `start`, `resume`, `delete`: requests that change instances; `await_reply`: waits for what becomes of one.
//! - `resume_token`: resumes by a holder of a signed token.
//! - `definitions`, `schedules`, `instances`, `dead_letters`, `cluster_view`: one subject each.
//! - `lock_reports`: answers other nodes that ask for the locks of this one.

mod await_reply;
pub(crate) mod builder;
pub(crate) mod cluster_view;
pub(crate) mod dead_letters;
mod definitions;
mod delete;
mod instances;
mod lock_reports;
mod resume;
pub(crate) mod resume_token;
pub(crate) mod schedules;
mod start;
mod supervisor;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::activity::Catalogue;
use crate::db::{Connector, DatabaseUrl, SchemaName, direct, migrate};
use crate::execution::{Interpreter, InterpreterOptions, check_value};
use crate::id::{NodeId, TenantId};
use crate::runtime::context::node_context::Shift;
use crate::runtime::context::program_cache::Programs;
use crate::runtime::context::request::Readiness;
use crate::runtime::engine::builder::{EngineBuilder, Options, Role};
use crate::runtime::engine::resume_token::RefusedTokens;
use crate::runtime::engine::supervisor::Supervisor;
use crate::{Error, Result};

/// How long the end of a node waits for whoever reads what its workflows wrote.
const CONSOLE_PATIENCE: Duration = Duration::from_millis(200);

/// A node of the cluster, in this process. Cheap to clone; [`Engine::shutdown`] ends it in good order, and lets what its
/// workflows wrote go out; dropping the last clone ends it as a crash would, which is safe and leaves its claims to the next
/// start under its node id.
///
/// All methods are cancellation safe: dropping a future cancels nothing that was accepted.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) interpreter: Interpreter,
    pub(crate) tenant: TenantId,
    current: watch::Receiver<Option<Arc<Shift>>>,
    /// Nothing new is claimed any more; doors are still served.
    leaving: CancellationToken,
    closing: CancellationToken,
    /// The database refuses this node's credentials.
    refused: Arc<AtomicBool>,
    /// How long bursts may go on once the engine is closing.
    patience: Arc<OnceLock<Duration>>,
    /// What signs tokens, once it was read.
    pub(crate) token_key: OnceCell<Vec<u8>>,
    /// Tokens that were refused.
    pub(crate) refused_tokens: RefusedTokens,
    supervisor: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(task) = self.supervisor.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
        if let Some(shift) = self.current.borrow().as_ref() {
            shift.stop.cancel();
        }
    }
}

impl Engine {
    /// Sets up an engine on a database: `postgres://user:password@host:port/name`, with `?sslmode=require` for TLS and
    /// `?password_file=/path` for a password that is read anew for each connection. It
    /// must lead to PostgreSQL itself: a pooler that lends a connection per transaction is refused at the start (code
    /// `pooled-connection`).
    pub fn builder(database_url: impl Into<String>) -> EngineBuilder {
        EngineBuilder::new(database_url.into())
    }

    pub(crate) async fn start(options: Options, catalogue: Catalogue, limits: InterpreterOptions) -> Result<Self> {
        let base = connector(&options.database_url, &options.schema)?;
        direct::verify(&base).await?;
        if options.migrate {
            migrate::run(&base).await?;
        } else {
            migrate::verify(&base).await?;
        }
        let interpreter = Interpreter::new(catalogue, limits);
        let (sender, current) = watch::channel(None);
        let (leaving, closing) = (CancellationToken::new(), CancellationToken::new());
        let (patience, refused) = (Arc::<OnceLock<Duration>>::default(), Arc::<AtomicBool>::default());
        let supervisor = Supervisor {
            base,
            options: options.clone(),
            interpreter: interpreter.clone(),
            programs: Arc::new(Programs::new(options.cache_bytes / 4 * 3)),
            doors: Arc::default(),
            current: sender,
            leaving: leaving.clone(),
            closing: closing.clone(),
            patience: Arc::clone(&patience),
            refused: Arc::clone(&refused),
        };
        let duty = supervisor.register(None).await?;
        let task = tokio::spawn(supervisor.run(duty));
        let inner = Inner {
            options,
            interpreter,
            tenant: TenantId::default(),
            current,
            leaving,
            closing,
            refused,
            patience,
            token_key: OnceCell::new(),
            refused_tokens: RefusedTokens::default(),
            supervisor: Mutex::new(Some(task)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The shift on duty.
    pub(crate) fn shift(&self) -> Result<Arc<Shift>> {
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

    /// The shift on duty, if it takes on anything new and knows that it lives.
    pub(crate) fn accepting(&self) -> Result<Arc<Shift>> {
        let shift = self.shift()?;
        if self.inner.closing.is_cancelled() {
            return Err(Error::unavailable(
                "draining",
                "this node is about to stop; try another one",
            ));
        }
        if !shift.reports.borrow().is_fresh() {
            // Others may have declared it dead by now. Whoever asks can find them sooner than our deadlines end.
            return Err(Error::unavailable(
                "cut-off",
                "this node has not heard from its database for too long; try another one",
            ));
        }
        Ok(shift)
    }

    /// Refuses a value from outside that no instance may hold.
    pub(crate) fn checked(&self, field: &str, value: &impl serde::Serialize) -> Result<()> {
        let value = serde_json::to_value(value).map_err(|error| {
            Error::invalid("invalid-json", format!("{field} cannot be written as JSON")).caused_by(error)
        })?;
        check_value(field, &value, self.inner.interpreter.options().max_value_bytes)
    }

    /// Whether this node can take work: it is registered, not draining, its last check-in is recent, and the database does
    /// not refuse what it does.
    pub fn readiness(&self) -> Readiness {
        let current = self.inner.current.borrow();
        let Some(shift) = current.as_ref() else {
            return Readiness {
                database: false,
                registered: false,
                reason: None,
            };
        };
        Readiness {
            database: shift.reports.borrow().is_fresh(),
            registered: !self.is_leaving() && !shift.stop.is_cancelled(),
            reason: shift.writer.breaker().reason(),
        }
    }

    /// The name of this node.
    pub fn node_id(&self) -> NodeId {
        self.inner.options.node_id.clone()
    }

    /// Announces that this node is about to stop: [`Engine::readiness`] says no and nothing new is claimed, while
    /// requests are still served, for balancers that have not noticed yet. [`Engine::shutdown`] follows. True: there is
    /// another node with the role [`Role::Api`](builder::Role::Api), as this one has, that does not stop itself, so that it is
    /// worth waiting until clients have found it.
    pub fn retreat(&self) -> bool {
        self.inner.leaving.cancel();
        let Ok(shift) = self.shift() else { return false };
        let (has_api_peers, has_worker_peers) = {
            let report = shift.reports.borrow();
            (report.check_in.has_api_peers, report.check_in.has_worker_peers)
        };
        // Where nobody else would do what is asked of it meanwhile, it goes on until the shutdown.
        if has_worker_peers {
            shift.drain();
        }
        has_api_peers && self.inner.options.roles.contains(&Role::Api)
    }

    /// Whether this node is about to stop.
    pub fn is_leaving(&self) -> bool {
        self.inner.leaving.is_cancelled()
    }

    /// Claims nothing new, finishes what runs within the drain timeout, hands the rest back and leaves. Called twice,
    /// or dropped half-way, the shutdown goes on all the same. While it goes on, calls that would begin something are
    /// refused as `draining`; after it every call is, as `engine-stopped` ([`Error::is_stopped`], which is not transient).
    pub async fn shutdown(&self) {
        self.shutdown_within(self.inner.options.drain_timeout).await;
    }

    /// The same with another bound for what runs; the first call counts. Handing back and leaving come after it, and
    /// take milliseconds, or up to some ten seconds while the database does not answer.
    pub async fn shutdown_within(&self, patience: Duration) {
        self.inner.patience.get_or_init(|| patience);
        self.inner.leaving.cancel();
        self.inner.closing.cancel();
        if let Ok(shift) = self.shift() {
            shift.close();
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
        let console = Arc::clone(&self.inner.interpreter.options().console);
        // What workflows said last is heard.
        let _ = tokio::task::spawn_blocking(move || console.flush(CONSOLE_PATIENCE)).await;
    }
}

fn connector(database_url: &str, schema: &str) -> Result<Connector> {
    Connector::new(&DatabaseUrl::parse(database_url)?, &SchemaName::parse(schema)?)
}

/// Brings a schema up to what this library knows; returns what was applied. Any number of processes may do so at once.
pub async fn migrate(database_url: &str, schema: &str) -> Result<Vec<String>> {
    let connector = connector(database_url, schema)?;
    direct::verify(&connector).await?;
    migrate::run(&connector).await
}

/// Proves the invariants of a schema. An empty list is what everybody hopes for.
pub async fn check(database_url: &str, schema: &str) -> Result<Vec<crate::Violation>> {
    let connector = connector(database_url, schema)?;
    migrate::verify(&connector).await?;
    crate::store::check::check(&connector.open().await?.client).await
}
