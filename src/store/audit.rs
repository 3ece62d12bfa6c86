//! The audit: what was done from outside, by whom and with which outcome. Rows are only added, and purged by age.
//!
//! A change has its entry in its own transaction: as the companion of a pool's change, or in the statement that accepts.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use postgres_types::{ToSql, Type};
use uuid::Uuid;

use super::code::{AuditAction, AuditOutcome};
use crate::Result;
use crate::db::{Companion, Pool, columns};
use crate::id::{InstanceId, LinkId, TenantId};
use crate::identity::{CallerKind, RequestOrigin};

const NOTE: &str = include_str!("../../sql/queries/audit/note.sql");
const NOTE_CHANGE: &str = include_str!("../../sql/queries/audit/note_change.sql");
const LIST: &str = include_str!("../../sql/queries/audit/list.sql");

/// The longest name and the longest target that an entry has, in bytes.
const LONGEST_TEXT: usize = 1_024;

/// Where a request comes from, as the composite type of the schema.
#[derive(Clone, Debug, Default, ToSql)]
#[postgres(name = "audit_origin")]
pub(crate) struct OriginRow {
    client_address: Option<String>,
    caller_kind: Option<&'static str>,
    caller_id: Option<String>,
    caller_name: Option<String>,
    caller_issuer: Option<String>,
    method: Option<String>,
    route: Option<String>,
    target: Option<String>,
}

impl OriginRow {
    /// The columns of a request.
    pub(crate) fn of(origin: &RequestOrigin) -> Self {
        let caller = &origin.caller;
        let issuer = match &caller.kind {
            CallerKind::External { issuer } => Some(issuer.as_str()),
            _ => None,
        };
        Self {
            client_address: origin.client.map(|address| address.to_string()),
            caller_kind: Some(caller.kind.word()),
            caller_id: kept(&caller.id),
            caller_name: kept(&caller.name),
            caller_issuer: issuer.and_then(kept),
            method: kept(&origin.method),
            route: kept(&origin.route),
            target: kept(&origin.target),
        }
    }
}

/// A text as a column holds it; none for an empty one.
fn kept(text: &str) -> Option<String> {
    let most = LONGEST_TEXT.min(text.len());
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end))?;
    let text = text.get(..end)?.replace('\0', "");
    (!text.is_empty()).then_some(text)
}

/// The entry of a request in the transaction of what it changes.
pub(crate) struct RequestNote {
    origin: Arc<RequestOrigin>,
    tenant: String,
    instance: Option<String>,
    row: OriginRow,
}

impl RequestNote {
    /// About this instance, if it is about one.
    pub(crate) fn new(origin: &Arc<RequestOrigin>, tenant: &TenantId, instance: Option<&InstanceId>) -> Self {
        Self {
            origin: Arc::clone(origin),
            tenant: tenant.as_str().to_owned(),
            instance: instance.map(|id| id.as_str().to_owned()),
            row: OriginRow::of(origin),
        }
    }
}

impl Companion for RequestNote {
    fn sql(&self) -> &'static str {
        NOTE_CHANGE
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.tenant, &self.instance, &self.row]
    }

    fn is_written(&self) -> bool {
        self.origin.is_noted()
    }

    fn written(&self) {
        self.origin.noted();
    }
}

/// An attempt, before the database has given it its time.
#[derive(Clone, Debug)]
pub(crate) struct AuditEntry {
    pub(crate) action: AuditAction,
    pub(crate) outcome: AuditOutcome,
    /// The code of the error.
    pub(crate) code: Option<String>,
    pub(crate) instance: Option<InstanceId>,
    pub(crate) link: Option<LinkId>,
    pub(crate) origin: OriginRow,
}

impl AuditEntry {
    /// An attempt from an address.
    pub(crate) fn from_address(action: AuditAction, outcome: AuditOutcome, client: Option<String>) -> Self {
        Self {
            action,
            outcome,
            code: None,
            instance: None,
            link: None,
            origin: OriginRow {
                client_address: client,
                ..OriginRow::default()
            },
        }
    }

    /// The same about a user.
    #[cfg(feature = "http")]
    pub(crate) fn of_user(mut self, id: &str) -> Self {
        self.origin.caller_kind = Some(CallerKind::User.word());
        self.origin.caller_id = kept(id);
        self
    }

