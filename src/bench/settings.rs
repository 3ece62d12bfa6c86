//! Settings of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

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
    /// Measure lists, searches and bulk deletes among many instances, and executes beside them
    History(BenchHistory),
    /// Measure how soon observers have the commits of another node, and dispatches beside them
    Hub(BenchHub),
    /// Measure how late sleeping instances resume
    Timers(BenchTimers),
    /// Measure workflows per second, and the cost of each in engine and server
    Workflows(BenchWorkflows),
    /// Measure the time from an event until the instance that waits for it has run
    Signals(BenchSignals),
    /// Measure poll and claim among future timers, in time and buffers
    Poll(BenchPoll),
    /// Measure poll and claim while a snapshot of another session retains dead rows
    DeadRows(BenchDeadRows),
    /// Measure the resident memory of a node without and with sleeping instances
    Memory(BenchMemory),
    /// Measure how fast instances resume that are all due at one instant, and executes meanwhile
    DueAtOnce(BenchDueAtOnce),
    /// Measure the WAL of each commit of a long loop
    Loop(BenchLoop),
    /// Measure the size of the tables, and poll and claim, after many workflows
    Churn(BenchChurn),
    /// Measure executes over HTTP without and with a transaction that holds a snapshot
    Snapshot(BenchSnapshot),
    /// Draw the results of several runs as an SVG
    Plot(BenchPlot),
}

/// The value as the command line has it.
pub(super) fn name_of(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
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
    /// The check-in interval of the nodes; the default of `serve` unless given
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) check_in: Option<Duration>,
    /// How long a node may miss check-ins before it expires; the default of `serve` unless given
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
    /// Print the result as one JSON object, on the last line
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
    /// The measured time in seconds, after one second to warm up
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// The number of keys that all tasks share; unless given, each task has its own. The result then also has the time of a
    /// handoff between sessions (from the drop of a handle to the grant in another session), and the longest wait
    #[arg(long, value_name = "KEYS", value_parser = count)]
    pub(crate) contention: Option<usize>,
    /// The prefix of the key names: concurrent programs with the same prefix share keys. Random unless given
    #[arg(long, value_name = "NAME")]
    pub(crate) names: Option<String>,
    /// The number of sessions that the tasks use, like so many nodes
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = count)]
    pub(crate) sessions: usize,
    /// The lock provider
    #[arg(long, value_name = "PROVIDER", default_value = "postgres")]
    pub(crate) provider: Provider,
    /// The directory of --provider file; a temporary one unless given
    #[arg(long, value_name = "FOLDER")]
    pub(crate) lock_dir: Option<PathBuf>,
    /// The server of --provider redis and --plain-redis
    #[arg(long, value_name = "URL")]
    pub(crate) redis_url: Option<Secret>,
    /// Measure a plain use of Redis, too, in the same run: SET NX PX and an EVAL for each pair, all tasks over one connection
    #[arg(long)]
    pub(crate) plain_redis: bool,
    /// Measure the baseline, too: two statements in a round trip each, with the best of 4, 16 and 64 connections
    #[arg(long)]
    pub(crate) baseline: bool,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `bench hub`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchHub {
    /// The number of observers, each of an instance of its own
    #[arg(long, value_name = "COUNT", default_value = "50", value_parser = count)]
    pub(crate) observers: usize,
    /// The number of events whose commits are awaited at an observer, one after the other
    #[arg(long, value_name = "COUNT", default_value = "500", value_parser = count)]
    pub(crate) events: usize,
    /// The measured time of dispatches, in seconds, three times without observers and three times with them
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = count)]
    pub(crate) seconds: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `bench timers`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchTimers {
    /// The number of sleeping instances
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = count)]
    pub(crate) timers: usize,
    /// The number of seconds over which they are due, evenly
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// All are due at one instant instead
    #[arg(long)]
    pub(crate) at_once: bool,
    /// The number of nodes, 1 to 8
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = few)]
    pub(crate) nodes: usize,
    /// Print the result as one JSON object, on the last line
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
    /// The number of clients; each sends events to its own instance, one after the other
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time in seconds, after one second to warm up
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// The number of nodes, 1 to 8
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = few)]
    pub(crate) nodes: usize,
    /// The number of event names, which all instances share; unless given, each instance has a name of its own
    #[arg(long, value_name = "COUNT", value_parser = count, requires = "correlated")]
    pub(crate) names: Option<usize>,
    /// Each instance has a correlation id of its own, which its events carry
    #[arg(long)]
    pub(crate) correlated: bool,
    /// The number of further instances, which wait all the time; with --fan-out: which the event resumes
    #[arg(long, value_name = "COUNT", value_parser = many)]
    pub(crate) waiting: Option<usize>,
    /// The number of events that are published at the same time; as many as clients unless given
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub(crate) publishers: Option<usize>,
    /// The number of clients that start instances, which then wait, one after the other. The result then also has plain
    /// executes, 100 per second: alone, beside the starters, and beside starters and events, for --seconds each
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub(crate) starters: Option<usize>,
    /// Events go to the first of --nodes (2 or more), which has no workers: the instance runs at another one
    #[arg(long, conflicts_with_all = ["starters", "fan_out"])]
    pub(crate) elsewhere: bool,
    /// What carries the wake notifications of the nodes
    #[arg(long, value_name = "NAME", default_value = "postgres", value_enum)]
    pub(crate) wake: BenchWake,
    /// The broker of --wake rabbitmq
    #[arg(long, value_name = "URL")]
    pub(crate) rabbitmq_url: Option<Secret>,
    /// Measure one event that resumes all instances of --waiting instead, after one that resumes 10,000
    #[arg(long, requires = "waiting", conflicts_with_all = ["clients", "seconds", "names", "correlated", "publishers", "starters"])]
    pub(crate) fan_out: bool,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How instances are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Each client executes instances one after the other, in this process
    Execute,
    /// Clients dispatch in this process; finished instances count
    Dispatch,
    /// Each client executes over HTTP, on its own connection
    Http,
    /// Instances wait for one event, which is then sent
    Event,
    /// One instance starts children with BulkDispatchWorkflows, and waits for all
    Bulk,
    /// The same with a SetVariable at the port of each child
    BulkPorts,
    /// A loop of ExecuteWorkflow, against as many executes of a client, one after the other
    Loop,
    /// Nine workflows as activities, against the same activities written out
    Nested,
    /// A flowchart of 1,000 activities with tokens, against the same by counts
    Tokens,
    /// The iterations of a loop whose condition is JavaScript, against a loop that counts by itself
    ScriptLoop,
    /// Executes of one line beside workflows whose scripts never end, against executes alone
    Hostile,
}

