//! Deletes an instance with all that belongs to it, in one transaction.
//!
//! # Invariants
//!
//! - What is to be done is locked first, then the instance, each in a statement of its own, in the order of a commit: a
//!   commit in flight ends before, and the statement that deletes sees all that it wrote. A row that came after the
//!   first statement, and that a commit holds which waits for the instance, is not waited for: the delete lets go of
//!   everything and begins anew.
//! - What was given up is locked before all else, so that a replay is over, or finds nothing.
//! - A burst that runs elsewhere finds its claims gone and writes nothing; a start that was pending is gone with the
//!   rest. Nothing brings the instance back.
//! - Deleting again finds nothing, so that whoever does not know what became of a delete deletes again.

use chrono::{DateTime, Utc};
use postgres_types::ToSql;

use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::failpoint;
use crate::id::{InstanceId, TenantId, WorkId};
use crate::{Error, Result};

const LOCK_WORK: &str = include_str!("../../../sql/queries/instance/delete_lock_work.sql");
const LOCK: &str = include_str!("../../../sql/queries/instance/delete_lock.sql");
const DELETE: &str = include_str!("../../../sql/queries/instance/delete.sql");
const IDS: &str = include_str!("../../../sql/queries/instance/list_ids.sql");

/// How often a delete is begun, before one whose instance gets ever new work is given up.
const TRIES: u32 = 20;

/// What was deleted with an instance, or with the start that was to become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deleted {
    /// Rows of work for which doors may wait.
    pub(crate) works: Vec<WorkId>,
}

/// Deletes an instance; none: nobody knows it. Dropped half-way, it has happened or not.
pub(crate) async fn delete(pool: &Pool, tenant: &TenantId, instance: &InstanceId) -> Result<Option<Deleted>> {
    failpoint::hit("delete.before").await?;
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let key: [&(dyn ToSql + Sync); 2] = [&tenant.as_str(), &instance.as_str()];
    let row = within(ANSWER_TIMEOUT, async {
        let mut tries = 0;
        let lock_work = client.prepare_cached(LOCK_WORK).await?;
        let lock = client.prepare_cached(LOCK).await?;
        let delete = client.prepare_cached(DELETE).await?;
        loop {
            client.batch_execute("BEGIN; SET LOCAL lock_timeout = '5s'").await?;
            client.query(&lock_work, &key).await?;
            failpoint::hit("delete.locked").await?;
            let standing = client.query_opt(&lock, &key).await?;
            failpoint::hit("delete.fenced").await?;
            // Without an instance there is no journal of it.
            let since: Option<DateTime<Utc>> = standing.map(|row| row.get("created_at"));
            let row = client
                .query_one(&delete, &[&tenant.as_str(), &instance.as_str(), &since])
                .await?;
            if !row.get::<_, bool>("missed") {
                failpoint::hit("delete.written").await?;
                return Ok::<_, Error>(row);
            }
            // Somebody holds a row that came since, and waits for us: he gets the instance, and we wait for his row.
            client.batch_execute("ROLLBACK").await?;
            tries += 1;
            if tries >= TRIES {
                let message = "the instance could not be deleted just now, as more came to be done; try again";
                return Err(Error::unavailable("database-busy", message));
            }
        }
    })
    .await?;
    // From here on nobody can say what became of it if the connection dies.
    within(ANSWER_TIMEOUT, client.batch_execute("COMMIT"))
        .await
        .map_err(|error| match error.code() {
            "database-unavailable" | "database-timeout" => {
                Error::unknown_outcome("the database went away while the instance was deleted; delete it again")
                    .instance(instance.as_str())
                    .caused_by(error)
            }
            _ => error,
        })?;
    failpoint::hit("delete.committed").await?;
    connection.give_back();
    let known: bool = row.get("known");
    let works = row.get::<_, Vec<i64>>("works").into_iter().map(WorkId).collect();
    Ok(known.then_some(Deleted { works }))
}

/// Which instances a bulk action means; what is absent excludes nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meant<'a> {
    pub(crate) ids: Option<Vec<&'a str>>,
    pub(crate) definition_ids: Option<Vec<&'a str>>,
    pub(crate) version_id: Option<&'a str>,
    pub(crate) version: Option<i32>,
    pub(crate) unfinished: bool,
}

/// Their ids.
pub(crate) async fn meant(pool: &Pool, tenant: &TenantId, meant: &Meant<'_>) -> Result<Vec<InstanceId>> {
    let params: [&(dyn ToSql + Sync); 6] = [
        &tenant.as_str(),
        &meant.ids,
        &meant.definition_ids,
        &meant.version_id,
        &meant.version,
        &meant.unfinished,
    ];
    let rows = pool.query(IDS, &params).await?;
    let at = columns!(rows; id)?;
    Ok(rows
        .iter()
        .map(|row| InstanceId::new(row.get::<_, String>(at.id)))
        .collect())
}
