//! How an engine is set up.

use std::sync::Arc;
use std::time::Duration;

use crate::activity::{Activity, Catalogue};
use crate::cluster::election::FiringMode;
use crate::execution::InterpreterOptions;
use crate::id::NodeId;
use crate::lock::LockProvider;
use crate::runtime::context::services::Services;
use crate::runtime::engine::Engine;
use crate::runtime::engine::resume_token::TokenSecret;
use crate::signal::CacheSignal;
use crate::wake::WakeTransport;
use crate::{Error, Result};

/// The longest node id. It stands last in `application_name`, which Postgres cuts at 63 bytes.
const LONGEST_NAME: usize = 100;

/// What a node does in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It answers requests.
    Api,
    /// It runs workflows.
    Worker,
    /// It fires schedules.
    Scheduler,
}

impl Role {
    /// Its name in settings and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) database_url: String,
    pub(crate) schema: String,
    pub(crate) node_id: NodeId,
    pub(crate) migrate: bool,
    pub(crate) workers: usize,
    pub(crate) pool_size: usize,
    pub(crate) check_in: Duration,
    pub(crate) tolerance: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) inbox_lifetime: Duration,
    pub(crate) letter_lifetime: Duration,
    pub(crate) roles: Vec<Role>,
    pub(crate) single_scheduler: bool,
    pub(crate) cache_bytes: usize,
    pub(crate) services: Services,
    pub(crate) token_secret: Option<TokenSecret>,
}

/// Sets up an [`Engine`]. Every setting has a default that suits one node of a small cluster.
pub struct EngineBuilder {
    options: Options,
    catalogue: Catalogue,
    interpreter: InterpreterOptions,
    disabled: Vec<String>,
}

impl Options {
    /// What this node really does, for the others to see: without workers it is none.
    pub(crate) fn tasks(&self) -> Vec<&'static str> {
        let all = [Role::Api, Role::Worker, Role::Scheduler].into_iter();
        let has = |role: &Role| self.roles.contains(role) && (*role != Role::Worker || self.workers > 0);
        all.filter(has).map(Role::as_str).collect()
    }

    pub(crate) fn firing_mode(&self) -> FiringMode {
        match (self.roles.contains(&Role::Scheduler), self.single_scheduler) {
            (false, _) => FiringMode::Off,
            (true, false) => FiringMode::EveryNode,
            (true, true) => FiringMode::Leader,
        }
    }
}

impl EngineBuilder {
    pub(crate) fn new(database_url: String) -> Self {
        Self {
            options: Options {
                database_url,
                schema: "mainspring".to_owned(),
                node_id: NodeId::new(format!(
                    "node-{}",
                    &uuid::Uuid::new_v4().simple().to_string().split_off(20)
                )),
                migrate: true,
                workers: 512,
                pool_size: 8,
                check_in: Duration::from_secs(1),
                tolerance: Duration::from_secs(5),
                answer_timeout: Duration::from_secs(30),
                drain_timeout: Duration::from_secs(20),
                inbox_lifetime: Duration::from_secs(24 * 3600),
                letter_lifetime: Duration::from_secs(30 * 24 * 3600),
                roles: vec![Role::Api, Role::Worker, Role::Scheduler],
                single_scheduler: false,
                cache_bytes: 256 << 20,
                services: Services::default(),
                token_secret: None,
            },
            catalogue: Catalogue::standard(),
            interpreter: InterpreterOptions::default(),
            disabled: Vec::new(),
        }
    }

