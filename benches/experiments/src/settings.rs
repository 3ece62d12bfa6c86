//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mainspring::internals::{WorkflowOptions, count, few, many};

/// Experiments that answer questions about Mainspring's engine
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The database, without TLS; each experiment makes a schema of its own, and drops it
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "MAINSPRING_DATABASE_URL",
        hide_env_values = true
    )]
    pub(crate) database_url: Option<String>,
    /// The log filter of nodes
    #[arg(long, global = true, value_name = "FILTER", default_value = "info")]
    pub(crate) log: String,
    #[command(subcommand)]
    pub(crate) experiment: Experiment,
}

/// The experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Measure the size of the tables, and poll and claim, after many workflows
    Churn(Churn),
    /// Measure children, workflows as activities, tokens, loops with a script, and executes beside hostile scripts
    Composed(Composed),
    /// Measure executes with the token of a user and the key of an application, against the static key
    Credentials(Credentials),
    /// Measure poll and claim while a snapshot of another session retains dead rows
    DeadRows(DeadRows),
    /// Measure how fast instances resume that are all due at one instant, and executes meanwhile
    DueAtOnce(DueAtOnce),
    /// Measure one event that resumes many instances, after one that resumes 10,000
    FanOut(FanOut),
    /// Measure lists, searches and bulk deletes among many instances, and executes beside them
    History(History),
    /// Measure how soon observers have the commits of another node, and dispatches beside them
    Hub(Hub),
    /// Measure uses of resume links, and executes beside forged ones
    Links(Links),
    /// Measure locks beside two statements in a round trip each, or beside a plain use of Redis
    Locks(Locks),
    /// Measure the WAL of each commit of a long loop
    Loop(Loop),
    /// Measure the resident memory of a node without and with sleeping instances
    Memory(Memory),
    /// Measure scrapes among many instances, and dispatches with metrics against none
    Metrics(Metrics),
    /// Measure the requests of SendHttpRequest against those of a client alone
    Outgoing(Outgoing),
    /// Draw the results of several runs as an SVG
    Plot(Plot),
    /// Measure poll and claim among future timers, in time and buffers
    Poll(Poll),
    /// Measure events of shared names beside waiting instances, starts and executes
    SharedNames(SharedNames),
    /// Measure executes over HTTP without and with a transaction that holds a snapshot
    Snapshot(Snapshot),
    /// Count the statements and round trips of a workflow
    Statements(Statements),
    /// Measure executes at a node that sends traces to a collector, against one that sends none
    Traces(Traces),
    /// Measure large bodies to a workflow that reads their size against a handler that reads them
    Uploads(Uploads),
    /// Measure workflows with an event for a sink each, and how fast waiting deliveries are sent
    Webhooks(Webhooks),
}

/// What workflows are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Composition {
    /// One instance starts children with BulkDispatchWorkflows, and waits for all
    Bulk,
    /// The same with a SetVariable at the port of each child
    BulkPorts,
    /// A loop of ExecuteWorkflow, against as many executes of a client, one after another
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

/// Settings of `composed`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Composed {
    /// What workflows are made of
    #[arg(long, value_enum)]
    pub(crate) mode: Composition,
    #[command(flatten)]
    pub(crate) options: WorkflowOptions,
    /// Mode hostile: the number of clients that execute
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = count)]
    pub(crate) clients: usize,
    /// The number of nodes
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = few)]
    pub(crate) nodes: usize,
    /// Mode hostile: the measured time in seconds, of each round
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// Modes nested and tokens: the number of instances. Modes bulk, bulk-ports and loop: the number of children. Mode
    /// script-loop: the number of iterations
    #[arg(long, value_name = "COUNT", value_parser = many)]
    pub(crate) instances: Option<usize>,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the instances of `statements` are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StartMode {
    /// Each client executes instances one after another
    Execute,
    /// Clients dispatch; until all have finished
    Dispatch,
    /// Instances wait for one event, which is then sent
    Event,
}

