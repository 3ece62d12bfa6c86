//! The audit: what was done and tried from outside, and by whom.
//!
//! A request that changes something is noted in the transaction of its change: the engine of the request
//! ([`Engine::for_request`]) gives the store a pool whose changes have that companion, and starts carry it to the statement that
//! accepts them. Admission notes the others when they have been answered: refused ones, and those whose change is written by a
//! burst or a paging job later.

use std::sync::Arc;
#[cfg(feature = "http")]
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Engine;
use crate::Result;
use crate::db::{Pool, bounded_list};
use crate::elsa_json;
use crate::id::{InstanceId, LinkId};
use crate::runtime::context::node_context::NodeContext;
use crate::store::audit::{self, AuditFilter, AuditRow, RequestNote};
#[cfg(feature = "http")]
use crate::store::audit::{AuditEntry, OriginRow};
use crate::store::code::{AuditAction, AuditOutcome};

/// How long the answer of a refused request waits for its entry.
#[cfg(feature = "http")]
const REFUSAL_WAIT: Duration = Duration::from_secs(1);

/// An entry.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Grows with each entry.
    pub id: i64,
    /// When it was, by the database's clock.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub at: DateTime<Utc>,
    /// What was tried: `Request`, `Login` or `ResumeLink`.
    pub action: String,
    /// `Accepted`, `Refused` or `Failed`; of a resume link also `Used`, `Expired`, `Revoked`, `Ended`, `Unknown` or `Repeated`.
    pub outcome: String,
    /// Why it was not accepted: the code of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// `anonymous`, `api-key`, `application`, `user`, `external`, or `command`: one of the program, which has the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_kind: Option<String>,
    /// The id of the user or application, or the `sub` of a token of another issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_id: Option<String>,
    /// The name of the caller at that time; of a login the name that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_name: Option<String>,
    /// The issuer of a token that is not of this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_issuer: Option<String>,
    /// The address that the request came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_address: Option<String>,
    /// The method of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its route, such as `/elsa/api/workflow-instances/{id}`, or the command, such as `mainspring user add`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// What the parameters of the route are in its path, with `/` between them, or the name that the command is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
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
    /// Only of the caller with this id.
    pub caller_id: Option<String>,
    /// Only of callers with this name.
    pub caller_name: Option<String>,
    /// Only of this route.
    pub route: Option<String>,
    /// Only of this method.
    pub method: Option<String>,
    /// Only with this outcome, in the words of [`AuditRecord::outcome`].
    pub outcome: Option<String>,
    /// Only with this action, in the words of [`AuditRecord::action`].
    pub action: Option<String>,
    /// Only those at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Only those before this time.
    pub until: Option<DateTime<Utc>>,
}

impl AuditRecord {
    fn of(row: AuditRow) -> Self {
        Self {
            id: row.id,
            at: row.at,
            action: row.action.map_or("Other", AuditAction::word).to_owned(),
            outcome: row.outcome.map_or("Other", AuditOutcome::word).to_owned(),
            code: row.code,
            caller_kind: row.caller_kind,
            caller_id: row.caller_id,
            caller_name: row.caller_name,
            caller_issuer: row.caller_issuer,
            client_address: row.client,
            method: row.method,
            route: row.route,
            target: row.target,
            workflow_instance_id: row.instance,
            link_id: row.link.map(|link| link.to_string()),
        }
    }
}

const ACTIONS: [AuditAction; 3] = [AuditAction::ResumeLink, AuditAction::Request, AuditAction::Login];

const OUTCOMES: [AuditOutcome; 9] = [
    AuditOutcome::Accepted,
    AuditOutcome::Used,
    AuditOutcome::Expired,
    AuditOutcome::Revoked,
    AuditOutcome::Ended,
    AuditOutcome::Unknown,
    AuditOutcome::Refused,
    AuditOutcome::Repeated,
    AuditOutcome::Failed,
];

/// The member with a word, in any case. Errors: [`Error::is_invalid`](crate::Error::is_invalid), with the words.
fn member<T: Copy>(
    field: &'static str,
    text: Option<&str>,
    all: &[T],
    word: fn(T) -> &'static str,
) -> Result<Option<T>> {
    let Some(text) = text else { return Ok(None) };
    let found = all.iter().copied().find(|one| word(*one).eq_ignore_ascii_case(text));
    found.map(Some).ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|one| word(*one)).collect();
        let message = format!("{field} is one of {}", words.join(", "));
        crate::Error::invalid("invalid-field", message.clone()).field(field, message)
    })
}

impl Engine {
    /// The connections for a change that the audit notes, if a client requests it.
    pub(super) fn changes(&self, node: &NodeContext) -> Pool {
        self.noted(node, None)
    }

    /// The same of a change of one instance.
    pub(super) fn changes_of(&self, node: &NodeContext, instance: &InstanceId) -> Pool {
        self.noted(node, Some(instance))
    }

    fn noted(&self, node: &NodeContext, instance: Option<&InstanceId>) -> Pool {
        let pool = &node.database.pool;
        match &self.origin {
            Some(origin) if origin.is_to_note() => {
                pool.beside(Arc::new(RequestNote::new(origin, &self.tenant, instance)))
            }
            _ => pool.clone(),
        }
    }

