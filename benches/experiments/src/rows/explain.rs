//! The cost of the poll and of the claim, by `EXPLAIN (ANALYZE, BUFFERS)`.

use chrono::{TimeDelta, Utc};
use mainspring::internals::{Failure, claim_statement, poll_statement};
use serde_json::Value;
use tokio_postgres::Client as Database;
use tokio_postgres::types::ToSql;

use crate::database::{execute, failed};

/// The number of instances that a poll returns and that a claim takes.
pub(super) const BATCH: i64 = 64;

/// The bytes that a claim may take.
pub(super) const ROOM: i64 = 16 << 20;

/// The limit of rows of one instance in a claim.
pub(super) const ROWS_PER_INSTANCE: i64 = 100;

/// The cost of one statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) millis: f64,
    pub(super) buffers: f64,
}

/// The cost of a poll, which changes nothing.
pub(super) async fn poll_cost(database: &Database) -> Result<Cost, Failure> {
    let none: [&str; 0] = [];
    let head = Utc::now() - TimeDelta::days(1);
    explain(
        database,
        poll_statement(),
        &[
            &BATCH,
            &&none[..],
            &&none[..],
            &false,
            &head,
            &None::<i64>,
            &1i32,
            &0i32,
        ],
    )
    .await
}

/// The cost of a claim of these instances, which is rolled back.
pub(super) async fn claim(database: &Database, instances: &[String]) -> Result<Cost, Failure> {
    let tenants = vec![""; instances.len()];
    execute(database, "BEGIN").await?;
    let cost = explain(
        database,
        claim_statement(),
        &[&1i64, &tenants, &instances, &ROWS_PER_INSTANCE, &ROOM],
    )
    .await;
    execute(database, "ROLLBACK").await?;
    cost
}

async fn explain(database: &Database, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Cost, Failure> {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}");
    let row = database.query_one(&explain, parameters).await.map_err(failed)?;
    let report: Value = row.try_get("QUERY PLAN").map_err(failed)?;
    let field = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    Ok(Cost {
        millis: field("/0/Execution Time"),
        buffers: field("/0/Plan/Shared Hit Blocks") + field("/0/Plan/Shared Read Blocks"),
    })
}

/// The buffers that a poll and a claim read while no instance has work. The second execution counts: the first one sets
/// hint bits.
pub(crate) async fn idle_buffers(database: &Database) -> Result<[f64; 2], Failure> {
    let instances: Vec<String> = (0..BATCH).map(|number| format!("i{number}")).collect();
    poll_cost(database).await?;
    let polled = poll_cost(database).await?;
    claim(database, &instances).await?;
    let claimed = claim(database, &instances).await?;
    Ok([polled.buffers, claimed.buffers])
}
