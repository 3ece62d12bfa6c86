//! Settings of `serve`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::secret_file::secret_file;
use super::{
    ExpressionSettings, HttpSettings, IdentitySettings, ListenerSettings, MailSettings, OpenIdSettings,
    ServiceSettings, StudioChoice, TraceSettings, WebhookSettings, address, is_local,
};
use crate::activity::FlowchartMode;
use crate::auth::cors::parse_origin;
use crate::auth::{admits_strangers, parse_allowed_host};
use crate::cli::public_url::public_url;
use crate::execution::InterpreterOptions;
use crate::expression::ScriptOptions;
use crate::harness::failure::Failure;
use crate::harness::secret::Secret;
use crate::harness::settings::{count, count_or_none, duration, duration_or_none, value_size};
use crate::runtime::Role;

/// The minimum length of an API key, in characters.
const MIN_KEY: usize = 16;

/// Settings of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The address to listen on; one that other machines can reach requires users or an --api-key. Port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5001", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// A second address that serves only health, without a key. It has its own thread, so load on --listen does not affect
    /// it
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) health_listen: Option<SocketAddr>,
    /// A key that permits everything, in the header `Authorization: ApiKey KEY`; at least 16 characters. Other users of
    /// this machine can read command lines, so give the key in the environment or as --api-key-file
    #[arg(long, value_name = "KEY")]
    api_key: Option<Secret>,
    /// A file with the --api-key
    #[arg(long, value_name = "FILE", value_parser = secret_file, conflicts_with = "api_key")]
    api_key_file: Option<Secret>,
    /// Accept all requests while there are neither users nor keys, for use in a closed network
    #[arg(long)]
    pub(crate) allow_anonymous: bool,
    /// An additional host name to accept in requests; can be repeated, or contain several separated by commas. `*.name` accepts
    /// all names below one, and `*` any name
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_allowed_host)]
    pub(crate) allowed_host: Vec<String>,
    /// The origin of other web pages that may call this node with its key, such as `https://studio.example`; can be
    /// repeated, or contain several separated by commas
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', value_parser = parse_origin)]
    pub(crate) cors_origin: Vec<String>,
    #[command(flatten)]
    pub(crate) listener: ListenerSettings,
    #[command(flatten)]
    pub(crate) identity: IdentitySettings,
    #[command(flatten)]
    pub(crate) studio: StudioChoice,
    /// The name of this node, unique in the cluster; random by default. A node that restarts under its name continues its
    /// work at once
    #[arg(long, value_name = "NAME")]
    pub(crate) node_id: Option<String>,
    /// How many bursts run concurrently; with 0 this node accepts work and other nodes run it
    #[arg(long, value_name = "COUNT", default_value = "512", value_parser = count_or_none)]
    pub(crate) workers: usize,
    /// The number of pooled connections to the database
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = count)]
    pub(crate) pool_size: usize,
    /// The number of additional connections for lists and other reads, at least 2
    #[arg(long, value_name = "COUNT", default_value = "4", value_parser = count)]
    pub(crate) read_pool_size: usize,
    /// A secret without which the keys in the database sign no resume links, the same on all nodes; by default these keys alone
    #[arg(long, value_name = "SECRET")]
    token_secret: Option<Secret>,
    /// A file with the token-secret
    #[arg(long, value_name = "FILE", value_parser = secret_file, conflicts_with = "token_secret")]
    token_secret_file: Option<Secret>,
    /// Where clients reach this API, such as `https://workflows.example`: the start of resume links, and of the URLs that Studio
    /// shows for HTTP endpoints
    #[arg(long, value_name = "URL", value_parser = public_url)]
    pub(crate) public_url: Option<String>,
    /// Refuse to start unless resume links begin with `https://`, that is, unless the --public-url does
    #[arg(long)]
    pub(crate) require_https_links: bool,
    /// Keep no metrics: `/metrics` is 404, and this node takes no part in the samples of the cluster
    #[arg(long)]
    pub(crate) no_metrics: bool,
    /// How many requests are served concurrently; additional ones get 503
    #[arg(long, value_name = "COUNT", default_value = "1024", value_parser = count)]
    pub(crate) max_requests: usize,
    /// Do not migrate the database at startup; `mainspring migrate` must have been run
    #[arg(long)]
    pub(crate) no_migrate: bool,
    /// The interval of this node's check-ins
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub(crate) check_in: Duration,
    /// How long a node may miss check-ins before it expires and other nodes take over its work
    #[arg(long, value_name = "DURATION", default_value = "3500ms", value_parser = duration)]
    pub(crate) tolerance: Duration,
    /// How long an execute request waits for the workflow before it answers 202
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) answer_timeout: Duration,
    /// How long an activity may execute before it faults, unless its type or definition sets another timeout
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub(crate) activity_timeout: Duration,
    /// How flowcharts run if their workflow does not set `Flowchart:ExecutionMode`: by counts or with tokens; the same on
    /// all nodes
    #[arg(long, value_name = "MODE", default_value = "counter", value_enum)]
    pub(crate) flowchart_mode: FlowchartModeName,
    /// How long an event that no instance waits for is kept
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    pub(crate) inbox_lifetime: Duration,
    /// The total size of all kept events, in MiB; an additional event that nothing waits for gets 429
    #[arg(long, value_name = "MIB", default_value = "256", value_parser = count)]
    pub(crate) inbox_mib: usize,
    /// The same limit for the events of one name
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = count)]
    pub(crate) inbox_mib_per_name: usize,
    /// How long the dead letter of an addressed event that no instance waited for is kept
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = duration)]
    pub(crate) dead_letter_lifetime: Duration,
    /// How long an entry of the audit is kept, such as an attempt at a resume link
    #[arg(long, value_name = "DURATION", default_value = "2160h", value_parser = duration)]
    pub(crate) audit_lifetime: Duration,
    /// How long a client may take to send a request's body
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) body_timeout: Duration,
    /// The memory of all parsed request bodies, in MiB; an additional body gets 503, and one that alone exceeds the limit
    /// gets 413
    #[arg(long, value_name = "MIB", default_value = "256", value_parser = count)]
    pub(crate) body_memory: usize,
    /// How long to wait at startup for an unavailable database; with 0s the node exits at once with exit code 3
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration_or_none)]
    pub(crate) database_wait: Duration,
    /// How long this node serves requests after Ctrl-C or SIGTERM while it reports not ready, so that load balancers notice;
    /// used only if other nodes exist
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration_or_none)]
    pub(crate) drain_notice: Duration,
    /// How long running work may take after Ctrl-C or SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub(crate) drain_timeout: Duration,
    /// The roles of this node: serve requests (`api`; without it, only health), run workflows (`worker`; without it, as with
    /// --workers 0), fire schedules (`scheduler`)
    #[arg(
        long,
        value_name = "ROLES",
        value_delimiter = ',',
        default_value = "api,worker,scheduler"
    )]
    pub(crate) roles: Vec<RoleName>,
    /// Elect one active scheduler among the nodes with the role and this flag; another node takes over when it is gone
    #[arg(long)]
    pub(crate) single_scheduler: bool,
    /// An activity type that this node does not execute: workflows that use it run on other nodes; can be repeated, or
    /// contain several separated by commas. For staged roll-outs and for tests
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    pub(crate) disable_activity: Vec<String>,
    #[command(flatten)]
    pub(crate) http: HttpSettings,
    #[command(flatten)]
    pub(crate) mail: MailSettings,
    #[command(flatten)]
    pub(crate) openid: OpenIdSettings,
    #[command(flatten)]
    pub(crate) webhooks: WebhookSettings,
    #[command(flatten)]
    pub(crate) services: ServiceSettings,
    #[command(flatten)]
    pub(crate) traces: TraceSettings,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Shut down when standard input ends, as it does when the parent process exits
    #[arg(long)]
    pub(crate) stop_with_stdin: bool,
    /// Register the activity Mainspring.Work, which sleeps for a given time
    #[arg(long)]
    pub(crate) bench_activities: bool,
}

