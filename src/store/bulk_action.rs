//! Bulk actions: cancels and deletes of many instances, page by page.
//!
//! # Invariants
//!
//! - A page changes its instances and moves the cursor in one transaction, which holds the row of the action: any node may
//!   write the next one, and none is written twice.
//! - Previously accepted starts come first, by their rows of work: a page waits for a first commit in flight, and then sees
//!   its instance. After them, a cut is set; instances that existed before it follow, oldest first.
//! - A page locks work before instances, as commits do, and waits for a lock only briefly: commits go first.

use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde_json::Value;

use super::instance::list::{self, InstanceListFilter, ListCursor, ListPools};
use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::failpoint;
use crate::id::{InstanceId, TenantId, WorkId};
use crate::store::code::{StatusCode, SubStatusCode};
use crate::store::record::times::RecordTimes;
use crate::{Error, Result};

const ACCEPT: &str = include_str!("../../sql/queries/bulk_action/accept.sql");
const NEXT: &str = include_str!("../../sql/queries/bulk_action/next.sql");
const LOCK: &str = include_str!("../../sql/queries/bulk_action/lock.sql");
const STARTS: &str = include_str!("../../sql/queries/bulk_action/starts.sql");
const ROOM: &str = include_str!("../../sql/queries/bulk_action/room.sql");
const LOCK_WORK: &str = include_str!("../../sql/queries/bulk_action/lock_work.sql");
const LOCK_INSTANCES: &str = include_str!("../../sql/queries/bulk_action/lock_instances.sql");
const DELETE: &str = include_str!("../../sql/queries/bulk_action/delete.sql");
const CANCEL: &str = include_str!("../../sql/queries/bulk_action/cancel.sql");
const ADVANCE: &str = include_str!("../../sql/queries/bulk_action/advance.sql");
const LIST: &str = include_str!("../../sql/queries/bulk_action/list.sql");
const PURGE: &str = include_str!("../../sql/queries/bulk_action/purge.sql");

/// The most instances of one page.
pub(crate) const PAGE_ROWS: i64 = 1000;

/// The most unclaimed cancels: other work waits for no more than these.
const MAX_QUEUED: i64 = 2000;

/// How long a finished action is listed.
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// A bulk action and how far it has come.
#[derive(Clone, Debug)]
pub(crate) struct BulkActionState {
    pub(crate) tenant: TenantId,
    pub(crate) id: String,
    pub(crate) deletes: bool,
    pub(crate) filter: Value,
    accepted_at: DateTime<Utc>,
    cut: Option<DateTime<Utc>>,
    cursor_work: i64,
    cursor: Option<ListCursor>,
}

/// How the next page is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSize {
    /// At most so many instances.
    pub(crate) rows: i64,
    /// Goes behind them without changing them, because that fails.
    pub(crate) skips: bool,
}

/// What a page has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BulkPage {
    /// Another node is at it, or has gone further.
    Lost,
    /// As many cancels are unclaimed as may be.
    Full,
    Written {
        processed: u64,
        /// Rows of work that were deleted, for which callers may wait.
        works: Vec<(InstanceId, WorkId)>,
        /// Instances that a burst may be running.
        busy: Vec<InstanceId>,
        /// Rows of work that deletes made: for parents that waited, and cancels of children.
        made: i64,
    },
}

/// The rows of a page, and the place behind them.
struct Found {
    ids: Vec<String>,
    cursor_work: i64,
    cursor: Option<ListCursor>,
    is_last: bool,
}

/// Accepts a bulk action. If the future is dropped, it may or may not be accepted.
pub(crate) async fn accept(pool: &Pool, tenant: &TenantId, id: &str, deletes: bool, filter: &Value) -> Result<()> {
    pool.change(ACCEPT, &[&tenant.as_str(), &id, &deletes, filter], |_| true)
        .await?;
    Ok(())
}

/// The oldest unfinished action except for these.
pub(crate) async fn next(pool: &Pool, except: &[String]) -> Result<Option<BulkActionState>> {
    let Some(row) = pool.query_opt(NEXT, &[&except]).await? else {
        return Ok(None);
    };
    let at = columns!(row; tenant_id, id, deletes, filter, accepted_at, cut, cursor_at, cursor_id, cursor_work)?;
    let (key, id): (Option<String>, Option<String>) = (row.get(at.cursor_at), row.get(at.cursor_id));
    Ok(Some(BulkActionState {
        tenant: TenantId::new(row.get::<_, String>(at.tenant_id)),
        id: row.get(at.id),
        deletes: row.get(at.deletes),
        filter: row.get(at.filter),
        accepted_at: row.get(at.accepted_at),
        cut: row.get(at.cut),
        cursor_work: row.get(at.cursor_work),
        cursor: key.zip(id).map(|(key, id)| ListCursor { key, id }),
    }))
}

