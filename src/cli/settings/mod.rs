//! All settings of the program, in one table. A setting `--a-b` is `MAINSPRING_A_B` in the environment, and the flag
//! wins. The same table, for people, is in `docs/api.md`; a test below compares the two.

mod child;
mod cron;
mod limits;
mod role;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand};

use super::elsa::ElsaEnvironment;
use crate::db::with_file;
use crate::harness::arguments::{count, count_or_none, duration, duration_or_none, few};
use crate::harness::failure::Failure;
use crate::harness::secret::Secret;
use crate::harness::target::Target;
use child::Child;
pub(super) use cron::{Cron, GapRule, OverlapRule};
use limits::Limits;
pub(super) use role::RoleName;

const AFTER_HELP: &str = "\
Every setting --a-b can also be given as MAINSPRING_A_B in the environment; the flag wins.
Durations are a number with its unit: 500ms, 3s, 2m, 1h.

To see it in ten seconds: mainspring demo
To look around:         mainspring dev
On a database of yours: mainspring serve --database-url postgres://user@host/database

Exit codes: 0 done, 1 failed or found something, 2 wrong usage, 3 no database.";

/// The shortest API key, in characters.
const SHORTEST_KEY: usize = 16;

/// Runs Elsa 3 workflows on one PostgreSQL database, on as many nodes as you start.
#[derive(Debug, Parser)]
#[command(name = "mainspring", version, after_help = AFTER_HELP)]
pub(super) struct Program {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// See it: three nodes, kill -9 of the one that is at work, another that finishes; nothing of it stays
    Demo,
    /// Try it: a private PostgreSQL, the sample workflows, and an engine that answers on this machine
    Dev(Dev),
    /// Run a node of the engine on a database
    Serve(Box<Serve>),
    /// Bring the database up to this version of the engine
    Migrate,
    /// Check that what is in the database agrees with itself
    Check(Check),
    /// Tell when a cron expression fires, and what daylight saving does to it
    Cron(Cron),
    /// Measure how fast this machine and its database are
    #[cfg(feature = "bench")]
    Bench(crate::bench::Bench),
}

/// Settings of all commands.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// The PostgreSQL database, as postgres://user:password@host:port/database (`dev` has its own)
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "MAINSPRING_DATABASE_URL",
        hide_env_values = true
    )]
    database_url: Option<Secret>,
    /// The same database without the connection pooler, where --database-url leads to one; used in its place
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "MAINSPRING_DIRECT_DATABASE_URL",
        hide_env_values = true
    )]
    direct_database_url: Option<Secret>,
    /// A file with the password for the database, read anew for each connection: it can be changed while nodes run
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "MAINSPRING_DATABASE_PASSWORD_FILE",
        hide_env_values = true
    )]
    database_password_file: Option<PathBuf>,
    /// The schema in the database that holds everything
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "MAINSPRING_SCHEMA",
        hide_env_values = true,
        default_value = "mainspring"
    )]
    pub(super) schema: String,
    /// What to log on standard error: error, warn, info, debug, trace, or by module (mainspring::runtime=debug)
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "MAINSPRING_LOG",
        hide_env_values = true,
        default_value = "info"
    )]
    pub(super) log: String,
    /// What the environment says in Elsa's words; a flag wins, and so does MAINSPRING_…
    #[arg(skip)]
    pub(super) elsa: ElsaEnvironment,
}

impl Common {
    /// The database, which all commands but `dev` need.
    pub(super) fn database_url(&self) -> Result<String, Failure> {
        self.target().database_url().map(str::to_owned)
    }

    /// What a command works on: the flags first, then Elsa's environment.
    pub(super) fn target(&self) -> Target {
        let url = self
            .given_database_url()
            .or_else(|| self.elsa.database_url().map(Secret::reveal));
        let database_url = url.map(|url| match &self.database_password_file {
            Some(file) => with_file(url, file),
            None => url.to_owned(),
        });
        Target {
            database_url,
            schema: self.schema.clone(),
            log: self.log.clone(),
        }
    }

    /// The database, if one is given; the way without a pooler first. Every connection of a node needs a session: for
    /// locks, notifications, prepared statements or settings.
    pub(super) fn given_database_url(&self) -> Option<&str> {
        [&self.direct_database_url, &self.database_url]
            .into_iter()
            .flatten()
            .map(Secret::reveal)
            .find(|url| !url.trim().is_empty())
    }
}

