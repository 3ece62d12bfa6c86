//! Tasks that wait: the bookmarks of `Elsa.RunTask`.

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde_json::Value;

use super::instance::Generation;
use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{BookmarkId, InstanceId, TenantId};

const FIND: &str = include_str!("../../sql/queries/task/find.sql");
const LIST: &str = include_str!("../../sql/queries/task/list.sql");

/// Where a task waits.
#[derive(Clone, Debug)]
pub(crate) struct TaskBookmark {
    pub(crate) instance: InstanceId,
    pub(crate) generation: Generation,
    pub(crate) bookmark: BookmarkId,
}

/// Finds a task that waits.
pub(crate) async fn find(pool: &Pool, tenant: &TenantId, id: &str) -> Result<Option<TaskBookmark>> {
    let row = pool.query_opt(FIND, &[&tenant.as_str(), &id]).await?;
    Ok(row.map(|row| TaskBookmark {
        instance: InstanceId::new(row.get::<_, String>("instance_id")),
        generation: Generation::of(row.get("created_at")),
        bookmark: BookmarkId::new(row.get::<_, String>("id")),
    }))
}

/// A task that waits.
#[derive(Clone, Debug)]
pub(crate) struct TaskRow {
    /// Its place in the list.
    pub(crate) number: i64,
    pub(crate) id: String,
    pub(crate) instance: String,
    pub(crate) activity_id: String,
    /// `{taskId, taskName, payload}`.
    pub(crate) payload: Value,
    pub(crate) correlation_id: Option<String>,
    pub(crate) created_at: DateTime<Utc>,
}

/// The first `limit` tasks after the place `after`, in the order in which they began.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId, after: i64, limit: i64) -> Result<Vec<TaskRow>> {
    let params: [&(dyn ToSql + Sync); 3] = [&tenant.as_str(), &after, &limit];
    let rows = pool.query(LIST, &params).await?;
    let at =
        columns!(rows; number, instance_id, activity_id, activity_execution_id, payload, correlation_id, created_at)?;
    let task = |row: &tokio_postgres::Row| TaskRow {
        number: row.get(at.number),
        id: row.get(at.activity_execution_id),
        instance: row.get(at.instance_id),
        activity_id: row.get(at.activity_id),
        payload: row.get(at.payload),
        correlation_id: row.get(at.correlation_id),
        created_at: row.get(at.created_at),
    };
    Ok(rows.iter().map(task).collect())
}
