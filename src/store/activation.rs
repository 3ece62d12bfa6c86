//! What a publish leaves to do that makes the activation strategy of a workflow another.
//!
//! A start that was accepted, and a burst that was committed, by a statement whose snapshot is older than the publish
//! has written no row that the new strategy would find; and it may have no transaction id yet when the publish commits,
//! so that no comparison of ids tells whether it is over. But whoever writes holds the lock of the table of work before
//! his statement takes its snapshot.
//!
//! # Invariants
//!
//! - Until what was there before is noted (`definition.seeding` is 2), every start under the new strategy is refused as
//!   busy, and writes nothing. Starts of other workflows do not notice.
//! - The notes are made by a transaction that begins when all are gone that had the table of work locked after the
//!   publish was committed: it sees everything that could not see the publish.
//! - What is noted and ended, or took another correlation id, in the same moment is thrown away by a second step, after
//!   the same wait; until then the row counts only while what it tells is so.
//! - Each step is done once, whoever does it: the publisher, or after his death a job of the cluster.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::Instant;

use super::code::Seeding;
use crate::db::{Pool, columns, within};
use crate::failpoint;
use crate::id::{DefinitionId, StimulusHash, TenantId};
use crate::{Error, Result};

const STAGE: &str = include_str!("../../sql/queries/activation/stage.sql");
const WRITERS: &str = include_str!("../../sql/queries/activation/writers.sql");
const STEP: &str = include_str!("../../sql/queries/activation/step.sql");
const SEED: &str = include_str!("../../sql/queries/activation/seed.sql");
const SWEEP: &str = include_str!("../../sql/queries/activation/sweep.sql");
const TRIGGERS: &str = include_str!("../../sql/queries/activation/triggers.sql");
const LOCK: &str = include_str!("../../sql/queries/definition/lock.sql");
const TRIGGER_LOCK: &str = include_str!("../../sql/queries/trigger/lock.sql");
const TRIGGER_MATCH: &str = include_str!("../../sql/queries/trigger/match_inbox.sql");

/// How long the transactions of others are waited for, before it is left to a later turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether they are over.
const LOOK: Duration = Duration::from_millis(5);

/// How long a step may take: it reads what runs, and what ran, of a workflow, or with correlation ids of all.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// What makes a start wait, or an event, for a strategy that was published a moment ago, and how often it asks.
pub(super) const UNSEEDED_PATIENCE: Duration = Duration::from_secs(3);
pub(super) const UNSEEDED_LOOK: Duration = Duration::from_millis(20);

/// The error of a start, or of an event, whose patience is over.
pub(super) fn unseeded() -> Error {
    Error::unavailable(
        "database-busy",
        "the activation strategy of the workflow was published a moment ago, and what runs is being counted; try again",
    )
}

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

/// Does what a publish has left to do, if anything. [`Error::is_unavailable`]: a transaction of others did not end in
/// time; it is to be done later. Dropped half-way, each step is done or not.
pub(crate) async fn settle(pool: &Pool, lock_class: i32, tenant: &TenantId, definition: &DefinitionId) -> Result<()> {
    while settle_those(pool, lock_class, Some(tenant.as_str()), Some(definition.as_str())).await? {}
    Ok(())
}

/// Does what publishers have left to do who died, or lost their patience. One that fails keeps no other from its turn;
/// the last error is told.
pub(crate) async fn settle_all(pool: &Pool, lock_class: i32) -> Result<()> {
    // Each has two steps at most, and a new publish has its own publisher.
    for _ in 0..2 {
        if !settle_those(pool, lock_class, None, None).await? {
            break;
        }
    }
    Ok(())
}

/// One step of each; whether there was any.
async fn settle_those(pool: &Pool, lock_class: i32, tenant: Option<&str>, definition: Option<&str>) -> Result<bool> {
    // Before the wait: a publish that comes later is not meant, and its steps are found not to be these.
    let stages = stages(pool, tenant, definition).await?;
    if stages.is_empty() {
        return Ok(false);
    }
    writers_end(pool).await?;
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

/// Waits until every transaction is over that is writing work now.
async fn writers_end(pool: &Pool) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut left: Option<Vec<String>> = None;
    loop {
        let still: Vec<String> = pool.query_one(WRITERS, &[&left]).await?.get("writers");
        if still.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(unseeded().caused_by(format!("{} transactions do not end", still.len())));
        }
        left = Some(still);
        failpoint::hit("activation.waits").await?;
        tokio::time::sleep(LOOK).await;
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
        matched(client, lock_class, stage).await?;
    } else {
        client.execute(SWEEP, &[tenant, definition]).await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}

/// Starts what the inbox keeps for the triggers: the publish could not, as it did not know what counts.
async fn matched(client: &Object, lock_class: i32, stage: &Stage) -> Result<()> {
    let (tenant, definition) = (&stage.tenant, &stage.definition);
    let rows = client.query(TRIGGERS, &[tenant, definition]).await?;
    let at = columns!(rows; hash)?;
    let keys: Vec<i32> = rows
        .iter()
        .filter_map(|row| <[u8; 32]>::try_from(row.get::<_, &[u8]>(at.hash)).ok())
        .map(|hash| StimulusHash(hash).lock_key())
        .collect();
    if keys.is_empty() {
        return Ok(());
    }
    client.execute(TRIGGER_LOCK, &[&lock_class, &keys]).await?;
    let refused: i64 = client
        .query_one(TRIGGER_MATCH, &[tenant, definition])
        .await?
        .get("refused");
    tell_refused(definition, refused);
    Ok(())
}

/// Notes in the log what a publish has refused.
pub(super) fn tell_refused(workflow: &str, refused: i64) {
    if refused > 0 {
        tracing::info!(
            workflow,
            refused,
            "the activation strategy refused starts by events that were kept"
        );
    }
}
