//! All settings of the program, each in one list: a setting `a-b` is `MAINSPRING_A_B` in the environment, `a-b` in the
//! `--config` file, and the flag `--a-b`, which `serve` has only for the settings in [`SERVE_FLAGS`]. Flags take precedence
//! over the environment, and the environment over the file. A test compares them with the tables in
//! `docs/reference/operating.md`.

mod cron;
mod doctor;
mod elsa_report;
mod eval;
mod http;
mod identity;
mod link_keys;
mod listener;
mod listing;
mod locks;
mod mail;
mod openid;
mod outgoing;
mod secret_file;
mod serve;
mod services;
mod settings_file;
mod studio;
mod traces;
mod validate;
mod webhooks;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use super::elsa::ElsaEnvironment;
use crate::db::with_file;
use crate::harness::failure::Failure;
use crate::harness::secret::Secret;
use crate::harness::settings::Target;
use crate::harness::settings::few;
pub(super) use cron::{CronSettings, GapRule, OverlapRule};
pub(super) use doctor::{DoctorSettings, MigrateSettings};
pub(super) use elsa_report::{ElsaCommand, ReportSettings};
pub(super) use eval::{EvalSettings, ExpressionSettings};
use http::HttpSettings;
use identity::IdentitySettings;
pub(super) use identity::{KeyCommand, TenantOf, UserCommand};
pub(super) use link_keys::LinkKeysCommand;
use listener::ListenerSettings;
pub(super) use listing::listing;
pub(super) use locks::{LockProviderName, LockSettings};
use mail::MailSettings;
use openid::OpenIdSettings;
pub(super) use serve::{RoleName, Serve};
pub(super) use services::{ServiceSettings, SignalName, WakeName};
use settings_file::{SettingsFile, without_reading};
pub(super) use studio::{Install, Status, StudioChoice, StudioCommand};
use traces::TraceSettings;
pub(super) use validate::ValidateSettings;
pub(super) use webhooks::{WebhookSettings, WebhooksOfFile};

const AFTER_HELP: &str = "\
Every setting --a-b can also be given as MAINSPRING_A_B in the environment, or as a-b in the
file of --config; a flag wins over the environment, and the environment over the file.
Durations are a number with its unit: 500ms, 3s, 2m, 1h.

A failover in ten seconds: mainspring demo
To try it locally:         mainspring dev
On your own database:      mainspring serve --database-url postgres://user@host/database

Exit codes: 0 done, 1 failed or found something, 2 wrong usage, 3 no database, or no server of a
selected service, 4 the node hung.";

const AFTER_SERVE_HELP: &str = "\
More settings, for the environment or the --config file: mainspring settings";

/// The flags of `serve` besides those of all commands: those that people type. Its other settings are in the file and the
/// environment, where each new setting belongs first.
const SERVE_FLAGS: [&str; 33] = [
    "listen",
    "health-listen",
    "api-key",
    "api-key-file",
    "allow-anonymous",
    "admin-password-file",
    "allowed-host",
    "cors-origin",
    "trusted-proxy",
    "tls-cert",
    "tls-key",
    "public-url",
    "http-base-path",
    "spool-dir",
    "studio",
    "node-id",
    "roles",
    "single-scheduler",
    "workers",
    "pool-size",
    "check-in",
    "tolerance",
    "otlp-endpoint",
    "drain-notice",
    "drain-timeout",
    "no-migrate",
    "database-wait",
    "lock-provider",
    "lock-dir",
    "signal",
    "wake",
    "redis-url",
    "rabbitmq-url",
];

/// Runs Elsa 3 workflows on one PostgreSQL database, on as many nodes as you start.
#[derive(Debug, Parser)]
#[command(name = "mainspring", version, after_help = AFTER_HELP)]
pub(super) struct ProgramArguments {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The settings of this process, from its arguments, the environment, the file of `--config` and Elsa's environment.
/// Errors: Wrong usage, help or version.
pub(super) fn of_arguments(elsa: ElsaEnvironment, arguments: &[OsString]) -> Result<ProgramArguments, clap::Error> {
    let command = elsa.apply(command_line());
    let given = without_reading(command.clone()).try_get_matches_from(arguments)?;
    refuse_as_flags(&command, &given)?;
    let mut warnings = secret_file::readable_arguments(arguments);
    let given = innermost(&given);
    let command = match given.get_one::<PathBuf>("config") {
        Some(path) => {
            let file = SettingsFile::read(path)?;
            warnings.extend(file.exposure());
            file.apply(command, given)
        }
        None => command,
    };
    let mut program = ProgramArguments::from_arg_matches(&command.try_get_matches_from(arguments)?)?;
    program.common.elsa = elsa;
    program.common.warnings = warnings;
    Ok(program)
}

/// The settings of the command itself, with those of all commands.
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, matches)| innermost(matches))
}

