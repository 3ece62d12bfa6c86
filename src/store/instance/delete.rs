//! Deletes an instance with all its rows, in one transaction.
//!
//! # Invariants
//!
//! - Rows of work are locked first, then the instance, each in a statement of its own, in the lock order of a commit: a
//!   commit in flight ends first, and the delete sees everything that it wrote. If a commit holds a newer row and waits for
//!   the instance, the delete does not wait for that row: it rolls back and begins again.
//! - Dead letters are locked before everything else, so a concurrent replay either ends first or finds nothing.
//! - A burst that runs on another node loses its claims and writes nothing; a pending start is also deleted. Nothing
//!   recreates the instance.
//! - A delete is idempotent: a caller whose outcome is unknown deletes again.

use std::sync::LazyLock;

use postgres_types::ToSql;

use super::list::ListPools;
use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::failpoint;
use crate::id::{InstanceId, TenantId, WorkId};
use crate::store::parts::with_parts;
use crate::store::record::times::RecordTimes;
use crate::{Error, Result};

const LOCK_WORK: &str = include_str!("../../../sql/queries/instance/delete_lock_work.sql");
const LOCK: &str = include_str!("../../../sql/queries/instance/delete_lock.sql");
const DELETE: &str = include_str!("../../../sql/queries/instance/delete.sql");
const IDS: &str = include_str!("../../../sql/queries/instance/list_ids.sql");

/// How often a delete begins before it fails as busy, as its instance gets new work each time.
const MAX_ATTEMPTS: u32 = 20;

/// What was deleted with an instance or a pending start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deleted {
    /// Rows of work for which callers may wait.
    pub(crate) works: Vec<WorkId>,
    /// Rows of work that it made: for the parent that waits for it, and cancels of its children.
    pub(crate) made: i64,
}

/// Deletes an instance; `None` if it does not exist. If the future is dropped, the delete has happened or not.
pub(crate) async fn delete(pool: &Pool, tenant: &TenantId, instance: &InstanceId) -> Result<Option<Deleted>> {
    failpoint::hit("delete.before").await?;
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let key: [&(dyn ToSql + Sync); 2] = [&tenant.as_str(), &instance.as_str()];
    let row = within(ANSWER_TIMEOUT, async {
        let mut attempts = 0;
        let lock_work = client.prepare_cached(LOCK_WORK).await?;
        let lock = client.prepare_cached(LOCK).await?;
        let delete = client.prepare_cached(DELETE).await?;
        loop {
            client.batch_execute("BEGIN; SET LOCAL lock_timeout = '5s'").await?;
            client.query(&lock_work, &key).await?;
            failpoint::hit("delete.locked").await?;
            client.query(&lock, &key).await?;
            failpoint::hit("delete.fenced").await?;
            let row = client.query_one(&delete, &key).await?;
            if let Some(times) = RecordTimes::deleted(&row)? {
                times.delete(client, tenant, &[instance.as_str()]).await?;
            }
            if !row.get::<_, bool>("missed") {
                failpoint::hit("delete.written").await?;
                return Ok::<_, Error>(row);
            }
            // A commit holds a newer row and waits for the instance: it goes first.
            client.batch_execute("ROLLBACK").await?;
            attempts += 1;
            if attempts >= MAX_ATTEMPTS {
                let message = "the instance could not be deleted because it got new work each time; try again";
                return Err(Error::unavailable("database-busy", message));
            }
        }
    })
    .await?;
    // From here on the outcome is unknown if the connection is lost.
    let ending = async {
        if row.get("known") {
            connection.commit().await
        } else {
            Ok(client.batch_execute("COMMIT").await?)
        }
    };
    within(ANSWER_TIMEOUT, ending)
        .await
        .map_err(|error| match error.code() {
            "database-unavailable" | "database-timeout" => Error::unknown_outcome(
                "the database connection was lost while the instance was deleted; delete it again",
            )
            .instance(instance.as_str())
            .caused_by(error),
            _ => error,
        })?;
    failpoint::hit("delete.committed").await?;
    connection.give_back();
    let known: bool = row.get("known");
    let works = row.get::<_, Vec<i64>>("works").into_iter().map(WorkId).collect();
    let made = row.get("made");
    Ok(known.then_some(Deleted { works, made }))
}

/// The instances of a bulk action; an absent filter excludes nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteFilter<'a> {
    pub(crate) ids: Option<Vec<&'a str>>,
    pub(crate) definition_ids: Option<Vec<&'a str>>,
    pub(crate) version_id: Option<&'a str>,
    pub(crate) version: Option<i32>,
    pub(crate) unfinished: bool,
    /// At most so many.
    pub(crate) limit: i64,
}

/// The statement, for instances that wait where these are few, else for all.
static IDS_FORMS: LazyLock<[String; 2]> =
    LazyLock::new(|| ["all", "few_running"].map(|source| with_parts(IDS, |part| part == source)));

pub(crate) fn ids_text(few_running: bool) -> &'static str {
    let [all, running] = &*IDS_FORMS;
    if few_running { running } else { all }
}

/// The ids of these instances. Finished ones are not read while few instances run. Code `read-timeout`: it takes too long.
pub(crate) async fn list_ids(
    pools: ListPools<'_>,
    tenant: &TenantId,
    filter: &DeleteFilter<'_>,
) -> Result<Vec<InstanceId>> {
    let few_running = filter.unfinished && filter.ids.is_none() && pools.few_running().await?;
    let params: [&(dyn ToSql + Sync); 7] = [
        &tenant.as_str(),
        &filter.ids,
        &filter.definition_ids,
        &filter.version_id,
        &filter.version,
        &filter.unfinished,
        &filter.limit,
    ];
    let rows = pools.lists().query(ids_text(few_running), &params).await?;
    let at = columns!(rows; id)?;
    Ok(rows
        .iter()
        .map(|row| InstanceId::new(row.get::<_, String>(at.id)))
        .collect())
}