impl Serve {
    /// The key that requests must show.
    pub(crate) fn api_key(&self) -> Option<&str> {
        let given = self.api_key.as_ref().or(self.api_key_file.as_ref());
        given.map(Secret::reveal)
    }

    /// The secret that signs tokens.
    pub(crate) fn token_secret(&self) -> Option<&str> {
        let given = self.token_secret.as_ref().or(self.token_secret_file.as_ref());
        given.map(Secret::reveal)
    }

    /// Whether other machines can use this node without a key. `has_callers`: there are users or keys in the
    /// database, or OpenID issuers.
    pub(crate) fn is_open(&self, has_callers: bool) -> bool {
        self.api_key().is_none() && !has_callers && !is_local(self.listen)
    }

    /// Checks the settings that depend on each other.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.traces.check()?;
        let key = self.api_key();
        if key.is_some_and(|key| key.len() < MIN_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(Failure::usage(format!(
                "an --api-key needs at least {MIN_KEY} characters, all of them visible ASCII; \
                 `openssl rand -hex 32` prints one"
            )));
        }
        let secret = self.token_secret();
        if secret.is_some_and(|secret| secret.len() < 16) {
            return Err(Failure::usage(
                "a token-secret needs at least 16 bytes, preferably random",
            ));
        }
        self.listener.check()
    }

    /// Checks who can use this node, once it is known whether there are users or keys in the database, or OpenID issuers.
    pub(crate) fn check_open(&self, has_callers: bool) -> Result<(), Failure> {
        if self.is_open(has_callers) && !self.allow_anonymous {
            return Err(Failure::usage(format!(
                "other machines can reach {}: add a user (`mainspring user add`, --admin-password-file), give an --api-key \
                 (MAINSPRING_API_KEY), listen on 127.0.0.1, or allow requests without a key with --allow-anonymous",
                self.listen
            )));
        }
        let is_anonymous = self.api_key().is_none() && !has_callers;
        if let Some(host) = self
            .allowed_host
            .iter()
            .find(|host| is_anonymous && admits_strangers(host))
        {
            return Err(Failure::usage(format!(
                "--allowed-host '{host}' lets any web page use this engine: add a user, give an --api-key, or the host names to \
                 accept",
            )));
        }
        Ok(())
    }

    /// What decides who may do what at this node, by the names of the settings: the nodes of a cluster compare it. Only digests
    /// leave the process.
    pub(crate) fn identity_settings(&self) -> Vec<(&'static str, String)> {
        // A node without the role serves no request that these settings decide.
        if !self.roles.contains(&RoleName::Api) {
            return Vec::new();
        }
        let list = |items: &[String]| {
            let mut items: Vec<String> = items.iter().map(|item| item.to_ascii_lowercase()).collect();
            items.sort();
            items.join(",")
        };
        let secret = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let own = [
            ("api-key", secret(self.api_key())),
            ("token-secret", secret(self.token_secret())),
            ("allowed-host", list(&self.allowed_host)),
            ("cors-origin", list(&self.cors_origin)),
            self.openid.compared(),
        ];
        own.into_iter().chain(self.listener.compared()).collect()
    }
}

