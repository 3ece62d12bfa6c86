//! How an engine is set up.

use std::time::Duration;

use super::Engine;
use crate::activity::{Activity, Catalogue};
use crate::execution::InterpreterOptions;
use crate::id::NodeId;
use crate::{Error, Result};

/// The longest node id. It stands last in `application_name`, which Postgres cuts at 63 bytes.
const LONGEST_NAME: usize = 100;

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) database_url: String,
    pub(super) schema: String,
    pub(super) node_id: NodeId,
    pub(super) migrate: bool,
    pub(super) workers: usize,
    pub(super) pool_size: usize,
    pub(super) check_in: Duration,
    pub(super) tolerance: Duration,
    pub(super) answer_timeout: Duration,
    pub(super) drain_timeout: Duration,
    pub(super) inbox_lifetime: Duration,
}

/// Sets up an [`Engine`]. Every setting has a default that suits one node of a small cluster.
pub struct EngineBuilder {
    options: Options,
    catalogue: Catalogue,
    interpreter: InterpreterOptions,
}

impl EngineBuilder {
    pub(super) fn new(database_url: String) -> Self {
        Self {
            options: Options {
                database_url,
                schema: "mainspring".to_owned(),
                node_id: NodeId::new(format!(
                    "node-{}",
                    &uuid::Uuid::new_v4().simple().to_string().split_off(20)
                )),
                migrate: true,
                workers: 64,
                pool_size: 8,
                check_in: Duration::from_secs(1),
                tolerance: Duration::from_secs(5),
                answer_timeout: Duration::from_secs(30),
                drain_timeout: Duration::from_secs(20),
                inbox_lifetime: Duration::from_secs(24 * 3600),
            },
            catalogue: Catalogue::standard(),
            interpreter: InterpreterOptions::default(),
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

    /// How many bursts run at once. Default: 64; with 0 this node accepts work, and others run it.
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers;
        self
    }

    /// Connections in the pool, beside the eight that a node always has. Default: 8.
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

    /// Adds an activity of your own; its type can then be used in definitions.
    pub fn activity(mut self, activity: impl Activity) -> Self {
        self.catalogue.register(activity);
        self
    }

    /// The bounds of the interpreter, and where `Elsa.WriteLine` writes.
    pub fn interpreter(mut self, options: InterpreterOptions) -> Self {
        self.interpreter = options;
        self
    }

    /// Registers with the database and begins to work. Dropped half-way, nothing is left behind but a row in `node`
    /// that expires.
    pub async fn start(self) -> Result<Engine> {
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
        Engine::start(self.options, self.catalogue, self.interpreter).await
    }
}