/// Settings of `statements`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Statements {
    /// A file with a workflow definition of Elsa; one line on the console unless given. Mode event: it must start with the
    /// event `bench`
    #[arg(long, value_name = "FILE")]
    pub(crate) definition: Option<PathBuf>,
    /// How instances are started
    #[arg(long, value_enum, default_value = "dispatch")]
    pub(crate) mode: StartMode,
    #[command(flatten)]
    pub(crate) options: WorkflowOptions,
    /// The number of clients that start instances
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = count)]
    pub(crate) clients: usize,
    /// The number of instances
    #[arg(long, value_name = "COUNT", default_value = "2000", value_parser = count)]
    pub(crate) instances: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `locks`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Locks {
    /// The number of tasks that lock and unlock
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time in seconds, after one second to warm up
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// Measure beside a plain use of this Redis server: SET NX PX and an EVAL for each pair, all tasks over one connection
    #[arg(long, value_name = "URL")]
    pub(crate) redis_url: Option<String>,
    /// Where Mainspring's locks are, with --redis-url
    #[arg(long, value_enum, default_value = "redis", requires = "redis_url")]
    pub(crate) provider: LocksIn,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where Mainspring's locks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LocksIn {
    /// In the database
    Postgres,
    /// In the same Redis server
    Redis,
}

/// Settings of `hub`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Hub {
    /// The number of observers, each of an instance of its own
    #[arg(long, value_name = "COUNT", default_value = "50", value_parser = count)]
    pub(crate) observers: usize,
    /// The number of events whose commits are awaited at an observer, one after another
    #[arg(long, value_name = "COUNT", default_value = "500", value_parser = count)]
    pub(crate) events: usize,
    /// The measured time of dispatches, in seconds, three times without observers and three times with them
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = count)]
    pub(crate) seconds: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `outgoing`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Outgoing {
    /// The number of workflows, or of requests without workflows, at the same time
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = count)]
    pub(crate) clients: usize,
    /// The number of requests of each workflow, one after another
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = count)]
    pub(crate) requests: usize,
    /// The measured time of each half of a pair, in seconds
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = count)]
    pub(crate) seconds: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `uploads`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Uploads {
    /// The number of uploads at the same time
    #[arg(long, value_name = "COUNT", default_value = "4", value_parser = count)]
    pub(crate) clients: usize,
    /// The size of a body in MB
    #[arg(long, value_name = "MB", default_value = "10", value_parser = count)]
    pub(crate) megabytes: usize,
    /// The measured time of each half of a pair, in seconds
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = count)]
    pub(crate) seconds: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `credentials`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Credentials {
    /// The number of executes at the same time
    #[arg(long, value_name = "COUNT", default_value = "32", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time with each credential of a round, in seconds
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = count)]
    pub(crate) seconds: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `metrics`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Metrics {
    /// The instances among which is scraped
    #[arg(long, value_name = "COUNT", default_value = "10000000", value_parser = many)]
    pub(crate) instances: usize,
    /// The timers among which is scraped
    #[arg(long, value_name = "COUNT", default_value = "1000000", value_parser = many)]
    pub(crate) timers: usize,
    /// The number of scrapes, one after another
    #[arg(long, value_name = "COUNT", default_value = "500", value_parser = count)]
    pub(crate) scrapes: usize,
    /// The number of dispatches at the same time
    #[arg(long, value_name = "COUNT", default_value = "32", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time of each half of a pair, in seconds
    #[arg(long, value_name = "COUNT", default_value = "30", value_parser = count)]
    pub(crate) seconds: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `traces`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Traces {
    /// The number of executes at the same time
    #[arg(long, value_name = "COUNT", default_value = "32", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time of each half of a pair, in seconds
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = count)]
    pub(crate) seconds: usize,
    /// Which part of the instances is sampled
    #[arg(long, value_name = "RATIO", default_value = "0.01")]
    pub(crate) ratio: f64,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `links`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Links {
    /// The number of uses of links, one after another
    #[arg(long, value_name = "COUNT", default_value = "500", value_parser = count)]
    pub(crate) links: usize,
    /// The number of executes at the same time
    #[arg(long, value_name = "COUNT", default_value = "32", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time of each half of a pair, in seconds
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = count)]
    pub(crate) seconds: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `webhooks`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Webhooks {
    /// The number of workflows at the same time
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = count)]
    pub(crate) clients: usize,
    /// The number of deliveries that wait for a paused sink
    #[arg(long, value_name = "COUNT", default_value = "20000", value_parser = count)]
    pub(crate) deliveries: usize,
    /// The measured time of each half of a pair, in seconds
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = count)]
    pub(crate) seconds: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `shared-names`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SharedNames {
    /// The number of clients; each sends events to its own instance, one after another
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = count)]
    pub(crate) clients: usize,
    /// The measured time in seconds, after one second to warm up
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) seconds: usize,
    /// The number of nodes, 1 to 8
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = few)]
    pub(crate) nodes: usize,
    /// The number of event names, which all instances share; unless given, each instance has a name of its own. Instances
    /// differ in their correlation ids
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub(crate) names: Option<usize>,
    /// The number of further instances, which wait all the time
    #[arg(long, value_name = "COUNT", default_value = "20000", value_parser = many)]
    pub(crate) waiting: usize,
    /// The number of events that are published at the same time
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = count)]
    pub(crate) publishers: usize,
    /// The number of clients that start instances, which then wait, one after another
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = count)]
    pub(crate) starters: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `fan-out`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FanOut {
    /// The number of instances that the event resumes
    #[arg(long, value_name = "COUNT", default_value = "1000000", value_parser = many)]
    pub(crate) waiting: usize,
    /// The number of nodes, 1 to 8
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = few)]
    pub(crate) nodes: usize,
    /// Print the result as one JSON object, on the last line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Settings of `poll`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Poll {
    /// The number of future timers; first 10,000 are measured
    #[arg(long, value_name = "COUNT", default_value = "10000000", value_parser = many)]
    pub(crate) rows: usize,
}

