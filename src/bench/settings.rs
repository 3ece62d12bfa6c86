//! Settings of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::measured_workflow::{FirstActivity, WorkflowOptions};
use crate::harness::secret::Secret;
use crate::harness::settings::{count, duration, few, many, several};

/// Settings of `bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure pairs of lock and unlock
    Locks(BenchLocks),
    /// Measure the take-over of bursts when their node is killed, stopped or cut off
    Failover(BenchFailover),
    /// Measure how late sleeping instances resume
    Timers(BenchTimers),
    /// Measure workflows per second, and the cost of each in engine and server
    Workflows(BenchWorkflows),
    /// Measure the time from an event until the instance that waits for it has run
    Signals(BenchSignals),
}

/// A fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NodeFault {
    /// kill -9
    Kill,
    /// SIGSTOP, and SIGCONT after the take-over
    Stop,
    /// Its connections to the database are blocked, and closed after the take-over
    Cut,
}

/// Settings of `bench failover`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchFailover {
    /// The number of bursts in flight on the node, each of 2 s
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = count)]
    pub(crate) bursts: usize,
    /// The number of measured rounds, after one to warm up
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = count)]
    pub(crate) rounds: usize,
    /// The fault of the node
    #[arg(long, value_name = "FAULT", default_value = "kill")]
    pub(crate) fault: NodeFault,
    /// The check-in interval of the nodes; by default that of `serve`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) check_in: Option<Duration>,
    /// How long a node may miss check-ins before it expires; by default that of `serve`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) tolerance: Option<Duration>,
    /// What keeps the locks of instances, as for `serve`
    #[arg(long, value_name = "NAME", default_value = "postgres")]
    pub(crate) lock_provider: String,
    /// The server of --lock-provider redis
    #[arg(long, value_name = "URL")]
    pub(crate) redis_url: Option<Secret>,
    /// The folder of --lock-provider file
    #[arg(long, value_name = "FOLDER")]
    pub(crate) lock_dir: Option<PathBuf>,
    /// Print the result as one JSON object on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// A lock provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Provider {
    Postgres,
    Local,
    File,
    Redis,
}

/// Settings of `bench locks`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchLocks {
    /// The number of tasks that lock and unlock
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time in seconds, after a warm-up of one second
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// The number of keys that all tasks share; by default each task has its own. With shared keys the result also has the
    /// time of a handoff between sessions (from the drop of a handle to the grant in another session), and the longest wait
    #[arg(long, value_name = "KEYS", value_parser = count)]
    pub(crate) contention: Option<usize>,
    /// The prefix of the key names: concurrent programs with the same prefix share keys. Random by default
    #[arg(long, value_name = "NAME")]
    pub(crate) names: Option<String>,
    /// The number of sessions that the tasks use, like as many nodes
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count)]
    pub(crate) sessions: usize,
    /// The lock provider
    #[arg(long, value_name = "PROVIDER", default_value = "postgres")]
    pub(crate) provider: Provider,
    /// The directory of --provider file; a temporary one by default
    #[arg(long, value_name = "FOLDER")]
    pub(crate) lock_dir: Option<PathBuf>,
    /// The server of --provider redis
    #[arg(long, value_name = "URL")]
    pub(crate) redis_url: Option<Secret>,
    /// Print the result as one JSON object on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `bench timers`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchTimers {
    /// The number of sleeping instances
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = count)]
    pub(crate) timers: usize,
    /// The number of seconds over which they are evenly due
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// Make all of them due at one instant instead
    #[arg(long)]
    pub(crate) at_once: bool,
    /// The number of nodes, 1 to 8
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = few)]
    pub(crate) nodes: usize,
    /// Print the result as one JSON object on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What carries the wake notifications of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchWake {
    /// NOTIFY of the database
    Postgres,
    /// A RabbitMQ broker
    Rabbitmq,
}

/// Settings of `bench signals`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchSignals {
    /// The number of clients; each sends events to its own instance, one after another
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time in seconds, after a warm-up of one second
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// The number of nodes, 1 to 8
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = few)]
    pub(crate) nodes: usize,
    /// Send events to the first of --nodes (2 or more), which has no workers, so the instance runs on another one
    #[arg(long)]
    pub(crate) elsewhere: bool,
    /// What carries the wake notifications of the nodes
    #[arg(long, value_name = "NAME", default_value = "postgres", value_enum)]
    pub(crate) wake: BenchWake,
    /// The broker of --wake rabbitmq
    #[arg(long, value_name = "URL")]
    pub(crate) rabbitmq_url: Option<Secret>,
    /// Print the result as one JSON object on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How instances are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Each client executes instances one after another, in this process
    Execute,
    /// Clients dispatch in this process; finished instances count
    Dispatch,
    /// Each client executes over HTTP, on its own connection
    Http,
    /// Each client requests the URL of a workflow, on its own connection
    Endpoint,
    /// Instances wait for one event, which is then sent
    Event,
}

impl Mode {
    /// If clients use nodes of their own processes.
    pub(crate) fn is_over_http(self) -> bool {
        matches!(self, Self::Http | Self::Endpoint)
    }

    /// What its workflows begin with.
    pub(crate) fn first_activity(self) -> FirstActivity {
        match self {
            Self::Execute | Self::Dispatch | Self::Http => FirstActivity::Line,
            Self::Event => FirstActivity::Event,
            Self::Endpoint => FirstActivity::Endpoint,
        }
    }
}

/// Settings of `bench workflows`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchWorkflows {
    /// A file with an Elsa workflow definition; by default one that writes a line to the console. In mode event it must
    /// start with the event `bench`, in mode endpoint with an HttpEndpoint of GET bench, and respond
    #[arg(long, value_name = "FILE")]
    pub(crate) definition: Option<PathBuf>,
    /// How instances are started
    #[arg(long, value_enum, default_value = "dispatch")]
    pub(crate) mode: Mode,
    #[command(flatten)]
    pub(crate) options: WorkflowOptions,
    /// The number of clients that start instances
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = count)]
    pub(crate) clients: usize,
    /// The number of nodes, 1 to 16 (with more than 8, --pool-size 1)
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = several)]
    pub(crate) nodes: usize,
    /// The number of concurrent bursts of each node
    #[arg(long, value_name = "COUNT", default_value = "512", value_parser = count)]
    pub(crate) workers: usize,
    /// The number of pooled database connections of each node
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = count)]
    pub(crate) pool_size: usize,
    /// The measured time in seconds, after a warm-up of one second
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// In mode event, the number of waiting instances. In mode dispatch, the number of instances to dispatch before the
    /// measurement and before any worker starts
    #[arg(long, value_name = "COUNT", value_parser = many)]
    pub(crate) instances: Option<usize>,
    /// Before the measurement, open a transaction that holds a snapshot until its end, as a backup does, and delete 200,000 keys
    /// of ended instances and 100,000 finished fan-outs, which no vacuum can remove meanwhile
    #[arg(long)]
    pub(crate) held_snapshot: bool,
    /// Print the result as one JSON object on the last line
    #[arg(long)]
    pub(crate) json: bool,
}