    /// The same about the name of the attempt, which no user may have.
    #[cfg(feature = "http")]
    pub(crate) fn naming(mut self, name: &str) -> Self {
        self.origin.caller_kind = Some(CallerKind::User.word());
        self.origin.caller_name = kept(name);
        self
    }
}

/// Notes an attempt that changed nothing else. One that did is noted by the transaction of its change.
pub(crate) async fn note(pool: &Pool, tenant: &TenantId, entry: &AuditEntry) -> Result<()> {
    let origin = &entry.origin;
    let params: [&(dyn ToSql + Sync); 14] = [
        &tenant.as_str(),
        &entry.action.number(),
        &entry.outcome.number(),
        &entry.code,
        &origin.client_address,
        &entry.instance.as_ref().map(InstanceId::as_str),
        &entry.link.map(|link| link.0),
        &origin.caller_kind,
        &origin.caller_id,
        &origin.caller_name,
        &origin.caller_issuer,
        &origin.method,
        &origin.route,
        &origin.target,
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
    pub(crate) caller_id: Option<String>,
    pub(crate) caller_name: Option<String>,
    pub(crate) route: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) outcome: Option<AuditOutcome>,
    pub(crate) action: Option<AuditAction>,
    pub(crate) from: Option<DateTime<Utc>>,
    pub(crate) until: Option<DateTime<Utc>>,
}

/// An entry as it is listed. Action and outcome are none where this program does not know their numbers.
#[derive(Clone, Debug)]
pub(crate) struct AuditRow {
    pub(crate) id: i64,
    pub(crate) at: DateTime<Utc>,
    pub(crate) action: Option<AuditAction>,
    pub(crate) outcome: Option<AuditOutcome>,
    pub(crate) code: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) instance: Option<InstanceId>,
    pub(crate) link: Option<LinkId>,
    pub(crate) caller_kind: Option<String>,
    pub(crate) caller_id: Option<String>,
    pub(crate) caller_name: Option<String>,
    pub(crate) caller_issuer: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) route: Option<String>,
    pub(crate) target: Option<String>,
}

/// A page of the audit, the newest entry first.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId, filter: &AuditFilter, limit: i64) -> Result<Vec<AuditRow>> {
    let (tenant, instance) = (tenant.as_str(), filter.instance.as_ref().map(InstanceId::as_str));
    let link = filter.link.map(|link| link.0);
    let (outcome, action) = (
        filter.outcome.map(AuditOutcome::number),
        filter.action.map(AuditAction::number),
    );
    let params: [(&(dyn ToSql + Sync), Type); 13] = [
        (&tenant, Type::TEXT),
        (&instance, Type::TEXT),
        (&link, Type::UUID),
        (&filter.before, Type::INT8),
        (&limit, Type::INT8),
        (&filter.caller_id, Type::TEXT),
        (&filter.caller_name, Type::TEXT),
        (&filter.route, Type::TEXT),
        (&filter.method, Type::TEXT),
        (&outcome, Type::INT2),
        (&action, Type::INT2),
        (&filter.from, Type::TIMESTAMPTZ),
        (&filter.until, Type::TIMESTAMPTZ),
    ];
    // Planned for its parameters, so that each filter has its index.
    let rows = pool.query_planned(LIST, &params, "").await?;
    let at = columns!(rows; id, at, action, outcome, code, client_address, instance_id, link_id, caller_kind, caller_id, caller_name, caller_issuer, method, route, target)?;
    let entry = |row: &tokio_postgres::Row| AuditRow {
        id: row.get(at.id),
        at: row.get(at.at),
        action: AuditAction::from_number(row.get(at.action)),
        outcome: AuditOutcome::from_number(row.get(at.outcome)),
        code: row.get(at.code),
        client: row.get(at.client_address),
        instance: row.get::<_, Option<String>>(at.instance_id).map(InstanceId::new),
        link: row.get::<_, Option<Uuid>>(at.link_id).map(LinkId),
        caller_kind: row.get(at.caller_kind),
        caller_id: row.get(at.caller_id),
        caller_name: row.get(at.caller_name),
        caller_issuer: row.get(at.caller_issuer),
        method: row.get(at.method),
        route: row.get(at.route),
        target: row.get(at.target),
    };
    Ok(rows.iter().map(entry).collect())
}