/// Refuses the settings of `serve` on its command line that are not flags.
fn refuse_as_flags(command: &clap::Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let (Some(serve), Some(given)) = (command.find_subcommand("serve"), matches.subcommand_matches("serve")) else {
        return Ok(());
    };
    let hidden = serve.get_arguments().filter(|argument| argument.is_hide_set());
    for argument in hidden {
        let name = argument.get_long().unwrap_or_default();
        if given.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine) {
            let message = format!(
                "--{name} is not a flag of `serve`: set {}, or {name} in the --config file\n",
                variable("serve", name)
            );
            return Err(clap::Error::raw(ErrorKind::UnknownArgument, message));
        }
    }
    Ok(())
}

/// The command line. Each setting also has the environment variable `MAINSPRING_A_B`, whose value help does not show, because it
/// may be a password.
pub(super) fn command_line() -> clap::Command {
    with_environment(ProgramArguments::command()).mut_subcommand("serve", |serve| {
        let serve = serve.after_help(AFTER_SERVE_HELP);
        serve.mut_args(|argument| {
            let is_flag = argument.get_long().is_some_and(|name| SERVE_FLAGS.contains(&name));
            argument.hide(!is_flag)
        })
    })
}

/// The environment variable of a setting. The key of another server is not that of this one.
fn variable(command: &str, name: &str) -> String {
    let of = if (command, name) == ("report", "api-key-file") {
        "ELSA_"
    } else {
        ""
    };
    format!("MAINSPRING_{of}{}", name.replace('-', "_").to_uppercase())
}