impl Mode {
    /// Whether the workflows are its own, and what it reports is a rate and a ratio.
    pub(crate) fn is_composed(self) -> bool {
        match self {
            Self::Execute | Self::Dispatch | Self::Http | Self::Event => false,
            Self::Bulk
            | Self::BulkPorts
            | Self::Loop
            | Self::Nested
            | Self::Tokens
            | Self::ScriptLoop
            | Self::Hostile => true,
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

/// The journal level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JournalSetting {
    /// Journal and activity executions are written
    Full,
    /// Neither is written
    Off,
}

/// Settings of `bench workflows`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchWorkflows {
    /// A file with a workflow definition of Elsa; one line on the console unless given. Mode event: it must start with the
    /// event `bench`
    #[arg(long, value_name = "FILE")]
    pub(crate) definition: Option<PathBuf>,
    /// How instances are started
    #[arg(long, value_enum, default_value = "dispatch")]
    pub(crate) mode: Mode,
    /// When bursts commit
    #[arg(long, value_enum, default_value = "burst")]
    pub(crate) commit: CommitAt,
    /// The journal level
    #[arg(long, value_enum, default_value = "full")]
    pub(crate) journal: JournalSetting,
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
    /// The measured time in seconds, after one second to warm up
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// Mode event: the number of waiting instances. Modes dispatch, nested and tokens: the number of instances to dispatch
    /// before the measurement and before any worker starts. Modes bulk, bulk-ports and loop: the number of children.
    /// Mode script-loop: the number of iterations
    #[arg(long, value_name = "COUNT", value_parser = many)]
    pub(crate) instances: Option<usize>,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `bench poll`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchPoll {
    /// The number of future timers; first 10,000 are measured
    #[arg(long, value_name = "COUNT", default_value = "10000000", value_parser = many)]
    pub(crate) rows: usize,
}

/// Settings of `bench dead-rows`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchDeadRows {
    /// The number of due timers; enough to outlast the snapshot
    #[arg(long, value_name = "COUNT", default_value = "1000000", value_parser = many)]
    pub(crate) rows: usize,
    /// How long the snapshot is held, in seconds
    #[arg(long, value_name = "COUNT", default_value = "120", value_parser = count)]
    pub(crate) seconds: usize,
}

/// Settings of `bench memory`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchMemory {
    /// The number of sleeping instances
    #[arg(long, value_name = "COUNT", default_value = "100000", value_parser = many)]
    pub(crate) rows: usize,
}

/// Settings of `bench due-at-once`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchDueAtOnce {
    /// The number of sleeping instances, of about 1 kB on disk each
    #[arg(long, value_name = "COUNT", default_value = "10000000", value_parser = many)]
    pub(crate) rows: usize,
    /// The measured time, in seconds
    #[arg(long, value_name = "COUNT", default_value = "60", value_parser = count)]
    pub(crate) seconds: usize,
}

/// Settings of `bench loop`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchLoop {
    /// The number of iterations. The role must be able to create the extension pg_walinspect of PostgreSQL 15
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = many)]
    pub(crate) iterations: usize,
}

/// Settings of `bench churn`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchChurn {
    /// The number of workflows
    #[arg(long, value_name = "COUNT", default_value = "1000000", value_parser = many)]
    pub(crate) workflows: usize,
    /// How long a node idles before the measurement, in seconds
    #[arg(long, value_name = "COUNT", default_value = "90", value_parser = count)]
    pub(crate) seconds: usize,
}

/// Settings of `bench history`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchHistory {
    /// The number of instances that statements write
    #[arg(long, value_name = "COUNT", default_value = "3000000", value_parser = many)]
    pub(crate) rows: usize,
    /// How often each list is read
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = count)]
    pub(crate) queries: usize,
    /// The number of clients that list beside executes
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time of executes without and with those clients, in seconds each
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// At the end, delete the instances in one bulk action beside 2,000 starts a second
    #[arg(long)]
    pub(crate) delete: bool,
    /// Keep the schema, for a further run with --history
    #[arg(long)]
    pub(crate) keep: bool,
    /// The schema of an earlier run with --keep, in the place of a new one; it is kept
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) history: Option<String>,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `bench snapshot`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchSnapshot {
    /// The measured time without and with the snapshot, in seconds each
    #[arg(long, value_name = "COUNT", default_value = "120", value_parser = count)]
    pub(crate) seconds: usize,
    /// The number of executes per second
    #[arg(long, value_name = "COUNT", default_value = "300", value_parser = count)]
    pub(crate) rate: usize,
}

/// Settings of `bench plot`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchPlot {
    /// Files with the output of runs with --json; other lines are ignored. A run has the name of its file. Runs with the
    /// same name and settings are repetitions: a bar for their median, a dot for each
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The SVG; standard output unless given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
