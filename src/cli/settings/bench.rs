//! Settings of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};

use super::{count, duration, few};

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
    /// How long bursts are without a node when theirs dies, hangs or is cut off
    Failover(BenchFailover),
    /// How late sleeping instances run on
    Timers(BenchTimers),
    /// How long it takes from an event until the instance that waits for it has run
    Signals(BenchSignals),
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Fault {
    /// kill -9
    Kill,
    /// It is stopped, and goes on when others have done its work
    Stop,
    /// Its connections to the database fall silent, and are closed when others have done its work
    Cut,
}

impl Fault {
    pub(in crate::cli) fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Cut => "cut",
        }
    }
}

/// Settings of `bench failover`.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct BenchFailover {
    /// How many bursts the node has in flight, each of 2 s
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_BURSTS", hide_env_values = true, default_value = "200", value_parser = count)]
    pub(in crate::cli) bursts: usize,
    /// How many times it is measured, after once to warm up
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_ROUNDS", hide_env_values = true, default_value = "20", value_parser = count)]
    pub(in crate::cli) rounds: usize,
    /// What happens to the node
    #[arg(
        long,
        value_name = "FAULT",
        env = "MAINSPRING_FAULT",
        hide_env_values = true,
        default_value = "kill"
    )]
    pub(in crate::cli) fault: Fault,
    /// How often the nodes show that they live, if not as often as by default
    #[arg(long, value_name = "DURATION", env = "MAINSPRING_CHECK_IN", hide_env_values = true, value_parser = duration)]
    pub(in crate::cli) check_in: Option<Duration>,
    /// How long a node may be silent before others take over its work, if not as long as by default
    #[arg(long, value_name = "DURATION", env = "MAINSPRING_TOLERANCE", hide_env_values = true, value_parser = duration)]
    pub(in crate::cli) tolerance: Option<Duration>,
    /// Print the outcome as one JSON object, on the last line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(in crate::cli) json: bool,
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
    /// How many keys all tasks share; unless given, each has its own. The outcome then tells how long a hand-over between
    /// sessions takes (from the drop of a handle in one until a task of another has the lock), and the longest wait
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

/// Settings of `bench timers`.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct BenchTimers {
    /// How many instances sleep
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_TIMERS", hide_env_values = true, default_value = "1000", value_parser = count)]
    pub(in crate::cli) timers: usize,
    /// Over how many seconds they are due, evenly
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SECONDS", hide_env_values = true, default_value = "10", value_parser = count)]
    pub(in crate::cli) seconds: usize,
    /// All are due at one instant instead
    #[arg(long, env = "MAINSPRING_AT_ONCE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(in crate::cli) at_once: bool,
    /// How many nodes run them, 1 to 8
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_NODES", hide_env_values = true, default_value = "1", value_parser = few)]
    pub(in crate::cli) nodes: usize,
    /// Print the outcome as one JSON object, on the last line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(in crate::cli) json: bool,
}

/// Settings of `bench signals`.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct BenchSignals {
    /// How many clients send events, each to its own instance, and the next when the one before has been met
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_CLIENTS", hide_env_values = true, default_value = "256", value_parser = count)]
    pub(in crate::cli) clients: usize,
    /// How long is measured, after one second to warm up
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SECONDS", hide_env_values = true, default_value = "10", value_parser = count)]
    pub(in crate::cli) seconds: usize,
    /// How many nodes take the events and run the instances, 1 to 8
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_NODES", hide_env_values = true, default_value = "1", value_parser = few)]
    pub(in crate::cli) nodes: usize,
    /// Print the outcome as one JSON object, on the last line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(in crate::cli) json: bool,
}