    /// The schema that everything of ours stands in. Default: `mainspring`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.options.schema = schema.into();
        self
    }

    /// The name of this node. A process that is started again under the same name takes over what the former one left
    /// behind. Default: random.
    pub fn node_id(mut self, node_id: impl Into<String>) -> Self {
        self.options.node_id = NodeId::new(node_id.into());
        self
    }

    /// Whether to bring the schema up to date at the start. Default: yes; else an outdated schema is refused.
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.options.migrate = migrate;
        self
    }

    /// How many bursts run at once. Default: 512; with 0 this node accepts work, and others run it.
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers;
        self
    }

    /// Connections in the pool, beside those that a node always has: five, and more as they are needed. With 1 it accepts
    /// starts over the pooled one, and has no second one for commits. Default: 8.
    pub fn pool_size(mut self, size: usize) -> Self {
        self.options.pool_size = size.max(1);
        self
    }

    /// Between two check-ins. Default: 1 s.
    pub fn check_in(mut self, interval: Duration) -> Self {
        self.options.check_in = interval;
        self
    }

    /// Without a check-in for this long, a node may be declared dead. Default: 5 s.
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.options.tolerance = tolerance;
        self
    }

    /// How long a door waits for its burst before it answers that it is still running. Default: 30 s.
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.options.answer_timeout = timeout;
        self
    }

    /// How long a shutdown waits for the bursts that run. Default: 20 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.options.drain_timeout = timeout;
        self
    }

    /// How long the inbox keeps an event that nothing waited for. Default: 24 h.
    pub fn inbox_lifetime(mut self, lifetime: Duration) -> Self {
        self.options.inbox_lifetime = lifetime;
        self
    }

    /// How long the dead letter of an event is kept that was for somebody and that nothing waited for; other dead letters
    /// stay. Default: 30 days.
    pub fn letter_lifetime(mut self, lifetime: Duration) -> Self {
        self.options.letter_lifetime = lifetime;
        self
    }

    /// How long one call of an activity may take before it is dropped and its execution faults. A type or a definition can
    /// set a limit of its own. Part of [`InterpreterOptions`], which [`EngineBuilder::interpreter`] sets as a whole.
    /// Default: 10 minutes.
    pub fn activity_timeout(mut self, limit: Duration) -> Self {
        self.interpreter.activity_timeout = limit;
        self
    }

    /// Adds an activity of your own; its type can then be used in definitions.
    pub fn activity(mut self, activity: impl Activity) -> Self {
        self.catalogue.register(activity);
        self
    }

    /// Takes an activity type away, whoever has added it: this node runs no version that uses it, and leaves those to the
    /// others. For staged roll-outs, and for tests.
    pub fn disable_activity(mut self, type_name: impl Into<String>) -> Self {
        self.disabled.push(type_name.into());
        self
    }

    /// The bounds of the interpreter, and where `Elsa.WriteLine` writes.
    pub fn interpreter(mut self, options: InterpreterOptions) -> Self {
        self.interpreter = options;
        self
    }

    /// What this node does. Default: everything. Without [`Role::Worker`] it has no workers, whatever else is said;
    /// [`Role::Api`] is for the program, and only shown.
    pub fn roles(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
        self.options.roles = roles.into_iter().collect();
        self
    }

    /// Of all nodes with [`Role::Scheduler`] that are told so, one fires schedules at a time, and another one at once when
    /// it is gone. Default: all fire, and each occurrence fires once all the same.
    pub fn single_scheduler(mut self, single: bool) -> Self {
        self.options.single_scheduler = single;
        self
    }

    /// How many bytes of definitions are kept in memory: three quarters are compiled programs, one is what the API shows of
    /// published ones. What does not fit is read and compiled anew when it is used next. Default: 256 MiB.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.options.cache_bytes = bytes;
        self
    }

    /// What signs the tokens of resume URLs. Default: a key that is made with the schema and stands in the database. All
    /// nodes of a cluster must use the same; another secret makes all tokens worthless that were made before.
    pub fn token_secret(mut self, secret: &str) -> Self {
        self.options.token_secret = Some(TokenSecret::new(secret));
        self
    }

    /// What tells other nodes that work waits. Default: NOTIFY. All nodes of a cluster must use the same; one that hears
    /// nothing finds work at its check-ins.
    pub fn wake(mut self, transport: impl WakeTransport + 'static) -> Self {
        self.options.services.wake = Some(Arc::new(transport));
        self
    }

    /// What tells other nodes to forget what they have cached. Default: NOTIFY. All nodes of a cluster must use the
    /// same; one that hears nothing shows what is old until its next check-in, and never runs it.
    pub fn signal(mut self, signal: impl CacheSignal + 'static) -> Self {
        self.options.services.signal = Some(Arc::new(signal));
        self
    }

    /// Who keeps the locks of instances. Default: advisory locks, over the node's one session. All nodes of a cluster must
    /// use the same. A provider that fails or loses a lock costs time, never correctness: a commit is fenced by the
    /// database whoever holds the lock.
    pub fn locks(mut self, provider: impl LockProvider + 'static) -> Self {
        self.options.services.locks = Some(Arc::new(provider));
        self
    }

    /// Registers with the database and begins to work. Dropped half-way, nothing is left behind but a row in `node`
    /// that expires.
    pub async fn start(mut self) -> Result<Engine> {
        let Options {
            node_id,
            check_in,
            tolerance,
            ..
        } = &self.options;
        let name = node_id.as_str();
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid(
                "invalid-settings",
                format!("the node id {name:?} cannot be used: give 1 to {LONGEST_NAME} visible ASCII characters"),
            ));
        }
        if *tolerance < *check_in * 2 || check_in.is_zero() {
            return Err(Error::invalid(
                "invalid-settings",
                "the tolerance must be at least twice the interval of check-ins: one that is late is no death",
            ));
        }
        if self.interpreter.activity_timeout.is_zero() {
            let message = "the timeout of activities must be longer than nothing";
            return Err(Error::invalid("invalid-settings", message));
        }
        for type_name in &self.disabled {
            if !self.catalogue.remove(type_name) {
                tracing::warn!(type_name, "an activity is disabled that this node does not know anyway");
            }
        }
        if self.options.roles.is_empty() {
            let message = "a node has at least one role: api, worker or scheduler";
            return Err(Error::invalid("invalid-settings", message));
        }
        if !self.options.roles.contains(&Role::Worker) {
            self.options.workers = 0;
        }
        Engine::start(self.options, self.catalogue, self.interpreter).await
    }
}
