//! The builder of an engine: its settings and their defaults.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
#[cfg(feature = "http")]
use crate::activity::HttpOptions;
use crate::activity::{Activity, Catalogue, FlowchartMode, OutputConverter};
use crate::execution::InterpreterOptions;
use crate::id::NodeId;
use crate::lock::LockProvider;
#[cfg(feature = "http")]
use crate::mail::{MailClient, MailOptions};
use crate::runtime::context::services::Services;
use crate::runtime::context::setting_digests::SettingDigests;
#[cfg(feature = "http")]
use crate::runtime::context::settings::{AdminPassword, TokenLifetimes};
use crate::runtime::context::settings::{Role, Settings, TokenSecret};
use crate::signal::CacheSignal;
use crate::store::inbox::InboxBudget;
use crate::store::maintenance::Retention;
#[cfg(feature = "cli")]
use crate::trace::Traces;
use crate::wake::WakeTransport;
use crate::watchdog::{Hang, HangReport};
#[cfg(feature = "http")]
use crate::webhook::{WebhookSink, WebhookSource};
use crate::{Error, Result};

/// The longest node id. It comes last in `application_name`, which PostgreSQL cuts at 63 bytes.
const LONGEST_NAME: usize = 100;

/// The longest time for which a refresh token is good.
#[cfg(feature = "http")]
const LONGEST_SESSION: Duration = Duration::from_secs(90 * 24 * 3600);

/// Sets up an [`Engine`]. Every setting has a default that suits one node of a small cluster.
pub struct EngineBuilder {
    settings: Settings,
    catalogue: Catalogue,
    interpreter: InterpreterOptions,
    disabled: Vec<String>,
    /// The first problem with a registration.
    problem: Option<Error>,
}

impl EngineBuilder {
    pub(crate) fn new(database_url: String) -> Self {
        Self {
            settings: Settings {
                database_url,
                schema: "mainspring".to_owned(),
                node_id: NodeId::new(format!(
                    "node-{}",
                    &uuid::Uuid::new_v4().simple().to_string().split_off(20)
                )),
                migrate: true,
                workers: 512,
                pool_size: 8,
                read_pool_size: 4,
                check_in: Duration::from_secs(1),
                tolerance: Duration::from_millis(3500),
                answer_timeout: Duration::from_secs(30),
                drain_timeout: Duration::from_secs(20),
                inbox_lifetime: Duration::from_secs(24 * 3600),
                inbox_budget: InboxBudget {
                    tenant: 256 << 20,
                    stimulus: 64 << 20,
                },
                retention: Retention {
                    dead_letters: Duration::from_secs(30 * 24 * 3600),
                    audit: Duration::from_secs(90 * 24 * 3600),
                },
                #[cfg(feature = "http")]
                webhook_timeout: Duration::from_secs(20),
                #[cfg(feature = "http")]
                webhook_lifetime: Duration::from_secs(24 * 3600),
                #[cfg(feature = "http")]
                webhook_sinks: None,
                #[cfg(feature = "http")]
                webhook_sources: Vec::new(),
                #[cfg(feature = "http")]
                admin_password: None,
                #[cfg(feature = "http")]
                token_lifetimes: TokenLifetimes::default(),
                roles: vec![Role::Api, Role::Worker, Role::Scheduler],
                single_scheduler: false,
                cache_bytes: 256 << 20,
                claimed_bytes: 24 << 20,
                services: Services::default(),
                token_secret: None,
                identity_settings: SettingDigests::default(),
                public_url: None,
                require_https_links: false,
                samples_cluster: true,
                on_hang: HangReport::default(),
                traces: None,
            },
            catalogue: Catalogue::standard(),
            interpreter: InterpreterOptions::default(),
            disabled: Vec::new(),
            problem: None,
        }
    }

