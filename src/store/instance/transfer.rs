//! What an export of an instance reads, and which ids an import cannot use.

use chrono::{DateTime, Utc};

use super::{InstanceColumns, InstanceRow, instance_row};
use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{InstanceId, InstanceVersion, TenantId};

const EXPORT: &str = include_str!("../../../sql/queries/instance/export.sql");
const TAKEN: &str = include_str!("../../../sql/queries/instance/taken.sql");

/// An instance as of one commit.
#[derive(Clone, Debug)]
pub(crate) struct ExportRow {
    pub(crate) instance: InstanceRow,
    pub(crate) state: Vec<u8>,
    pub(crate) version: InstanceVersion,
    /// By the bookmarks that they end.
    pub(crate) timers: Vec<(String, DateTime<Utc>)>,
}

/// Reads an instance with its state and its timers.
pub(crate) async fn export(pool: &Pool, tenant: &TenantId, id: &InstanceId) -> Result<Option<ExportRow>> {
    let row = pool.query_opt(EXPORT, &[&tenant.as_str(), &id.as_str()]).await?;
    let Some(row) = row else { return Ok(None) };
    let ids: Vec<String> = row.get("timer_ids");
    let dues: Vec<DateTime<Utc>> = row.get("timer_dues");
    Ok(Some(ExportRow {
        instance: instance_row(InstanceColumns::of(&row)?, &row),
        state: row.get("state"),
        version: InstanceVersion(row.get("instance_version")),
        timers: ids.into_iter().zip(dues).collect(),
    }))
}

/// Those of the ids that an instance or an accepted start has.
pub(crate) async fn taken(pool: &Pool, tenant: &TenantId, ids: &[InstanceId]) -> Result<Vec<InstanceId>> {
    let ids: Vec<&str> = ids.iter().map(InstanceId::as_str).collect();
    let rows = pool.query(TAKEN, &[&tenant.as_str(), &ids]).await?;
    let at = columns!(rows; id)?;
    Ok(rows
        .iter()
        .map(|row| InstanceId::new(row.get::<_, String>(at.id)))
        .collect())
}