/// Writes the next page. If the future is dropped halfway, it is not written.
pub(crate) async fn page(
    pool: &Pool,
    action: &BulkActionState,
    filter: &InstanceListFilter,
    size: PageSize,
) -> Result<BulkPage> {
    let found = match action.cut {
        None => find_starts(pool, action, filter, size.rows).await?,
        Some(cut) => find_instances(pool, action, filter, cut, size.rows).await?,
    };
    within(ANSWER_TIMEOUT, write(pool, action, found, size)).await
}

async fn find_starts(pool: &Pool, action: &BulkActionState, filter: &InstanceListFilter, rows: i64) -> Result<Found> {
    let done = Found {
        ids: Vec::new(),
        cursor_work: action.cursor_work,
        cursor: None,
        is_last: true,
    };
    let may_be = |codes: &[i16], code: i16| codes.is_empty() || codes.contains(&code);
    if !may_be(&filter.statuses, StatusCode::Running.number())
        || !may_be(&filter.sub_statuses, SubStatusCode::Pending.number())
        || filter.has_incidents == Some(true)
        || filter.search.is_some()
        || filter.updated != list::TimeRange::default()
        || filter.finished != list::TimeRange::default()
    {
        return Ok(done);
    }
    let versions = list::version_ids(ListPools::of_work(pool), &action.tenant, filter).await?;
    let given = |list: &'_ [String]| (!list.is_empty()).then(|| list.to_vec());
    let params: [&(dyn ToSql + Sync); 11] = [
        &action.tenant.as_str(),
        &action.cursor_work,
        &action.accepted_at,
        &versions,
        &given(&filter.ids),
        &given(&filter.correlation_ids),
        &filter.name,
        &filter.created.from,
        &filter.created.to,
        &rows,
        &given(&filter.parents),
    ];
    let found = pool.query(STARTS, &params).await?;
    let at = columns!(found; id, instance_id)?;
    Ok(Found {
        ids: found.iter().map(|row| row.get(at.instance_id)).collect(),
        cursor_work: found.last().map_or(action.cursor_work, |row| row.get(at.id)),
        is_last: i64::try_from(found.len()).is_ok_and(|count| count < rows),
        ..done
    })
}

async fn find_instances(
    pool: &Pool,
    action: &BulkActionState,
    filter: &InstanceListFilter,
    cut: DateTime<Utc>,
    rows: i64,
) -> Result<Found> {
    let mut filter = filter.clone();
    filter.created.at_most(cut);
    let found = list::oldest(
        ListPools::of_work(pool),
        &action.tenant,
        &filter,
        action.cursor.clone(),
        rows,
    )
    .await?;
    let last = found.last().map(list::place_by_creation);
    Ok(Found {
        cursor_work: action.cursor_work,
        is_last: i64::try_from(found.len()).is_ok_and(|count| count < rows),
        cursor: last.or_else(|| action.cursor.clone()),
        ids: found.into_iter().map(|row| row.id.as_str().to_owned()).collect(),
    })
}

async fn write(pool: &Pool, action: &BulkActionState, mut found: Found, size: PageSize) -> Result<BulkPage> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let tenant = action.tenant.as_str();
    // A page of one waits as a delete of one instance does.
    let begin = if size.rows > 1 {
        "BEGIN; SET LOCAL lock_timeout = '250ms'"
    } else {
        "BEGIN; SET LOCAL lock_timeout = '5s'"
    };
    let lock = client.prepare_cached(LOCK).await?;
    client.batch_execute(begin).await?;
    let place: [&(dyn ToSql + Sync); 5] = [
        &tenant,
        &action.id,
        &action.cursor_work,
        &action.cursor.as_ref().map(|cursor| cursor.id.as_str()),
        &action.cut.is_none(),
    ];
    if client.query_opt(&lock, &place).await?.is_none() {
        client.batch_execute("ROLLBACK").await?;
        connection.give_back();
        return Ok(BulkPage::Lost);
    }
    failpoint::hit("bulk_action.locked").await?;
    if !action.deletes && !found.ids.is_empty() {
        let room = client.prepare_cached(ROOM).await?;
        let row = client.query_one(&room, &[&MAX_QUEUED]).await?;
        let at = columns!(row; unclaimed)?;
        if row.get::<_, i64>(at.unclaimed) >= MAX_QUEUED {
            client.batch_execute("ROLLBACK").await?;
            connection.give_back();
            return Ok(BulkPage::Full);
        }
    }
    let skipped = if size.skips {
        std::mem::take(&mut found.ids).len()
    } else {
        0
    };
    let written = if found.ids.is_empty() {
        PageChanges::default()
    } else {
        change(client, action, &found.ids).await?
    };
    let advance = client.prepare_cached(ADVANCE).await?;
    let is_starts = action.cut.is_none();
    let params: [&(dyn ToSql + Sync); 9] = [
        &tenant,
        &action.id,
        &found.cursor_work,
        &found.cursor.as_ref().map(|cursor| cursor.key.as_str()),
        &found.cursor.as_ref().map(|cursor| cursor.id.as_str()),
        &written.processed,
        &i64::try_from(skipped).unwrap_or(0),
        &(is_starts && found.is_last),
        &(!is_starts && found.is_last),
    ];
    client.query(&advance, &params).await?;
    failpoint::hit("bulk_action.written").await?;
    client.batch_execute("COMMIT").await?;
    connection.give_back();
    failpoint::hit("bulk_action.committed").await?;
    Ok(BulkPage::Written {
        processed: u64::try_from(written.processed).unwrap_or(0),
        works: written.works,
        busy: written.busy,
        made: written.made,
    })
}