/// Limits of the resources of a node that workflows use.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    #[command(flatten)]
    expressions: ExpressionSettings,
    /// The number of threads that start scripts
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = count)]
    script_threads: usize,
    /// The memory of all concurrently running scripts, in MiB; a script without memory waits, or its burst is deferred
    #[arg(long, value_name = "MIB", default_value = "2752", value_parser = count)]
    script_memory: usize,
    /// The size of the cache of definitions, most of them compiled, in MiB
    #[arg(long, value_name = "MIB", default_value = "256", value_parser = count)]
    cache_mib: usize,
    /// The claimed work and loaded states of all running bursts, in MiB; larger instances wait for room
    #[arg(long, value_name = "MIB", default_value = "24", value_parser = count)]
    claim_mib: usize,
    /// How many activities an instance executes without waiting before it counts as an endless loop and faults
    #[arg(long, value_name = "COUNT", default_value = "100000", value_parser = count)]
    executions_without_wait: usize,
    /// How many activities of an instance may be executing or waiting at once; one more faults
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = count)]
    open_executions: usize,
    /// The size of one value of an instance, such as a variable, an input or an output, in KiB; a larger one is refused. At
    /// most 4096, which is what a script can return
    #[arg(long, value_name = "KIB", default_value = "1024", value_parser = value_size)]
    value_kib: usize,
}

impl Limits {
    pub(crate) fn cache_bytes(&self) -> usize {
        self.cache_mib.saturating_mul(1 << 20)
    }

    pub(crate) fn claimed_bytes(&self) -> usize {
        self.claim_mib.saturating_mul(1 << 20)
    }

    /// The threads for slow scripts stay as many as by default: they take turns on half of the processors, and the memory of all
    /// scripts bounds them.
    pub(crate) fn interpreter(&self) -> InterpreterOptions {
        InterpreterOptions {
            script: ScriptOptions {
                threads: self.script_threads,
                total_memory: self.script_memory.saturating_mul(1 << 20),
                ..self.expressions.script_options()
            },
            executions_without_wait: u64::try_from(self.executions_without_wait).unwrap_or(u64::MAX),
            open_executions: self.open_executions,
            max_value_bytes: self.value_kib.saturating_mul(1 << 10),
            ..InterpreterOptions::default()
        }
    }
}

/// How flowcharts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowchartModeName {
    /// By counts, Elsa's default
    Counter,
    /// With tokens
    Token,
}

impl From<FlowchartModeName> for FlowchartMode {
    fn from(name: FlowchartModeName) -> Self {
        match name {
            FlowchartModeName::Counter => Self::Counter,
            FlowchartModeName::Token => Self::Token,
        }
    }
}

/// A role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Serves requests
    Api,
    /// Runs workflows
    Worker,
    /// Fires schedules
    Scheduler,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Api => Self::Api,
            RoleName::Worker => Self::Worker,
            RoleName::Scheduler => Self::Scheduler,
        }
    }
}