    /// Whether the next transaction is to note the request of this engine.
    pub(super) fn is_to_note(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.is_to_note())
    }

    /// The same engine for what the audit does not note.
    pub(super) fn without_origin(&self) -> Self {
        Self {
            origin: None,
            ..self.clone()
        }
    }

    /// Notes nothing of the request of this engine if it is accepted: it only reads.
    #[cfg(feature = "http")]
    pub(crate) fn note_nothing(&self) {
        if let Some(origin) = &self.origin {
            origin.noted();
        }
    }

    /// Notes the request of this engine, which has been answered, unless the transaction of its change did. `status`: of its response.
    #[cfg(feature = "http")]
    pub(crate) async fn note_own_request(&self, status: u16, code: Option<&'static str>) {
        // To its end, also if the client is gone meanwhile.
        let Some(noting) = self.noting(status, code) else {
            return;
        };
        if status < 400 {
            let _ = noting.await;
        } else {
            // Where the database is away, a refusal is not to take longer than what was refused.
            let _ = tokio::time::timeout(REFUSAL_WAIT, noting).await;
        }
    }

    /// Notes the request of this engine whose client is gone before its answer, unless the transaction of its change did, or the
    /// statement that accepts it is about to.
    #[cfg(feature = "http")]
    pub(crate) fn note_unanswered_request(&self) {
        if self.origin.as_ref().is_none_or(|origin| !origin.is_handed_over()) {
            drop(self.noting(500, Some("client-gone")));
        }
    }

    #[cfg(feature = "http")]
    fn noting(&self, status: u16, code: Option<&'static str>) -> Option<tokio::task::JoinHandle<()>> {
        if !self.origin.as_ref()?.is_to_note() {
            return None;
        }
        let engine = self.clone();
        let node = self.node().ok()?;
        let noting = async move { engine.note_request(status, code).await };
        Some(node.lifecycle.tasks.spawn(noting))
    }

    #[cfg(feature = "http")]
    async fn note_request(&self, status: u16, code: Option<&str>) {
        let Some(origin) = &self.origin else { return };
        let outcome = match status {
            ..400 => AuditOutcome::Accepted,
            400..500 => AuditOutcome::Refused,
            _ => AuditOutcome::Failed,
        };
        let entry = AuditEntry {
            code: code.map(str::to_owned),
            origin: OriginRow::of(origin),
            ..AuditEntry::from_address(AuditAction::Request, outcome, None)
        };
        self.note_alone(&entry, outcome).await;
    }

    /// Notes that a refresh token of a user was used a second time.
    #[cfg(feature = "http")]
    pub(super) async fn note_reuse(&self, user: &str, client: Option<&str>) {
        let entry = AuditEntry {
            code: Some("token-reused".to_owned()),
            ..AuditEntry::from_address(AuditAction::Login, AuditOutcome::Refused, client.map(str::to_owned))
                .of_user(user)
        };
        self.note_alone(&entry, AuditOutcome::Refused).await;
    }

    /// Notes a login by a name, which no user may have.
    #[cfg(feature = "http")]
    pub(crate) async fn note_login(&self, name: &str, client: Option<String>, code: Option<&str>) {
        let outcome = match code {
            None => AuditOutcome::Accepted,
            Some(_) => AuditOutcome::Refused,
        };
        let entry = AuditEntry {
            code: code.map(str::to_owned),
            ..AuditEntry::from_address(AuditAction::Login, outcome, client).naming(name)
        };
        self.note_alone(&entry, outcome).await;
    }

    /// Notes what no transaction of a change notes. Of what is not accepted a node notes so many in a second; more are counted only.
    #[cfg(feature = "http")]
    async fn note_alone(&self, entry: &AuditEntry, outcome: AuditOutcome) {
        if outcome != AuditOutcome::Accepted && !self.inner.refused_requests.is_noted() {
            metrics::counter!("mainspring_audit_omitted_total").increment(1);
            return;
        }
        let noting = async { audit::note(&self.node()?.database.pool, &self.tenant, entry).await };
        if let Err(error) = noting.await {
            metrics::counter!("mainspring_audit_omitted_total").increment(1);
            tracing::warn!(%error, "a request is missing in the audit");
        }
    }

    /// A page of the audit, the newest entry first; the next page is before its last entry. [`Error::is_invalid`](crate::Error::is_invalid)
    /// for an unknown outcome or action.
    pub async fn audit(&self, query: AuditQuery, page_size: u32) -> Result<Vec<AuditRecord>> {
        let filter = AuditFilter {
            instance: query.instance_id,
            link: query.link_id,
            before: query.before,
            caller_id: query.caller_id,
            caller_name: query.caller_name,
            route: query.route,
            method: query.method.map(|method| method.to_ascii_uppercase()),
            outcome: member("outcome", query.outcome.as_deref(), &OUTCOMES, AuditOutcome::word)?,
            action: member("action", query.action.as_deref(), &ACTIONS, AuditAction::word)?,
            from: query.from,
            until: query.until,
        };
        let node = self.node()?;
        let reading = audit::list(node.database.reads.lists(), &self.tenant, &filter, page_size.into());
        let rows = bounded_list(reading).await?;
        Ok(rows.into_iter().map(AuditRecord::of).collect())
    }
}
