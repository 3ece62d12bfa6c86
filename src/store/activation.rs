//! Finishes a publish that changes the activation strategy of a workflow.
//!
//! A start or a burst written by a statement whose snapshot is older than the publish leaves no row that the new strategy
//! finds. Its transaction may have no id yet when the publish commits, so ids do not show whether it has ended. But every
//! writer locks the table of work before its statement takes a snapshot.
//!
//! # Invariants
//!
//! - Until earlier instances are counted (`definition.seeding` is 2), every start under the new strategy is refused as busy
//!   and writes nothing. Starts of other workflows are not affected.
//! - They are counted by a transaction that begins after all transactions that had locked the table of work when the publish
//!   was committed have ended: it sees everything that did not see the publish.
//! - A second step, after the same wait, prunes keys whose instance ended or changed its correlation id in the meantime;
//!   until then such a key counts only while it is still true.
//! - Each step is done once: by the publisher, or after its crash by a job of the cluster.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::Instant;

use super::code::Seeding;
use crate::db::{Pool, columns, within};
use crate::failpoint;
use crate::id::{DefinitionId, TenantId};
use crate::{Error, Result};

const STAGE: &str = include_str!("../../sql/queries/activation/stage.sql");
const WRITERS: &str = include_str!("../../sql/queries/activation/writers.sql");
const STEP: &str = include_str!("../../sql/queries/activation/step.sql");
const SEED: &str = include_str!("../../sql/queries/activation/seed.sql");
const PRUNE: &str = include_str!("../../sql/queries/activation/prune.sql");
const LOCK: &str = include_str!("../../sql/queries/definition/lock.sql");

/// How long to wait for other transactions before the step is left to a later attempt.
const WRITERS_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval between two checks for these transactions.
const WRITERS_INTERVAL: Duration = Duration::from_millis(5);

/// How long a step may take: it reads the instances of a workflow, or all with a correlation id.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a start or an event waits for a strategy that was published a moment ago, and the interval between two attempts.
pub(super) const UNSEEDED_TIMEOUT: Duration = Duration::from_secs(3);
pub(super) const UNSEEDED_INTERVAL: Duration = Duration::from_millis(20);

/// The error for a start or an event after that timeout.
pub(super) fn unseeded() -> Error {
    Error::unavailable(
        "database-busy",
        "the activation strategy of the workflow was published a moment ago, and its running instances are being counted; try again",
    )
}

/// A definition with a step to do.
struct Stage {
    tenant: String,
    definition: String,
    version: String,
    activation: i16,
    seeding: i16,
}

async fn stages(pool: &Pool, tenant: Option<&str>, definition: Option<&str>) -> Result<Vec<Stage>> {
    let rows = pool.query(STAGE, &[&tenant, &definition]).await?;
    let at = columns!(rows; tenant_id, definition_id, version_id, activation_strategy, seeding)?;
    Ok(rows
        .iter()
        .map(|row| Stage {
            tenant: row.get(at.tenant_id),
            definition: row.get(at.definition_id),
            version: row.get(at.version_id),
            activation: row.get(at.activation_strategy),
            seeding: row.get(at.seeding),
        })
        .collect())
}

/// Does the steps that a publish left, if any. [`Error::is_unavailable`]: another transaction did not end in time, and a later
/// attempt does them. If the future is dropped, each step is done or not.
pub(crate) async fn finish_publish(
    pool: &Pool,
    lock_class: i32,
    tenant: &TenantId,
    definition: &DefinitionId,
) -> Result<()> {
    while finish_step(pool, lock_class, Some(tenant.as_str()), Some(definition.as_str())).await? {}
    Ok(())
}

/// Does the steps that publishers left that crashed or timed out. One that fails does not stop the others; returns the last
/// error.
pub(crate) async fn finish_all_publishes(pool: &Pool, lock_class: i32) -> Result<()> {
    // Each has two steps at most, and a new publish has its own publisher.
    for _ in 0..2 {
        if !finish_step(pool, lock_class, None, None).await? {
            break;
        }
    }
    Ok(())
}

/// Does one step of each definition; returns whether there was any.
async fn finish_step(pool: &Pool, lock_class: i32, tenant: Option<&str>, definition: Option<&str>) -> Result<bool> {
    // Read before the wait: a later publish is not included, and changes the step.
    let stages = stages(pool, tenant, definition).await?;
    if stages.is_empty() {
        return Ok(false);
    }
    wait_for_writers(pool).await?;
    failpoint::hit("activation.waited").await?;
    let mut outcome = Ok(true);
    for stage in stages {
        let connection = pool.exclusive().await?;
        match within(STEP_TIMEOUT, step(connection.client()?, lock_class, &stage)).await {
            Ok(()) => connection.give_back(),
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

/// Waits until every transaction has ended that writes work now. [`Error::is_unavailable`] if one does not end in time.
pub(super) async fn wait_for_writers(pool: &Pool) -> Result<()> {
    let until = Instant::now() + WRITERS_TIMEOUT;
    let mut remaining: Option<Vec<String>> = None;
    loop {
        let still: Vec<String> = pool.query_one(WRITERS, &[&remaining]).await?.get("writers");
        if still.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(unseeded().caused_by(format!("{} transactions do not end", still.len())));
        }
        remaining = Some(still);
        failpoint::hit("activation.waits").await?;
        tokio::time::sleep(WRITERS_INTERVAL).await;
    }
}

async fn step(client: &Object, lock_class: i32, stage: &Stage) -> Result<()> {
    let (tenant, definition) = (&stage.tenant, &stage.definition);
    client
        .batch_execute("BEGIN; SET LOCAL statement_timeout = '50s'")
        .await?;
    client.execute(LOCK, &[&lock_class, tenant, definition]).await?;
    let done = client.execute(STEP, &[tenant, &stage.version, &stage.seeding]).await?;
    if done == 0 {
        client.batch_execute("ROLLBACK").await?;
        return Ok(());
    }
    if stage.seeding == Seeding::Seed.number() {
        client.execute(SEED, &[tenant, definition, &stage.activation]).await?;
    } else {
        client.execute(PRUNE, &[tenant, definition]).await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}