/// Settings of `dev`.
#[derive(Debug, Args)]
pub(super) struct Dev {
    /// The address to answer on; one of this machine alone
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "MAINSPRING_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:5001",
        value_parser = address
    )]
    pub(super) listen: SocketAddr,
    /// The folder of the private PostgreSQL
    #[arg(
        long,
        value_name = "FOLDER",
        env = "MAINSPRING_DATA_DIR",
        hide_env_values = true,
        default_value = ".mainspring"
    )]
    pub(super) data_dir: PathBuf,
    /// How many nodes; from two on each is a process of its own, and their ports count up from that of --listen
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_NODES", hide_env_values = true, default_value = "1", value_parser = few)]
    pub(super) nodes: usize,
}

/// Settings of `serve`.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The address to answer on; any that others can reach needs an --api-key. Port 0: any free one
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "MAINSPRING_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:5001",
        value_parser = address
    )]
    pub(super) listen: SocketAddr,
    /// A further address and port that answers health alone, on a thread of its own: no load and no client of the other one
    /// reaches it. It asks for no key
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "MAINSPRING_HEALTH_LISTEN",
        hide_env_values = true,
        value_parser = address
    )]
    pub(super) health_listen: Option<SocketAddr>,
    /// The key that every request must show, in the header `Authorization: ApiKey KEY`; at least 16 characters
    #[arg(long, value_name = "KEY", env = "MAINSPRING_API_KEY", hide_env_values = true)]
    pub(super) api_key: Option<Secret>,
    /// Let in whoever reaches the address, without an --api-key: for a network that is closed otherwise
    #[arg(long, env = "MAINSPRING_ALLOW_ANONYMOUS", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(super) allow_anonymous: bool,
    /// A further host name that requests may be for; can be repeated, or hold several with commas. `*`: any name
    #[arg(
        long,
        value_name = "NAME",
        env = "MAINSPRING_ALLOWED_HOST",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(super) allowed_host: Vec<String>,
    /// The name of this node, unique in the cluster; random unless given. A node that comes back under its name goes
    /// on with its work at once
    #[arg(long, value_name = "NAME", env = "MAINSPRING_NODE_ID", hide_env_values = true)]
    pub(super) node_id: Option<String>,
    /// How many bursts run at the same time; with 0 this node accepts work, and others run it
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_WORKERS", hide_env_values = true, default_value = "512", value_parser = count_or_none)]
    pub(super) workers: usize,
    /// How many pooled connections to the database
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_POOL_SIZE", hide_env_values = true, default_value = "8", value_parser = count)]
    pub(super) pool_size: usize,
    /// Signs the tokens of resume URLs; the same on all nodes. Unless given, a key in the database does
    #[arg(long, value_name = "SECRET", env = "MAINSPRING_TOKEN_SECRET", hide_env_values = true)]
    pub(super) token_secret: Option<Secret>,
    /// How many requests are worked on at the same time; one more gets 503
    #[arg(
        long,
        value_name = "COUNT",
        env = "MAINSPRING_MAX_REQUESTS",
        hide_env_values = true,
        default_value = "1024",
        value_parser = count
    )]
    pub(super) max_requests: usize,
    /// Do not migrate the database at the start; then `mainspring migrate` must have been run
    #[arg(long, env = "MAINSPRING_NO_MIGRATE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(super) no_migrate: bool,
    /// How often this node shows that it lives
    #[arg(long, value_name = "DURATION", env = "MAINSPRING_CHECK_IN", hide_env_values = true, default_value = "1s", value_parser = duration)]
    pub(super) check_in: Duration,
    /// How long a node may be silent before others take over its work
    #[arg(long, value_name = "DURATION", env = "MAINSPRING_TOLERANCE", hide_env_values = true, default_value = "5s", value_parser = duration)]
    pub(super) tolerance: Duration,
    /// How long an execute waits for the workflow before it answers 202
    #[arg(
        long,
        value_name = "DURATION",
        env = "MAINSPRING_ANSWER_TIMEOUT",
        hide_env_values = true, default_value = "30s",
        value_parser = duration
    )]
    pub(super) answer_timeout: Duration,
    /// How long one call of an activity may take before it faults, unless its type or definition says otherwise
    #[arg(
        long,
        value_name = "DURATION",
        env = "MAINSPRING_ACTIVITY_TIMEOUT",
        hide_env_values = true, default_value = "10m",
        value_parser = duration
    )]
    pub(super) activity_timeout: Duration,
    /// How long an event that nothing waits for is kept
    #[arg(
        long,
        value_name = "DURATION",
        env = "MAINSPRING_INBOX_LIFETIME",
        hide_env_values = true, default_value = "24h",
        value_parser = duration
    )]
    pub(super) inbox_lifetime: Duration,
    /// How long the dead letter of an event is kept that was for somebody and that nothing waited for
    #[arg(
        long,
        value_name = "DURATION",
        env = "MAINSPRING_LETTER_LIFETIME",
        hide_env_values = true, default_value = "720h",
        value_parser = duration
    )]
    pub(super) letter_lifetime: Duration,
    /// How long a client may take to send a request's body
    #[arg(
        long,
        value_name = "DURATION",
        env = "MAINSPRING_BODY_TIMEOUT",
        hide_env_values = true,
        default_value = "30s",
        value_parser = duration
    )]
    pub(super) body_timeout: Duration,
    /// What the bodies of all requests may take of the memory once they are parsed, in MiB; one more gets 503, and one that
    /// is too large for all of it 413
    #[arg(
        long,
        value_name = "MIB",
        env = "MAINSPRING_BODY_MEMORY",
        hide_env_values = true,
        default_value = "256",
        value_parser = count
    )]
    pub(super) body_memory: usize,
    /// How long to wait for a database that is not there yet; with 0s the node ends at once, with exit code 3
    #[arg(
        long,
        value_name = "DURATION",
        env = "MAINSPRING_DATABASE_WAIT",
        hide_env_values = true,
        default_value = "0s",
        value_parser = duration_or_none
    )]
    pub(super) database_wait: Duration,
    /// How long this node still answers after Ctrl-C or SIGTERM while it says that it is not ready, so that balancers
    /// notice; only where there are other nodes
    #[arg(
        long,
        value_name = "DURATION",
        env = "MAINSPRING_DRAIN_NOTICE",
        hide_env_values = true,
        default_value = "2s",
        value_parser = duration_or_none
    )]
    pub(super) drain_notice: Duration,
    /// How long work may take to end after Ctrl-C or SIGTERM
    #[arg(
        long,
        value_name = "DURATION",
        env = "MAINSPRING_DRAIN_TIMEOUT",
        hide_env_values = true,
        default_value = "20s",
        value_parser = duration
    )]
    pub(super) drain_timeout: Duration,
    /// What this node does: answers requests (`api`; without it only those for health), runs workflows (`worker`; without
    /// it as with --workers 0), fires schedules (`scheduler`)
    #[arg(
        long,
        value_name = "ROLES",
        env = "MAINSPRING_ROLES",
        hide_env_values = true,
        value_delimiter = ',',
        default_value = "api,worker,scheduler"
    )]
    pub(super) roles: Vec<RoleName>,
    /// One scheduler is active at a time, of all nodes that have the role and are told so; another one is at once when it
    /// is gone
    #[arg(long, env = "MAINSPRING_SINGLE_SCHEDULER", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(super) single_scheduler: bool,
    /// An activity type that this node shall not know: it leaves what uses it to the others; can be repeated, or hold
    /// several with commas. For staged roll-outs, and for tests
    #[arg(
        long,
        value_name = "TYPE",
        env = "MAINSPRING_DISABLE_ACTIVITY",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(super) disable_activity: Vec<String>,
    #[command(flatten)]
    pub(super) limits: Limits,
    #[command(flatten)]
    pub(super) child: Child,
}