    /// The schema that holds all tables. Default: `mainspring`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.settings.schema = schema.into();
        self
    }

    /// The name of this node. A process that is restarted under the same name takes over the claims of the former one.
    /// Default: random.
    pub fn node_id(mut self, node_id: impl Into<String>) -> Self {
        self.settings.node_id = NodeId::new(node_id.into());
        self
    }

    /// Whether to bring the schema up to date at startup. Default: yes; otherwise an outdated schema is refused.
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.settings.migrate = migrate;
        self
    }

    /// How many bursts run at once. Default: 512; with 0 this node accepts work and other nodes run it.
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// Connections in the pool, besides those that a node always has: five, and more as needed. With 1 the node accepts
    /// starts over the pooled connection, and has no second connection for commits. Default: 8.
    pub fn pool_size(mut self, size: usize) -> Self {
        self.settings.pool_size = size.max(1);
        self
    }

    /// Connections for lists and other reads, not shared with the work of the node; half of them are for reads by key. They
    /// are opened when needed. Default: 4; at least 2.
    pub fn read_pool_size(mut self, size: usize) -> Self {
        self.settings.read_pool_size = size.max(2);
        self
    }

    /// The interval between two check-ins. Default: 1 s.
    pub fn check_in(mut self, interval: Duration) -> Self {
        self.settings.check_in = interval;
        self
    }

    /// A node without a check-in for this long expires, and a node with a part that does not answer for this long hangs.
    /// Default: 3.5 s.
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.settings.tolerance = tolerance;
        self
    }

    /// What to do when this node hangs: a part of it has not answered for the tolerance, at least three seconds. It is
    /// called on a separate thread, at most once per tolerance, after the hang was logged, and must not wait for anything; a
    /// program ends its process there. Default: nothing, and the node registers again once all parts answer.
    pub fn on_hang(mut self, report: impl Fn(&Hang) + Send + Sync + 'static) -> Self {
        self.settings.on_hang = HangReport::new(report);
        self
    }

    /// How long a request waits for its burst before it is answered as pending. Default: 30 s.
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.settings.answer_timeout = timeout;
        self
    }

    /// How long a shutdown waits for running bursts. Default: 20 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.settings.drain_timeout = timeout;
        self
    }

    /// How long the inbox keeps an event for which no bookmark waited. Default: 24 h.
    pub fn inbox_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.inbox_lifetime = lifetime;
        self
    }

    /// How many bytes of events for which no bookmark waited the inbox keeps, in total and for one event name. Beyond that
    /// an event for which nothing waits is refused ([`Error::is_over_budget`]); each node counts them only once in a while,
    /// so a few more may be kept. Default: 256 MiB and 64 MiB.
    pub fn inbox_bytes(mut self, all: u64, per_name: u64) -> Self {
        self.settings.inbox_budget = InboxBudget {
            tenant: all,
            stimulus: per_name,
        };
        self
    }

    /// How long the dead letter of an expired event that named an instance, a correlation id or an activity is kept; other
    /// dead letters stay. Default: 30 days.
    pub fn dead_letter_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.retention.dead_letters = lifetime;
        self
    }

    /// How long one call of an activity may take before it is dropped and its execution faults. A type or a definition can
    /// set its own limit. Part of [`InterpreterOptions`], which [`EngineBuilder::interpreter`] sets as a whole. Default: 10
    /// minutes.
    pub fn activity_timeout(mut self, limit: Duration) -> Self {
        self.interpreter.activity_timeout = limit;
        self
    }

    /// How flowcharts run if their workflow does not set the custom property `Flowchart:ExecutionMode`. Set it alike on all
    /// nodes. Part of [`InterpreterOptions`], which [`EngineBuilder::interpreter`] sets as a whole. Default: by counts.
    pub fn flowchart_mode(mut self, mode: FlowchartMode) -> Self {
        self.interpreter.flowchart_mode = mode;
        self
    }

    /// Adds your own activity; its type can then be used in definitions.
    pub fn activity(mut self, activity: impl Activity) -> Self {
        self.catalogue.register(activity);
        self
    }

    /// Adds a converter of outputs; definitions can then name it. Nodes without it leave the versions that use it to other nodes.
    /// The start fails if its descriptor is invalid, or its id is taken.
    pub fn output_converter(mut self, converter: impl OutputConverter) -> Self {
        let registered = self.catalogue.register_converter(converter);
        self.problem = self.problem.take().or(registered.err());
        self
    }

    /// Removes an activity type: this node runs no version that uses it, and leaves such versions to other nodes. For staged
    /// roll-outs and for tests.
    pub fn disable_activity(mut self, type_name: impl Into<String>) -> Self {
        self.disabled.push(type_name.into());
        self
    }

    /// The bounds of the interpreter, and where `Elsa.WriteLine` writes.
    pub fn interpreter(mut self, options: InterpreterOptions) -> Self {
        self.interpreter = options;
        self
    }

    /// What this node does. Default: everything. Without [`Role::Worker`] it has no workers, whatever their number is set
    /// to; [`Role::Api`] is for the program, and is only shown.
    pub fn roles(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
        self.settings.roles = roles.into_iter().collect();
        self
    }

    /// Of all nodes with [`Role::Scheduler`] and this setting, one at a time is elected to fire schedules; when it ends,
    /// another one takes over at once. By default all fire, and each occurrence still fires once.
    pub fn single_scheduler(mut self, single: bool) -> Self {
        self.settings.single_scheduler = single;
        self
    }

    /// How many bytes of definitions are cached: three quarters are for compiled programs, and one quarter is for published
    /// definitions as the API shows them. What does not fit is read and compiled again at its next use. Default: 256 MiB.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.settings.cache_bytes = bytes;
        self
    }

    /// How many bytes of claimed work and loaded states this node has in flight. Half is divided among the workers, larger
    /// instances wait for the other half, and an instance that exceeds it runs alone. When parsed, run and written, they
    /// take up to eight times as much memory, and JSON of many small values more. Default: 24 MiB.
    pub fn claimed_bytes(mut self, bytes: usize) -> Self {
        self.settings.claimed_bytes = bytes;
        self
    }

    /// How long an entry of the audit is kept. Default: 90 days.
    pub fn audit_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.retention.audit = lifetime;
        self
    }

    /// A secret without which the keys in the database sign neither links nor tokens. Default: these keys alone, the first of which
    /// is created with the schema. All nodes of a cluster must use the same secret; changing it makes all earlier links
    /// invalid.
    pub fn token_secret(mut self, secret: &str) -> Self {
        self.settings.token_secret = Some(TokenSecret::new(secret));
        self
    }

    /// Where the spans of the node go. Default: it makes none, and passes on the traces of its callers.
    #[cfg(feature = "cli")]
    pub(crate) fn traces(mut self, traces: Traces) -> Self {
        self.settings.traces = Some(traces);
        self
    }

    /// What decides at this node who may do what, as names of settings and their values: the nodes of a cluster compare the digests
    /// of what both have, and log a difference. Default: nothing, which is compared with nothing.
    pub fn identity_settings<N: Into<String>, V: AsRef<[u8]>>(
        mut self,
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.settings.identity_settings = SettingDigests::new(settings);
        self
    }

    /// Where clients reach the API, up to its own paths: `https://workflows.example`. Resume links begin with it. Default: none, so
    /// a link is only a path.
    pub fn public_url(mut self, url: impl Into<String>) -> Self {
        self.settings.public_url = Some(url.into());
        self
    }

    /// Whether the start is refused unless [`EngineBuilder::public_url`] begins with `https://`, so that no link is ever sent that
    /// can be read on its way. Default: no.
    pub fn require_https_links(mut self, required: bool) -> Self {
        self.settings.require_https_links = required;
        self
    }

    /// Whether this node takes part in the samples of the whole database, of which one node takes one every 15 s, and serves them
    /// to the recorder of metrics. Default: yes.
    pub fn samples_cluster(mut self, samples: bool) -> Self {
        self.settings.samples_cluster = samples;
        self
    }

    /// What Elsa's HTTP activities use: where workflows are served, and where large bodies are kept. Replaces these activities
    /// in the catalogue. Default: [`HttpOptions::default`].
    #[cfg(feature = "http")]
    pub fn http(mut self, options: HttpOptions) -> Self {
        match options.services() {
            Ok(services) => drop(self.catalogue.register_http(&Arc::new(services))),
            Err(error) => self.problem = self.problem.take().or(Some(error)),
        }
        self
    }

    /// The server that `Elsa.SendEmail` gives its mails to. Replaces this activity in the catalogue. Default: none, so that the
    /// activity faults with `mail-not-configured`. A server that is away keeps no node from its start, and
    /// [`Engine::readiness`] names it.
    #[cfg(feature = "http")]
    pub fn mail(mut self, options: MailOptions) -> Self {
        match MailClient::new(options) {
            Ok(client) => drop(self.catalogue.register_mail(Some(client))),
            Err(error) => self.problem = self.problem.take().or(Some(error)),
        }
        self
    }

    /// The receivers of events that settings have. Those of earlier settings that are not among them are paused when the
    /// engine starts; those of the API stay. Default: none are changed.
    #[cfg(feature = "http")]
    pub fn webhook_sinks(mut self, sinks: impl IntoIterator<Item = WebhookSink>) -> Self {
        self.settings.webhook_sinks = Some(sinks.into_iter().collect());
        self
    }

    /// Programs that send events to `POST /webhooks`: for each event there is an activity that waits for it, and can start
    /// workflows. All nodes of a cluster need the same. Default: none.
    #[cfg(feature = "http")]
    pub fn webhook_sources(mut self, sources: impl IntoIterator<Item = WebhookSource>) -> Self {
        self.settings.webhook_sources = sources.into_iter().collect();
        self
    }

    /// How long an attempt to deliver a webhook may take, to the end of its answer. Default: 20 s.
    #[cfg(feature = "http")]
    pub fn webhook_timeout(mut self, limit: Duration) -> Self {
        self.settings.webhook_timeout = limit;
        self
    }

    /// How long a delivered webhook is listed. Default: 24 h.
    #[cfg(feature = "http")]
    pub fn webhook_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.webhook_lifetime = lifetime;
        self
    }

    /// The password of the user `admin` with the role `admin`, who is added when the engine starts if there is no user. Default:
    /// none is added.
    #[cfg(feature = "http")]
    pub fn admin_password(mut self, password: impl Into<String>) -> Self {
        self.settings.admin_password = Some(AdminPassword(password.into()));
        self
    }

    /// How long an access token of a user is good, in whole seconds. Default: 1 h.
    #[cfg(feature = "http")]
    pub fn access_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.token_lifetimes.access = lifetime;
        self
    }

    /// How long a refresh token is good, which is used once; at least as long as an access token. Default: 2 h.
    #[cfg(feature = "http")]
    pub fn refresh_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.token_lifetimes.refresh = lifetime;
        self
    }

    /// What notifies other nodes of ready work. Default: NOTIFY. All nodes of a cluster must use the same transport; a node
    /// that receives nothing finds work at its check-ins.
    pub fn wake(mut self, transport: impl WakeTransport + 'static) -> Self {
        self.settings.services.wake = Some(Arc::new(transport));
        self
    }

    /// What invalidates the caches of other nodes. Default: NOTIFY. All nodes of a cluster must use the same signal; a node
    /// that receives nothing shows old definitions until its next check-in, and never runs them.
    pub fn signal(mut self, signal: impl CacheSignal + 'static) -> Self {
        self.settings.services.signal = Some(Arc::new(signal));
        self
    }

    /// What keeps the locks of instances, under their ids (after that of a tenant and `:`). Default: advisory locks in one
    /// session of the node. All nodes of a cluster must use the same provider. A provider that fails or loses a lock costs
    /// time, never correctness: the database fences every commit. A lost lock stops its burst before the next activity, and
    /// completed activities are committed if the fences allow it. The locks with which nodes show that they live, and elect
    /// a scheduler, are still those of the session.
    pub fn locks(mut self, provider: impl LockProvider + 'static) -> Self {
        self.settings.services.locks = Some(Arc::new(provider));
        self
    }

    /// Registers the node with the database and starts it. If the future is dropped halfway, only a row in `node` is left,
    /// which expires.
    pub async fn start(mut self) -> Result<Engine> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let Settings {
            node_id,
            check_in,
            tolerance,
            ..
        } = &self.settings;
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
                "the tolerance must be at least twice the check-in interval: a node with one late check-in has not expired",
            ));
        }
        let is_https = |url: &String| url.starts_with("https://");
        if self.settings.require_https_links && !self.settings.public_url.as_ref().is_some_and(is_https) {
            let message = "resume links must begin with https://, and the public URL does not: set one that does \
                           (--public-url https://…), or allow other links";
            return Err(Error::invalid("insecure-links", message));
        }
        if self.interpreter.activity_timeout.is_zero() {
            let message = "the activity timeout must be longer than zero";
            return Err(Error::invalid("invalid-settings", message));
        }
        for type_name in &self.disabled {
            if !self.catalogue.remove(type_name) {
                tracing::warn!(type_name, "an activity type that this node does not know is disabled");
            }
        }
        if self.settings.roles.is_empty() {
            let message = "a node has at least one role: api, worker or scheduler";
            return Err(Error::invalid("invalid-settings", message));
        }
        if !self.settings.roles.contains(&Role::Worker) {
            self.settings.workers = 0;
        }
        #[cfg(feature = "http")]
        {
            let TokenLifetimes { access, refresh } = self.settings.token_lifetimes;
            if access < Duration::from_secs(1) || refresh < access || refresh > LONGEST_SESSION {
                let message = "an access token must be good for at least 1 s, and a refresh token for as long or longer, at most \
                               for 90 days";
                return Err(Error::invalid("invalid-settings", message));
            }
            self.check_webhooks()?;
        }
        #[cfg(feature = "http")]
        self.catalogue.http_services().spool.prepare().await?;
        Engine::start(self.settings, self.catalogue, self.interpreter).await
    }

    /// Checks sinks and sources, and registers the activities of the sources.
    #[cfg(feature = "http")]
    fn check_webhooks(&mut self) -> Result<()> {
        if self.settings.webhook_timeout.is_zero() {
            let message = "the timeout of webhooks must be longer than zero";
            return Err(Error::invalid("invalid-settings", message));
        }
        for (place, sink) in self.settings.webhook_sinks.iter().flatten().enumerate() {
            sink.check()?;
            let earlier = self.settings.webhook_sinks.iter().flatten().take(place);
            if earlier.map(|other| &other.id).any(|other| *other == sink.id) {
                let message = format!("two webhook sinks have the id {:?}; ids are unique", sink.id);
                return Err(Error::invalid("invalid-settings", message));
            }
        }
        for (place, source) in self.settings.webhook_sources.iter().enumerate() {
            source.check()?;
            // The sender of the events of one could send those of the other.
            let shares = |other: &&WebhookSource| other.secrets.iter().any(|secret| source.secrets.contains(secret));
            if let Some(other) = self.settings.webhook_sources.iter().take(place).find(shares) {
                let (one, two) = (&other.name, &source.name);
                let message =
                    format!("the webhook sources {one:?} and {two:?} have a secret in common; give each its own");
                return Err(Error::invalid("invalid-settings", message));
            }
            self.catalogue.register_webhooks(source)?;
        }
        Ok(())
    }
}
