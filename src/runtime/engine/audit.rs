//! The audit: what was tried from outside. Only attempts at resume links so far.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Engine;
use crate::Result;
use crate::db::bounded_list;
use crate::elsa_json;
use crate::id::{InstanceId, LinkId};
use crate::store::audit::{self, AuditFilter, AuditRow};
use crate::store::code::{AuditAction, AuditOutcome};

/// An attempt.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Grows with each entry.
    pub id: i64,
    /// When it was, by the database's clock.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub at: DateTime<Utc>,
    /// What was tried: `ResumeLink`.
    pub action: String,
    /// `Accepted`, `Used`, `Expired`, `Revoked`, `Ended`, `Unknown`, `Refused` or `Repeated`.
    pub outcome: String,
    /// The address that the request came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_address: Option<String>,
    /// The instance that it was for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_instance_id: Option<InstanceId>,
    /// The link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_id: Option<String>,
}

/// Which entries to list: those that match all given criteria.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only of this instance.
    pub instance_id: Option<InstanceId>,
    /// Only of this link.
    pub link_id: Option<LinkId>,
    /// Only those before this entry.
    pub before: Option<i64>,
}

impl AuditRecord {
    fn of(row: AuditRow) -> Self {
        Self {
            id: row.id,
            at: row.at,
            action: row.action.map_or("Other", AuditAction::word).to_owned(),
            outcome: row.outcome.map_or("Other", AuditOutcome::word).to_owned(),
            client_address: row.client,
            workflow_instance_id: row.instance,
            link_id: row.link.map(|link| link.to_string()),
        }
    }
}

impl Engine {
    /// A page of the audit, the newest entry first; the next page is before its last entry.
    pub async fn audit(&self, query: AuditQuery, page_size: u32) -> Result<Vec<AuditRecord>> {
        let filter = AuditFilter {
            instance: query.instance_id,
            link: query.link_id,
            before: query.before,
        };
        let node = self.node()?;
        let reading = audit::list(
            node.database.reads.lists(),
            &self.inner.tenant,
            &filter,
            page_size.into(),
        );
        let rows = bounded_list(reading).await?;
        Ok(rows.into_iter().map(AuditRecord::of).collect())
    }
}