#[derive(Default)]
struct PageChanges {
    processed: i64,
    works: Vec<(InstanceId, WorkId)>,
    busy: Vec<InstanceId>,
    made: i64,
}

/// Deletes or cancels these instances.
async fn change(client: &deadpool_postgres::Object, action: &BulkActionState, ids: &[String]) -> Result<PageChanges> {
    let tenant = action.tenant.as_str();
    let (lock_work, lock_instances) = (
        client.prepare_cached(LOCK_WORK).await?,
        client.prepare_cached(LOCK_INSTANCES).await?,
    );
    client.query(&lock_work, &[&tenant, &ids]).await?;
    client.query(&lock_instances, &[&tenant, &ids]).await?;
    if !action.deletes {
        let cancel = client.prepare_cached(CANCEL).await?;
        let row = client.query_one(&cancel, &[&tenant, &ids]).await?;
        let at = columns!(row; processed, busy)?;
        return Ok(PageChanges {
            processed: row.get(at.processed),
            works: Vec::new(),
            busy: row
                .get::<_, Vec<String>>(at.busy)
                .into_iter()
                .map(InstanceId::new)
                .collect(),
            made: 0,
        });
    }
    let delete = client.prepare_cached(DELETE).await?;
    let row = client.query_one(&delete, &[&tenant, &ids]).await?;
    let at = columns!(row; processed, works, work_instances, made, missed)?;
    if row.get(at.missed) {
        let message = "instances of a page got new work while they were deleted";
        return Err(Error::unavailable("database-busy", message));
    }
    if let Some(times) = RecordTimes::deleted(&row)? {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        times.delete(client, &action.tenant, &ids).await?;
    }
    let instances: Vec<InstanceId> = row
        .get::<_, Vec<String>>(at.work_instances)
        .into_iter()
        .map(InstanceId::new)
        .collect();
    let works = row.get::<_, Vec<i64>>(at.works).into_iter().map(WorkId);
    Ok(PageChanges {
        processed: row.get(at.processed),
        works: instances.iter().cloned().zip(works).collect(),
        busy: instances,
        made: row.get(at.made),
    })
}

/// A bulk action, for operators.
#[derive(Clone, Debug)]
pub(crate) struct BulkActionRow {
    pub(crate) id: String,
    pub(crate) deletes: bool,
    pub(crate) filter: Value,
    pub(crate) accepted_at: DateTime<Utc>,
    pub(crate) finished_at: Option<DateTime<Utc>>,
    pub(crate) processed: i64,
    pub(crate) failed: i64,
    /// Instances a second since it was accepted.
    pub(crate) rate: f64,
}

/// The unfinished bulk actions, then those that finished last; or the one with this id.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId, id: Option<&str>, limit: i64) -> Result<Vec<BulkActionRow>> {
    let rows = pool.query(LIST, &[&tenant.as_str(), &id, &limit]).await?;
    let at = columns!(rows; id, deletes, filter, accepted_at, processed, failed, finished_at, at)?;
    let list = rows.iter().map(|row| {
        let (accepted_at, finished_at): (DateTime<Utc>, Option<DateTime<Utc>>) =
            (row.get(at.accepted_at), row.get(at.finished_at));
        let processed: i64 = row.get(at.processed);
        let took = (finished_at.unwrap_or_else(|| row.get(at.at)) - accepted_at).to_std();
        BulkActionRow {
            id: row.get(at.id),
            deletes: row.get(at.deletes),
            filter: row.get(at.filter),
            accepted_at,
            finished_at,
            processed,
            failed: row.get(at.failed),
            rate: took
                .ok()
                .filter(|took| !took.is_zero())
                .map_or(0.0, |took| processed as f64 / took.as_secs_f64()),
        }
    });
    Ok(list.collect())
}

/// Deletes bulk actions that finished a while ago.
pub(crate) async fn purge(pool: &Pool) -> Result<()> {
    let retention = i64::try_from(RETENTION.as_micros()).unwrap_or(i64::MAX);
    pool.query(PURGE, &[&retention]).await?;
    Ok(())
}
