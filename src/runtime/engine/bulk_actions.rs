//! Bulk actions: cancels and deletes of many instances. Few are done at once, many page by page on any node.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use super::Engine;
use crate::elsa_json;
use crate::runtime::context::instance_list::InstanceFilter;
use crate::runtime::context::request::{Listed, Page};
use crate::runtime::worker::instance_filter::list_filter;
use crate::store::bulk_action::{self, BulkActionRow};
use crate::{Error, Result};

/// The most bulk actions that are listed.
const MOST_LISTED: i64 = 1000;

/// A cancel or delete of many instances, page by page.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BulkAction {
    /// Its id.
    pub id: String,
    /// `cancel` or `delete`.
    pub kind: &'static str,
    /// `running`, or `finished`, listed for a day.
    pub state: &'static str,
    /// Which instances it selects.
    pub filter: Value,
    /// When it was accepted.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub accepted_at: DateTime<Utc>,
    /// When the last page was written.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub finished_at: Option<DateTime<Utc>>,
    /// Instances that were deleted, or received a cancel, so far.
    pub processed: u64,
    /// Instances that were left out because their change fails; the log has the reason.
    pub failed: u64,
    /// Instances per second.
    pub per_second: f64,
}

impl Engine {
    /// Accepts a cancel of all unfinished instances that match, including those that are accepted and have not run yet; any
    /// node cancels them page by page. Returns the id of the action. If the future is dropped, the action may or may not be
    /// accepted.
    pub async fn cancel_all(&self, filter: &InstanceFilter) -> Result<String> {
        let is_meant = filter.statuses.is_empty() || filter.statuses.iter().any(|word| word == "Running");
        let filter = InstanceFilter {
            statuses: vec!["Running".to_owned()],
            // No instance is both.
            sub_statuses: if is_meant {
                filter.sub_statuses.clone()
            } else {
                vec!["Finished".to_owned()]
            },
            ..filter.clone()
        };
        self.accept_bulk(&filter, false).await
    }

    /// Accepts a delete of all instances that match, as [`Engine::cancel_all`] does.
    pub async fn delete_all(&self, filter: &InstanceFilter) -> Result<String> {
        self.accept_bulk(filter, true).await
    }

    async fn accept_bulk(&self, filter: &InstanceFilter, deletes: bool) -> Result<String> {
        list_filter(filter)?;
        let node = self.accepting()?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let filter = serde_json::to_value(filter)
            .map_err(|error| Error::internal("a filter cannot be written").caused_by(error))?;
        bulk_action::accept(&self.changes(&node), &self.tenant, &id, deletes, &filter).await?;
        node.bulk_actions.notify_one();
        Ok(id)
    }

    /// The bulk actions: unfinished ones first, then those that finished last.
    pub async fn bulk_actions(&self, page: Page) -> Result<Listed<BulkAction>> {
        let pool = self.node()?;
        let rows = bulk_action::list(pool.database.reads.lists(), &self.tenant, None, MOST_LISTED).await?;
        let (limit, offset) = page.window();
        let (limit, offset) = (
            usize::try_from(limit).unwrap_or(0),
            usize::try_from(offset).unwrap_or(usize::MAX),
        );
        Ok(Listed {
            total_count: u64::try_from(rows.len()).unwrap_or(0),
            items: rows.into_iter().map(view).skip(offset).take(limit).collect(),
        })
    }

    /// One of them.
    pub async fn bulk_action(&self, id: &str) -> Result<BulkAction> {
        let node = self.node()?;
        let rows = bulk_action::list(node.database.reads.by_key(), &self.tenant, Some(id), 1).await?;
        rows.into_iter()
            .next()
            .map(view)
            .ok_or_else(|| Error::not_found("bulk-action-not-found", format!("no bulk action has the id {id:?}")))
    }
}

fn view(row: BulkActionRow) -> BulkAction {
    let count = |count: i64| u64::try_from(count).unwrap_or(0);
    BulkAction {
        kind: if row.deletes { "delete" } else { "cancel" },
        state: if row.finished_at.is_some() {
            "finished"
        } else {
            "running"
        },
        id: row.id,
        filter: row.filter,
        accepted_at: row.accepted_at,
        finished_at: row.finished_at,
        processed: count(row.processed),
        failed: count(row.failed),
        per_second: (row.rate * 10.0).round() / 10.0,
    }
}