fn with_environment(command: clap::Command) -> clap::Command {
    let of = command.get_name().to_owned();
    let with_variable = |argument: clap::Arg| {
        let Some(name) = argument.get_long() else {
            return argument;
        };
        let variable = variable(&of, name);
        let argument = argument.env(variable).hide_env_values(true);
        match argument.get_action() {
            ArgAction::SetTrue => argument.value_parser(FalseyValueParser::new()),
            _ => argument,
        }
    };
    command.mut_args(with_variable).mut_subcommands(with_environment)
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show a failover: start three nodes, kill -9 the one that runs a workflow, and let another finish it; leaves nothing
    /// behind
    Demo,
    /// Try it with a private PostgreSQL, the sample workflows, and an engine that serves only this machine
    Dev(Dev),
    /// Run a node of the engine on a database
    Serve(Box<Serve>),
    /// Print all settings of `serve` with their defaults, as a file for --config
    Settings,
    /// Install Elsa Studio, the visual editor, which `serve` and `dev` then serve at /studio
    #[command(subcommand)]
    Studio(StudioCommand),
    /// Migrate the database to this version of the engine
    Migrate(MigrateSettings),
    /// Pause the cluster: no node accepts or claims anything, and accepted work waits
    Pause(PauseCommand),
    /// Resume a paused cluster
    Resume,
    /// Print whether the cluster runs or is paused, since when, by whom and why; the exit code is 1 while it is paused
    Status(ClusterStatus),
    /// List, add and delete the keys that sign resume links
    #[command(subcommand)]
    LinkKeys(LinkKeysCommand),
    /// Add, list and disable users, and set their passwords
    User {
        /// The tenant
        #[command(flatten)]
        of: TenantOf,
        /// What to do
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Make, list and revoke the API keys of programs
    Key {
        /// The tenant
        #[command(flatten)]
        of: TenantOf,
        /// What to do
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Check the invariants of the database
    Check(Check),
    /// Validate a cluster that runs elsewhere: resumes, timers, publishes, a node that stops, a rolling restart, locks
    Validate(Box<ValidateSettings>),
    /// Find out what is wrong with the cluster, its tables and its server, and how to remedy it
    Doctor(DoctorSettings),
    /// Print when a cron expression fires, and the effect of daylight saving
    Cron(CronSettings),
    /// Evaluate an expression of a definition with given variables and inputs, without a database
    Eval(Box<EvalSettings>),
    /// Move from an Elsa server
    #[command(subcommand)]
    Elsa(ElsaCommand),
    /// Measure the engine on this machine and its database
    #[cfg(feature = "bench")]
    Bench(crate::bench::Bench),
}

/// Settings of all commands.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// A TOML file of settings, each as `name = value`; `mainspring settings` prints one
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The PostgreSQL database, as postgres://user:password@host:port/database (`dev` has its own)
    #[arg(long, global = true, value_name = "URL")]
    database_url: Option<Secret>,
    /// The same database without a connection pooler, if --database-url leads to one; used in its place
    #[arg(long, global = true, value_name = "URL")]
    direct_database_url: Option<Secret>,
    /// A file with the database password, read again for each connection, so it can change while nodes run
    #[arg(long, global = true, value_name = "FILE")]
    database_password_file: Option<PathBuf>,
    /// The schema in the database that contains all tables
    #[arg(long, global = true, value_name = "NAME", default_value = "mainspring")]
    pub(super) schema: String,
    /// What to log on standard error: error, warn, info, debug, trace, or by module (mainspring::runtime=debug)
    #[arg(long, global = true, value_name = "FILTER", default_value = "info")]
    pub(super) log: String,
    /// The form of the log: text, or json with an object in each line
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text", value_enum)]
    pub(super) log_format: LogFormat,
    /// The settings in Elsa's environment variables; flags, MAINSPRING_… and the file take precedence.
    #[arg(skip)]
    pub(super) elsa: ElsaEnvironment,
    /// Secrets that other users of this machine can read.
    #[arg(skip)]
    pub(super) warnings: Vec<String>,
}

impl Common {
    /// The URL of the database, or an error if none is given.
    pub(super) fn database_url(&self) -> Result<String, Failure> {
        self.target().database_url().map(str::to_owned)
    }

    /// The database and the log filter. Flags take precedence over Elsa's environment.
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

    /// The URL in the flags, if any; the direct one first, because a node needs sessions: for locks, notifications, prepared
    /// statements and settings.
    pub(super) fn given_database_url(&self) -> Option<&str> {
        [&self.direct_database_url, &self.database_url]
            .into_iter()
            .flatten()
            .map(Secret::reveal)
            .find(|url| !url.trim().is_empty())
    }
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// For collectors of logs.
    Json,
}

/// Settings of `dev`.
#[derive(Debug, Args)]
pub(super) struct Dev {
    /// The address to listen on; a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5001", value_parser = address)]
    pub(super) listen: SocketAddr,
    /// The folder of the private PostgreSQL
    #[arg(long, value_name = "FOLDER", default_value = ".mainspring")]
    pub(super) data_dir: PathBuf,
    /// The number of nodes. With two or more, each is a separate process; ports count up from that of --listen
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = few)]
    pub(super) nodes: usize,
    #[command(flatten)]
    pub(super) studio: StudioChoice,
    #[command(flatten)]
    pub(super) mail: MailSettings,
}

/// Settings of `check`.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Print {ok, violations: [{invariant, count, sample}]}
    #[arg(long)]
    pub(super) json: bool,
}

/// Settings of `pause`.
#[derive(Debug, Args)]
pub(super) struct PauseCommand {
    /// The reason, which clients and `status` show
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    /// Also stop bursts before their next activity, and wait up to 10 s until none is under way
    #[arg(long)]
    pub(super) force_drain: bool,
}

/// Settings of `status`.
#[derive(Debug, Args)]
pub(super) struct ClusterStatus {
    /// Print the body of GET /admin/workflow-runtime/status
    #[arg(long)]
    pub(super) json: bool,
}

/// Whether the address is a loopback address.
pub(super) fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let numeric = numeric.as_deref().unwrap_or(text);
    numeric
        .parse()
        .map_err(|_| "give an address and a port, such as 127.0.0.1:5001 or [::1]:5001".to_owned())
}

#[cfg(test)]
mod tests;