impl Serve {
    /// Whether all who reach this node may do everything.
    pub(super) fn is_open(&self) -> bool {
        self.api_key.is_none() && !is_local(self.listen)
    }

    /// What no single setting shows: whether together they are safe.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let key = self.api_key.as_ref().map(Secret::reveal);
        if key.is_some_and(|key| key.len() < SHORTEST_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(Failure::usage(format!(
                "an --api-key has at least {SHORTEST_KEY} characters, all of them visible ASCII: a shorter one can be guessed; \
                 `openssl rand -hex 32` makes one"
            )));
        }
        let secret = self.token_secret.as_ref().map(Secret::reveal);
        if secret.is_some_and(|secret| secret.len() < 16) {
            return Err(Failure::usage(
                "a --token-secret has at least 16 bytes, best random ones",
            ));
        }
        if key.is_none() && !is_local(self.listen) && !self.allow_anonymous {
            return Err(Failure::usage(format!(
                "{} can be reached by others: give an --api-key (MAINSPRING_API_KEY), listen on 127.0.0.1, or say with \
                 --allow-anonymous that all who reach it may do everything",
                self.listen
            )));
        }
        if key.is_none() && self.allowed_host.iter().any(|host| host == "*") {
            return Err(Failure::usage(
                "--allowed-host '*' lets any web page drive this engine: give an --api-key, or the names that are meant",
            ));
        }
        Ok(())
    }
}

/// Settings of `check`.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Print {ok, violations: [{invariant, count, sample}]}
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(super) json: bool,
}

/// Whether only this machine can reach the address.
pub(super) fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let numeric = numeric.as_deref().unwrap_or(text);
    numeric
        .parse()
        .map_err(|_| "give an address and a port, as 127.0.0.1:5001 or [::1]:5001".to_owned())
}

#[cfg(test)]
mod tests;
