//! The audit: what was done from outside, by whom and with which outcome. Rows are only added, and purged by age.

use chrono::{DateTime, Utc};
use postgres_types::{ToSql, Type};
use uuid::Uuid;

use super::code::{AuditAction, AuditOutcome};
use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{InstanceId, LinkId, TenantId};

const NOTE: &str = include_str!("../../sql/queries/audit/note.sql");
const LIST: &str = include_str!("../../sql/queries/audit/list.sql");

/// An attempt, before the database has given it its time.
#[derive(Clone, Debug)]
pub(crate) struct AuditEntry {
    pub(crate) action: AuditAction,
    pub(crate) outcome: AuditOutcome,
    /// Where the request came from.
    pub(crate) client: Option<String>,
    pub(crate) instance: Option<InstanceId>,
    pub(crate) link: Option<LinkId>,
}

/// Notes an attempt that changed nothing else. One that did is noted by the transaction of its change.
pub(crate) async fn note(pool: &Pool, tenant: &TenantId, entry: &AuditEntry) -> Result<()> {
    let params: [&(dyn ToSql + Sync); 6] = [
        &tenant.as_str(),
        &entry.action.number(),
        &entry.outcome.number(),
        &entry.client,
        &entry.instance.as_ref().map(InstanceId::as_str),
        &entry.link.map(|link| link.0),
    ];
    pool.query(NOTE, &params).await.map(drop)
}

/// Which entries a list shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditFilter {
    pub(crate) instance: Option<InstanceId>,
    pub(crate) link: Option<LinkId>,
    /// Only older ones than this entry.
    pub(crate) before: Option<i64>,
}

/// An entry as it is listed. Action and outcome are none where this program does not know their numbers.
#[derive(Clone, Debug)]
pub(crate) struct AuditRow {
    pub(crate) id: i64,
    pub(crate) at: DateTime<Utc>,
    pub(crate) action: Option<AuditAction>,
    pub(crate) outcome: Option<AuditOutcome>,
    pub(crate) client: Option<String>,
    pub(crate) instance: Option<InstanceId>,
    pub(crate) link: Option<LinkId>,
}

/// A page of the audit, the newest entry first.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId, filter: &AuditFilter, limit: i64) -> Result<Vec<AuditRow>> {
    let (tenant, instance) = (tenant.as_str(), filter.instance.as_ref().map(InstanceId::as_str));
    let link = filter.link.map(|link| link.0);
    let params: [(&(dyn ToSql + Sync), Type); 5] = [
        (&tenant, Type::TEXT),
        (&instance, Type::TEXT),
        (&link, Type::UUID),
        (&filter.before, Type::INT8),
        (&limit, Type::INT8),
    ];
    // Planned for its parameters, so that each filter has its index.
    let rows = pool.query_planned(LIST, &params, "").await?;
    let at = columns!(rows; id, at, action, outcome, client_address, instance_id, link_id)?;
    let entry = |row: &tokio_postgres::Row| AuditRow {
        id: row.get(at.id),
        at: row.get(at.at),
        action: AuditAction::from_number(row.get(at.action)),
        outcome: AuditOutcome::from_number(row.get(at.outcome)),
        client: row.get(at.client_address),
        instance: row.get::<_, Option<String>>(at.instance_id).map(InstanceId::new),
        link: row.get::<_, Option<Uuid>>(at.link_id).map(LinkId),
    };
    Ok(rows.iter().map(entry).collect())
}
