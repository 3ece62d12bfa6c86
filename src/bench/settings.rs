//! Settings of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};

use crate::harness::arguments::{count, duration, few, many, several};

/// Settings of `bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Pairs of lock and unlock
    Locks(BenchLocks),
    /// How long bursts are without a node when theirs dies, hangs or is cut off
    Failover(BenchFailover),
    /// How late sleeping instances run on
    Timers(BenchTimers),
    /// Workflows per second, and what each costs engine and server
    Workflows(BenchWorkflows),
    /// How long it takes from an event until the instance that waits for it has run
    Signals(BenchSignals),
    /// Draw the outcomes of several runs as an SVG
    Plot(BenchPlot),
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// kill -9
    Kill,
    /// It is stopped, and goes on when others have done its work
    Stop,
    /// Its connections to the database fall silent, and are closed when others have done its work
    Cut,
}

impl Fault {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Cut => "cut",
        }
    }
}

/// Settings of `bench failover`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchFailover {
    /// How many bursts the node has in flight, each of 2 s
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_BURSTS", hide_env_values = true, default_value = "200", value_parser = count)]
    pub(crate) bursts: usize,
    /// How many times it is measured, after once to warm up
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_ROUNDS", hide_env_values = true, default_value = "20", value_parser = count)]
    pub(crate) rounds: usize,
    /// What happens to the node
    #[arg(
        long,
        value_name = "FAULT",
        env = "MAINSPRING_FAULT",
        hide_env_values = true,
        default_value = "kill"
    )]
    pub(crate) fault: Fault,
    /// How often the nodes show that they live, if not as often as by default
    #[arg(long, value_name = "DURATION", env = "MAINSPRING_CHECK_IN", hide_env_values = true, value_parser = duration)]
    pub(crate) check_in: Option<Duration>,
    /// How long a node may be silent before others take over its work, if not as long as by default
    #[arg(long, value_name = "DURATION", env = "MAINSPRING_TOLERANCE", hide_env_values = true, value_parser = duration)]
    pub(crate) tolerance: Option<Duration>,
    /// Print the outcome as one JSON object, on the last line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}

/// Where the locks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Provider {
    Postgres,
    Local,
    File,
}

/// Settings of `bench locks`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchLocks {
    /// How many tasks lock and unlock
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_CLIENTS", hide_env_values = true, default_value = "256", value_parser = count)]
    pub(crate) clients: usize,
    /// How long is measured, after one second to warm up
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SECONDS", hide_env_values = true, default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// How many keys all tasks share; unless given, each has its own. The outcome then tells how long a hand-over between
    /// sessions takes (from the drop of a handle in one until a task of another has the lock), and the longest wait
    #[arg(long, value_name = "KEYS", env = "MAINSPRING_CONTENTION", hide_env_values = true, value_parser = count)]
    pub(crate) contention: Option<usize>,
    /// How the names of the keys begin: programs that run at the same time with the same one share them. Random unless given
    #[arg(long, value_name = "NAME", env = "MAINSPRING_NAMES", hide_env_values = true)]
    pub(crate) names: Option<String>,
    /// How many sessions the tasks are spread over, as over so many nodes
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SESSIONS", hide_env_values = true, default_value = "1", value_parser = count)]
    pub(crate) sessions: usize,
    /// Where the locks are
    #[arg(
        long,
        value_name = "PROVIDER",
        env = "MAINSPRING_PROVIDER",
        hide_env_values = true,
        default_value = "postgres"
    )]
    pub(crate) provider: Provider,
    /// The directory of --provider file; a temporary one unless given
    #[arg(long, value_name = "FOLDER", env = "MAINSPRING_LOCK_DIR", hide_env_values = true)]
    pub(crate) lock_dir: Option<PathBuf>,
    /// Measure the plain way, too: two statements, each its own round trip, at the best of 4, 16 and 64 connections
    #[arg(long, env = "MAINSPRING_BASELINE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) baseline: bool,
    /// Print the outcome as one JSON object, on the last line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}

