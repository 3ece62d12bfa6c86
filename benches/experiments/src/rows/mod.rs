//! Measurements on tables with more rows than nodes would write in a benchmark: `poll`, `dead-rows`,
//! `memory`, `due-at-once`, `loop`, `snapshot`. Statements put the rows into a temporary schema.

mod explain;
mod loop_commits;
mod poll;
mod sleepers;
mod snapshot;

use std::time::Duration;

use mainspring::internals::{
    ANY_PORT, Failure, Node, ScratchDatabase, Target, describe_environment, log_only, node_options, print_line,
    unless_stopped,
};
use tokio_postgres::Client as Database;

use crate::database::execute;
pub(crate) use explain::idle_buffers;
pub(crate) use loop_commits::run as loop_commits;
pub(crate) use poll::{dead_rows, measure_polls};
pub(crate) use sleepers::{due_at_once, memory};
pub(crate) use snapshot::run as snapshot;

/// Prints the environment, and runs `measure` in a temporary schema, which is dropped afterwards.
pub(crate) async fn with_schema(
    target: &Target,
    measure: impl AsyncFnOnce(&ScratchDatabase) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for line in describe_environment(target.database_url()?).await? {
        print_line(&line);
    }
    mainspring::internals::with_schema(target, async |scratch, stop| {
        unless_stopped(stop, measure(scratch)).await
    })
    .await
}

/// Inserts the timers `first` to `last`, due at an interval from now, a millisecond apart.
async fn insert_timers(database: &Database, first: i64, last: i64, due_in: &str) -> Result<(), Failure> {
    let insert = format!(
        "INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
         SELECT '', 'i' || n, 'b', t.at, t.at
         FROM generate_series({first}, {last}) n,
              LATERAL (SELECT now() + interval '{due_in}' + n * interval '1 millisecond') t(at)"
    );
    execute(database, &insert).await?;
    execute(database, "VACUUM ANALYZE timer").await
}

/// Starts a node and waits until it is ready.
pub(crate) async fn start_node(target: &Target, scratch: &ScratchDatabase) -> Result<Node, Failure> {
    let options = node_options(target, scratch, log_only());
    let mut node = Node::start(&options, "node-1", ANY_PORT)?;
    node.ready().await?;
    Ok(node)
}

/// A line of the memory of a node's process, in MB: what is resident now (`VmRSS:`), or was at most (`VmHWM:`).
pub(crate) fn memory_of(node: &Node, line: &str) -> Result<f64, Failure> {
    let file = format!("/proc/{}/status", node.pid());
    let text = std::fs::read_to_string(&file).map_err(|error| Failure::failed(format!("{file}: {error}")))?;
    let found = text.lines().find_map(|found| found.strip_prefix(line));
    let kilobytes: Option<f64> = found.and_then(|found| found.split_whitespace().next()?.parse().ok());
    kilobytes
        .map(|kilobytes| kilobytes / 1024.0)
        .ok_or_else(|| Failure::failed(format!("{file} has no {line}")))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
