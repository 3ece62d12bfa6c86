//! The journal as the API reads it.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::Result;
use crate::db::Pool;
use crate::id::{InstanceId, TenantId};

const LIST: &str = include_str!("../../sql/queries/journal_list.sql");

/// An entry as it was written.
#[derive(Clone, Debug)]
pub(crate) struct JournalEntryRow {
    pub(crate) sequence: i64,
    pub(crate) happened_at: DateTime<Utc>,
    pub(crate) event_name: String,
    pub(crate) activity_execution_id: String,
    pub(crate) parent_activity_execution_id: Option<String>,
    pub(crate) activity_id: String,
    pub(crate) activity_type: String,
    pub(crate) activity_type_version: i32,
    pub(crate) activity_name: Option<String>,
    pub(crate) node_id: String,
    pub(crate) message: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) activity_state: Option<Value>,
    pub(crate) payload: Option<Value>,
}

/// Reads a page of an instance's journal in order, with how many entries there are in all.
pub(crate) async fn list(
    pool: &Pool,
    tenant: &TenantId,
    id: &InstanceId,
    limit: i64,
    offset: i64,
) -> Result<(u64, Vec<JournalEntryRow>)> {
    let rows = pool
        .query(LIST, &[&tenant.as_str(), &id.as_str(), &limit, &offset])
        .await?;
    let total = rows
        .first()
        .map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0));
    let entries = rows
        .iter()
        .map(|row| JournalEntryRow {
            sequence: row.get(1),
            happened_at: row.get(2),
            event_name: row.get(3),
            activity_execution_id: row.get(4),
            parent_activity_execution_id: row.get(5),
            activity_id: row.get(6),
            activity_type: row.get(7),
            activity_type_version: row.get(8),
            activity_name: row.get(9),
            node_id: row.get(10),
            message: row.get(11),
            source: row.get(12),
            activity_state: row.get(13),
            payload: row.get(14),
        })
        .collect();
    Ok((total, entries))
}
