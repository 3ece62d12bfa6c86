//! Reads of the journal of an instance.

use serde::Serialize;

use super::Engine;
use super::instances::no_instance;
use crate::db::bounded_list;
use crate::id::{ActivityId, DefinitionId, InstanceId, VersionId};
use crate::runtime::context::request::{JournalRecord, Listed, Page};
use crate::store::instance;
use crate::store::record::journal::{self, EntryFilter, JournalEntryRow};
use crate::{Error, Result};

/// Which journal entries to read; an empty list means any.
#[derive(Clone, Debug, Default)]
pub struct JournalFilter {
    /// Only of these activities.
    pub activity_ids: Vec<String>,
    /// Only of activities at these places of the definition.
    pub activity_node_ids: Vec<String>,
    /// No entries of activities of these types.
    pub excluded_activity_types: Vec<String>,
    /// Only these events: `Started`, `Suspended`, `Resumed`, `Completed`, `Canceled`, `Faulted`.
    pub event_names: Vec<String>,
}

impl JournalFilter {
    fn is_empty(&self) -> bool {
        let lists = [
            &self.activity_ids,
            &self.activity_node_ids,
            &self.excluded_activity_types,
            &self.event_names,
        ];
        lists.iter().all(|list| list.is_empty())
    }
}

/// A range of journal entries, and how many there are.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalRange {
    /// The entries, in order.
    pub items: Vec<JournalRecord>,
    /// How many entries match.
    pub total_count: u64,
    /// The journal has so many entries that not all were counted: there are more than `total_count`.
    pub total_count_is_estimate: bool,
}

/// An entry of a journal with what identifies its instance, as Elsa stores it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StoredJournalRecord {
    /// The entry.
    #[serde(flatten)]
    pub record: JournalRecord,
    /// The activity's place in the definition, as `nodeId`.
    pub activity_node_id: String,
    /// The instance.
    pub workflow_instance_id: InstanceId,
    /// Which workflow it runs.
    pub workflow_definition_id: DefinitionId,
    /// Which version of it, by id.
    pub workflow_definition_version_id: VersionId,
    /// Which version of it, by number.
    pub workflow_version: i32,
}

impl Engine {
    /// Reads an instance's journal in order.
    pub async fn journal(&self, id: &InstanceId, page: Page) -> Result<Listed<JournalRecord>> {
        let (limit, offset) = page.window();
        let (total_count, items) = self.journal_entries(id, limit, offset).await?;
        Ok(Listed { items, total_count })
    }

    /// Reads a range of the journal entries that match, in order: at most 1,000 of them. With a filter the whole journal is
    /// examined, up to 200,000 entries exactly.
    pub async fn journal_range(
        &self,
        id: &InstanceId,
        filter: JournalFilter,
        skip: u64,
        take: u32,
    ) -> Result<JournalRange> {
        let take = take.min(Page::MAX_SIZE);
        if filter.is_empty() {
            let offset = i64::try_from(skip).unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
            let (total_count, items) = self.journal_entries(id, take.into(), offset).await?;
            return Ok(JournalRange {
                items,
                total_count,
                total_count_is_estimate: false,
            });
        }
        let (node, tenant) = (self.node()?, &self.tenant);
        let filter = EntryFilter {
            activity_ids: filter.activity_ids,
            node_ids: filter.activity_node_ids,
            excluded_types: filter.excluded_activity_types,
            events: filter.event_names,
        };
        let lists = node.database.reads.lists();
        let found = bounded_list(journal::filter(lists, tenant, id, filter, skip, take as usize)).await?;
        if found.total == 0 {
            self.check_exists(id).await?;
        }
        Ok(JournalRange {
            items: found.entries.into_iter().map(|row| record(id, row)).collect(),
            total_count: found.total,
            total_count_is_estimate: found.is_estimate,
        })
    }

    /// Reads the last entry about the start, the completion or the fault of an activity (code `entry-not-found` if there is
    /// none).
    pub async fn last_journal_entry(&self, id: &InstanceId, activity: &ActivityId) -> Result<StoredJournalRecord> {
        let (node, tenant) = (self.node()?, &self.tenant);
        let filter = EntryFilter {
            activity_ids: vec![activity.as_str().to_owned()],
            events: ["Started", "Completed", "Faulted"].map(str::to_owned).to_vec(),
            ..EntryFilter::default()
        };
        let Some(row) = bounded_list(journal::last(node.database.reads.lists(), tenant, id, &filter)).await? else {
            self.check_exists(id).await?;
            let message = format!("the journal has no entry about the activity {:?}", activity.as_str());
            return Err(Error::not_found("entry-not-found", message));
        };
        let instance = instance::find_summary(node.database.reads.by_key(), tenant, id).await?;
        let definition = instance.ok_or_else(|| no_instance(id))?.definition;
        Ok(StoredJournalRecord {
            activity_node_id: row.node_id.clone(),
            workflow_instance_id: id.clone(),
            workflow_definition_id: definition.definition_id,
            workflow_definition_version_id: definition.version_id,
            workflow_version: definition.version,
            record: record(id, row),
        })
    }

    async fn journal_entries(&self, id: &InstanceId, limit: i64, offset: i64) -> Result<(u64, Vec<JournalRecord>)> {
        let (node, tenant) = (self.node()?, &self.tenant);
        let lists = node.database.reads.lists();
        let (mut total, rows) = bounded_list(journal::list(lists, tenant, id, limit, offset)).await?;
        // Each record of a page carries the total, and a page behind the last entry has none.
        if rows.is_empty() && offset > 0 {
            total = bounded_list(journal::list(lists, tenant, id, 1, 0)).await?.0;
        }
        if total == 0 {
            self.check_exists(id).await?;
        }
        Ok((total, rows.into_iter().map(|row| record(id, row)).collect()))
    }

    /// Fails if there is neither an instance nor an accepted start with this id.
    pub(super) async fn check_exists(&self, id: &InstanceId) -> Result<()> {
        let (node, tenant) = (self.node()?, &self.tenant);
        let pool = node.database.reads.by_key();
        // Twice: between the two reads a pending start may have been committed.
        for _ in 0..2 {
            if instance::find_summary(pool, tenant, id).await?.is_some()
                || instance::pending(pool, tenant, id).await?.is_some()
            {
                return Ok(());
            }
        }
        Err(no_instance(id))
    }
}

fn record(id: &InstanceId, row: JournalEntryRow) -> JournalRecord {
    JournalRecord {
        id: format!("{}-{}", id.as_str(), row.sequence),
        activity_instance_id: row.activity_execution_id.into(),
        parent_activity_instance_id: row.parent_activity_execution_id.map(Into::into),
        activity_id: row.activity_id,
        activity_type: row.activity_type,
        activity_type_version: row.activity_type_version,
        activity_name: row.activity_name,
        node_id: row.node_id,
        timestamp: row.happened_at,
        sequence: row.sequence,
        event_name: Some(row.event_name),
        message: row.message,
        source: row.source,
        activity_state: row.activity_state,
        payload: row.payload,
    }
}