/// Settings of `dead-rows`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeadRows {
    /// The number of due timers; enough to outlast the snapshot
    #[arg(long, value_name = "COUNT", default_value = "1000000", value_parser = many)]
    pub(crate) rows: usize,
    /// How long the snapshot is held, in seconds
    #[arg(long, value_name = "COUNT", default_value = "120", value_parser = count)]
    pub(crate) seconds: usize,
}

/// Settings of `memory`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Memory {
    /// The number of sleeping instances
    #[arg(long, value_name = "COUNT", default_value = "100000", value_parser = many)]
    pub(crate) rows: usize,
}

/// Settings of `due-at-once`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DueAtOnce {
    /// The number of sleeping instances, of about 1 kB on disk each
    #[arg(long, value_name = "COUNT", default_value = "10000000", value_parser = many)]
    pub(crate) rows: usize,
    /// The measured time, in seconds
    #[arg(long, value_name = "COUNT", default_value = "60", value_parser = count)]
    pub(crate) seconds: usize,
}

/// Settings of `loop`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Loop {
    /// The number of iterations. The role must be able to create the extension pg_walinspect of PostgreSQL 15
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = many)]
    pub(crate) iterations: usize,
}

/// Settings of `churn`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Churn {
    /// The number of workflows
    #[arg(long, value_name = "COUNT", default_value = "1000000", value_parser = many)]
    pub(crate) workflows: usize,
    /// How long a node idles before the measurement, in seconds
    #[arg(long, value_name = "COUNT", default_value = "90", value_parser = count)]
    pub(crate) seconds: usize,
}

/// Settings of `history`.
#[derive(Clone, Debug, Args)]
pub(crate) struct History {
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

/// Settings of `snapshot`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Snapshot {
    /// The measured time without and with the snapshot, in seconds each
    #[arg(long, value_name = "COUNT", default_value = "120", value_parser = count)]
    pub(crate) seconds: usize,
    /// The number of executes per second
    #[arg(long, value_name = "COUNT", default_value = "300", value_parser = count)]
    pub(crate) rate: usize,
}

/// Settings of `plot`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Plot {
    /// Files with the output of runs with --json; other lines are ignored. A run has the name of its file. Runs with the
    /// same name and settings are repetitions: a bar for their median, a dot for each
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The SVG; standard output unless given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