/// Settings of `bench timers`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchTimers {
    /// How many instances sleep
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_TIMERS", hide_env_values = true, default_value = "1000", value_parser = count)]
    pub(crate) timers: usize,
    /// Over how many seconds they are due, evenly
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SECONDS", hide_env_values = true, default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// All are due at one instant instead
    #[arg(long, env = "MAINSPRING_AT_ONCE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) at_once: bool,
    /// How many nodes run them, 1 to 8
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_NODES", hide_env_values = true, default_value = "1", value_parser = few)]
    pub(crate) nodes: usize,
    /// Print the outcome as one JSON object, on the last line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}

/// Settings of `bench signals`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchSignals {
    /// How many clients send events, each to its own instance, and the next when the one before has been met
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_CLIENTS", hide_env_values = true, default_value = "256", value_parser = count)]
    pub(crate) clients: usize,
    /// How long is measured, after one second to warm up
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SECONDS", hide_env_values = true, default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// How many nodes take the events and run the instances, 1 to 8
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_NODES", hide_env_values = true, default_value = "1", value_parser = few)]
    pub(crate) nodes: usize,
    /// Print the outcome as one JSON object, on the last line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}

/// By which door instances come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Each client executes one after the other, in this process
    Execute,
    /// Clients dispatch, in this process; counted is what has finished
    Dispatch,
    /// Each client executes over HTTP, on a connection of its own
    Http,
    /// Instances wait for one event, which is then sent
    Event,
}

impl Mode {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Dispatch => "dispatch",
            Self::Http => "http",
            Self::Event => "event",
        }
    }
}

/// When bursts commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CommitAt {
    /// At their end
    Burst,
    /// After each activity, too
    Activity,
}

/// What is written down beside the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JournalLevel {
    /// Journal and activity executions
    Full,
    /// Neither
    Off,
}

/// Settings of `bench workflows`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchWorkflows {
    /// The workflow, a file as Elsa exports them; one line on the console unless given. Of event: it must wait for the
    /// event `bench` first
    #[arg(long, value_name = "FILE", env = "MAINSPRING_DEFINITION", hide_env_values = true)]
    pub(crate) definition: Option<PathBuf>,
    /// By which door instances come
    #[arg(
        long,
        value_enum,
        env = "MAINSPRING_MODE",
        hide_env_values = true,
        default_value = "dispatch"
    )]
    pub(crate) mode: Mode,
    /// When bursts commit
    #[arg(
        long,
        value_enum,
        env = "MAINSPRING_COMMIT",
        hide_env_values = true,
        default_value = "burst"
    )]
    pub(crate) commit: CommitAt,
    /// What is written down beside the state
    #[arg(
        long,
        value_enum,
        env = "MAINSPRING_JOURNAL",
        hide_env_values = true,
        default_value = "full"
    )]
    pub(crate) journal: JournalLevel,
    /// How many clients start instances
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_CLIENTS", hide_env_values = true, default_value = "64", value_parser = count)]
    pub(crate) clients: usize,
    /// How many nodes run them, 1 to 16 (with more than 8, --pool-size 1)
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_NODES", hide_env_values = true, default_value = "1", value_parser = several)]
    pub(crate) nodes: usize,
    /// How many bursts each node runs at the same time
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_WORKERS", hide_env_values = true, default_value = "512", value_parser = count)]
    pub(crate) workers: usize,
    /// Pooled connections of each node to the database; with 1 it has as few as it can
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_POOL_SIZE", hide_env_values = true, default_value = "8", value_parser = count)]
    pub(crate) pool_size: usize,
    /// How long is measured, after one second to warm up
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SECONDS", hide_env_values = true, default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// Of event: how many instances wait. Of dispatch: so many are dispatched before the clock starts and before any
    /// node works, and are measured to the last
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_INSTANCES", hide_env_values = true, value_parser = many)]
    pub(crate) instances: Option<usize>,
    /// Print the outcome as one JSON object, on the last line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}

/// Settings of `bench plot`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchPlot {
    /// What runs with --json printed, each as it came; other lines in it may stay. A run is called as its file is, and
    /// runs of one name and the same settings are repetitions: a bar for their median, a dot for each
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The SVG; standard output unless given
    #[arg(short, long, value_name = "FILE", env = "MAINSPRING_OUTPUT", hide_env_values = true)]
    pub(crate) output: Option<PathBuf>,
}
