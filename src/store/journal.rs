//! The journal as the API reads it.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::record::Journal;
use crate::Result;
use crate::db::Pool;
use crate::id::{InstanceId, TenantId};

const LIST: &str = include_str!("../../sql/queries/journal/list.sql");

/// An entry of the journal.
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
    let mut entries = Vec::new();
    for row in rows {
        let (earlier, first, began): (i64, i64, DateTime<Utc>) = (row.get(1), row.get(2), row.get(3));
        let journal = Journal::read(row.get(4))?;
        for (place, (who, entry)) in (0..).zip(journal.entries()) {
            if earlier + place < offset || earlier + place >= offset + limit {
                continue;
            }
            entries.push(JournalEntryRow {
                sequence: first + place,
                happened_at: began + TimeDelta::microseconds(entry.1),
                event_name: entry.2.clone(),
                activity_execution_id: who.0.clone(),
                parent_activity_execution_id: who.1.clone(),
                activity_id: who.2.clone(),
                activity_type: who.4.clone(),
                activity_type_version: who.5,
                activity_name: who.6.clone(),
                node_id: who.3.clone(),
                message: entry.3.clone(),
                source: entry.4.clone(),
                activity_state: entry.5.clone(),
                payload: entry.6.clone(),
            });
        }
    }
    Ok((total, entries))
}
