//! Measurements on tables with more rows than nodes would write in a benchmark: `mainspring bench poll`, `dead-rows`,
//! `memory`, `due-at-once`, `loop`, `snapshot`. Statements put the rows into a temporary schema.

mod explain;
mod loop_commits;
mod poll;
mod sleepers;
mod snapshot;

use std::time::Duration;

use tokio_postgres::Client as Database;

use super::nodes::{self, node_options};
use super::report::describe_environment;
use crate::db::Session;
use crate::harness::failure::Failure;
use crate::harness::nodes::{ANY_PORT, Node, log_only};
use crate::harness::print_line;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::settings::Target;
use crate::harness::stop::unless_stopped;
pub(super) use explain::idle_buffers;
pub(super) use loop_commits::run as loop_commits;
pub(super) use poll::{dead_rows, measure_polls};
pub(super) use sleepers::{due_at_once, memory};
pub(super) use snapshot::run as snapshot;

/// Prints the environment, and runs `measure` in a temporary schema, which is dropped afterwards.
pub(super) async fn with_schema(
    target: &Target,
    measure: impl AsyncFnOnce(&ScratchDatabase) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for line in describe_environment(target.database_url()?).await? {
        print_line(&line);
    }
    nodes::with_schema(target, async |scratch, stop| {
        unless_stopped(stop, measure(scratch)).await
    })
    .await
}

/// A session with the settings of a node's, but without a statement timeout.
pub(super) async fn open(scratch: &ScratchDatabase) -> Result<Session, Failure> {
    let session = scratch.open().await?;
    execute(
        &session.client,
        "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET synchronous_commit = off",
    )
    .await?;
    Ok(session)
}

pub(super) async fn execute(database: &Database, statements: &str) -> Result<(), Failure> {
    database.batch_execute(statements).await.map_err(failed)
}

/// The value of a query with one row and the column `count`.
pub(super) async fn count(database: &Database, query: &str) -> Result<i64, Failure> {
    let row = database.query_one(query, &[]).await.map_err(failed)?;
    row.try_get("count").map_err(failed)
}

pub(super) fn failed(error: tokio_postgres::Error) -> Failure {
    let message = error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| error.message().to_owned());
    Failure::failed(format!("a statement of the benchmark failed: {message}"))
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
pub(super) async fn start_node(target: &Target, scratch: &ScratchDatabase) -> Result<Node, Failure> {
    let options = node_options(target, scratch, log_only());
    let mut node = Node::start(&options, "node-1", ANY_PORT)?;
    node.ready().await?;
    Ok(node)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
