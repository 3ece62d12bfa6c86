//! Settings of `bench`.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};

use super::count;

/// Settings of `bench`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Bench {
    #[command(subcommand)]
    pub(in crate::cli) command: BenchCommand,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum BenchCommand {
    /// Pairs of lock and unlock
    Locks(BenchLocks),
}

/// Where the locks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Provider {
    Postgres,
    Local,
    File,
}

/// Settings of `bench locks`.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct BenchLocks {
    /// How many tasks lock and unlock
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_CLIENTS", hide_env_values = true, default_value = "256", value_parser = count)]
    pub(in crate::cli) clients: usize,
    /// How long is measured, after one second to warm up
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SECONDS", hide_env_values = true, default_value = "10", value_parser = count)]
    pub(in crate::cli) seconds: usize,
    /// How many keys all tasks share; unless given, each has its own
    #[arg(long, value_name = "KEYS", env = "MAINSPRING_CONTENTION", hide_env_values = true, value_parser = count)]
    pub(in crate::cli) contention: Option<usize>,
    /// How many sessions the tasks are spread over, as over so many nodes
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SESSIONS", hide_env_values = true, default_value = "1", value_parser = count)]
    pub(in crate::cli) sessions: usize,
    /// Where the locks are
    #[arg(
        long,
        value_name = "PROVIDER",
        env = "MAINSPRING_PROVIDER",
        hide_env_values = true,
        default_value = "postgres"
    )]
    pub(in crate::cli) provider: Provider,
    /// The directory of --provider file; a temporary one unless given
    #[arg(long, value_name = "FOLDER", env = "MAINSPRING_LOCK_DIR", hide_env_values = true)]
    pub(in crate::cli) lock_dir: Option<PathBuf>,
    /// Measure the plain way, too: two statements, each its own round trip, at the best of 4, 16 and 64 connections
    #[arg(long, env = "MAINSPRING_BASELINE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(in crate::cli) baseline: bool,
    /// Print the outcome as one JSON object, on the last line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(in crate::cli) json: bool,
}
