//! Resume links: rows that commits and requests write, and that are counted down by the transaction that accepts what the link
//! is for.
//!
//! A link is used in one transaction with what it accepts: [`LinkUse::around`] sends the statement that counts it down, and fails if
//! it cannot be used, before the statement that accepts. So two nodes at once cannot exceed its uses, a failed accept costs no
//! use, and each use has its entry in the audit.

use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::audit::AuditEntry;
use super::code::{AuditAction, AuditOutcome};
use super::instance::Generation;
use crate::db::{LINK_REFUSED_CODE, Pool, columns};
use crate::id::{BookmarkId, InstanceId, LinkId, TenantId};
use crate::{Error, Result};

const CREATE: &str = include_str!("../../sql/queries/link/create.sql");
const FIND: &str = include_str!("../../sql/queries/link/find.sql");
const LIST: &str = include_str!("../../sql/queries/link/list.sql");
const REVOKE: &str = include_str!("../../sql/queries/link/revoke.sql");
const SPEND: &str = include_str!("../../sql/queries/link/spend.sql");

/// The most links of an instance to which requests add one.
pub(crate) const MOST_MADE: i64 = 10_000;

/// A link that a request makes.
#[derive(Clone, Debug)]
pub(crate) struct NewLink {
    pub(crate) id: LinkId,
    pub(crate) instance: InstanceId,
    pub(crate) generation: Generation,
    pub(crate) bookmark: BookmarkId,
    pub(crate) lifetime: Duration,
    pub(crate) uses: i32,
    /// The number of the key that signs it.
    pub(crate) signed_by: i32,
}

/// What became of a link that a request makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Created {
    /// It expires at this time.
    Until(DateTime<Utc>),
    /// The instance does not wait at the bookmark.
    NotWaiting,
    /// The instance has [`MOST_MADE`] links.
    TooMany,
}

/// Makes a link.
pub(crate) async fn create(pool: &Pool, tenant: &TenantId, link: &NewLink) -> Result<Created> {
    let lifetime = i64::try_from(link.lifetime.as_micros()).unwrap_or(i64::MAX);
    let params: [&(dyn ToSql + Sync); 9] = [
        &link.id.0,
        &tenant.as_str(),
        &link.instance.as_str(),
        &link.generation.number(),
        &link.bookmark.as_str(),
        &lifetime,
        &link.uses,
        &link.signed_by,
        &MOST_MADE,
    ];
    let made = |rows: &[Row]| {
        let expires = |row: &Row| row.get::<_, Option<DateTime<Utc>>>("expires_at");
        rows.iter().any(|row| expires(row).is_some())
    };
    let row = pool.change_one(CREATE, &params, made).await?;
    let at = columns!(row; expires_at, has_room)?;
    Ok(match (row.get(at.expires_at), row.get(at.has_room)) {
        (Some(expires_at), _) => Created::Until(expires_at),
        (None, true) => Created::NotWaiting,
        (None, false) => Created::TooMany,
    })
}

/// What a link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResumeLinkTarget {
    /// It resumes this bookmark.
    Bookmark(BookmarkId),
    /// It triggers this event.
    Event(String),
}

impl ResumeLinkTarget {
    fn of(bookmark: Option<String>, event: Option<String>) -> Option<Self> {
        let bookmark = bookmark.map(|id| Self::Bookmark(BookmarkId::new(id)));
        bookmark.or_else(|| event.map(Self::Event))
    }
}

/// A link as its holder finds it.
#[derive(Clone, Debug)]
pub(crate) struct FoundLink {
    pub(crate) tenant: TenantId,
    pub(crate) instance: InstanceId,
    pub(crate) generation: Generation,
    pub(crate) target: ResumeLinkTarget,
    /// Why it cannot be used now.
    pub(crate) refusal: Option<AuditOutcome>,
    /// The name of the workflow, if it has one.
    pub(crate) workflow: Option<String>,
}

/// Reads a link that was signed with this key, of whichever tenant.
pub(crate) async fn find(pool: &Pool, id: LinkId, key: i32) -> Result<Option<FoundLink>> {
    let Some(row) = pool.query_opt(FIND, &[&id.0, &key]).await? else {
        return Ok(None);
    };
    let at = columns!(row; tenant_id, instance_id, generation, bookmark_id, event, refusal, workflow)?;
    let target = ResumeLinkTarget::of(row.get(at.bookmark_id), row.get(at.event));
    Ok(Some(FoundLink {
        tenant: TenantId::new(row.get::<_, String>(at.tenant_id)),
        instance: InstanceId::new(row.get::<_, String>(at.instance_id)),
        generation: Generation::of_number(row.get(at.generation)),
        target: target.ok_or_else(|| Error::internal("a resume link leads nowhere"))?,
        refusal: outcome(row.get(at.refusal)),
        workflow: row.get(at.workflow),
    }))
}

/// A number that a newer program wrote refuses, too.
fn outcome(number: Option<i16>) -> Option<AuditOutcome> {
    number.map(|number| AuditOutcome::from_number(number).unwrap_or(AuditOutcome::Refused))
}

/// A link as a list shows it.
#[derive(Clone, Debug)]
pub(crate) struct ListedLink {
    pub(crate) id: LinkId,
    pub(crate) target: ResumeLinkTarget,
    pub(crate) uses: i32,
    pub(crate) uses_left: i32,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) expires_at: DateTime<Utc>,
    /// Why it cannot be used now.
    pub(crate) refusal: Option<AuditOutcome>,
}

/// A page of the links of an instance, the newest first, before this one.
pub(crate) async fn list(
    pool: &Pool,
    tenant: &TenantId,
    instance: &InstanceId,
    before: Option<LinkId>,
    limit: i64,
) -> Result<Vec<ListedLink>> {
    let before = before.map(|link| link.0);
    let params: [&(dyn ToSql + Sync); 4] = [&tenant.as_str(), &instance.as_str(), &limit, &before];
    let rows = pool.query(LIST, &params).await?;
    let at = columns!(rows; id, bookmark_id, event, uses, uses_left, created_at, expires_at, refusal)?;
    let link = |row: &Row| {
        Some(ListedLink {
            id: LinkId(row.get(at.id)),
            target: ResumeLinkTarget::of(row.get(at.bookmark_id), row.get(at.event))?,
            uses: row.get(at.uses),
            uses_left: row.get(at.uses_left),
            created_at: row.get(at.created_at),
            expires_at: row.get(at.expires_at),
            refusal: outcome(row.get(at.refusal)),
        })
    };
    Ok(rows.iter().filter_map(link).collect())
}

/// Revokes a link of an instance; false: it has none with this id.
pub(crate) async fn revoke(pool: &Pool, tenant: &TenantId, instance: &InstanceId, id: LinkId) -> Result<bool> {
    let params: [&(dyn ToSql + Sync); 3] = [&id.0, &tenant.as_str(), &instance.as_str()];
    Ok(pool
        .change_opt(REVOKE, &params, |rows| !rows.is_empty())
        .await?
        .is_some())
}

/// A use of a link whose signature was verified.
#[derive(Clone, Debug)]
pub(crate) struct LinkUse {
    pub(crate) id: LinkId,
    /// The key that it was signed with.
    pub(crate) key: i32,
    /// Where the request came from.
    pub(crate) client: Option<String>,
}

impl LinkUse {
    /// The statement that counts a use.
    pub(super) async fn prepare(
        client: &deadpool_postgres::Object,
    ) -> std::result::Result<Statement, tokio_postgres::Error> {
        client.prepare_cached(SPEND).await
    }

    /// Counts the use: sent within the transaction that accepts, before the statement that does.
    pub(super) async fn spend(
        &self,
        client: &Client,
        spend: &Statement,
        tenant: &TenantId,
    ) -> std::result::Result<(), tokio_postgres::Error> {
        let params: [&(dyn ToSql + Sync); 4] = [&self.id.0, &tenant.as_str(), &self.key, &self.client];
        client.query(spend, &params).await.map(drop)
    }

    /// Uses the link in one transaction with a statement that accepts (the second one), and that has accepted nothing if it returns no row: then
    /// the use is not counted. One round trip, and one for its end.
    pub(super) async fn around(
        &self,
        client: &deadpool_postgres::Object,
        tenant: &TenantId,
        [spend, accept]: [&Statement; 2],
        params: &[&(dyn ToSql + Sync)],
    ) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        // `join!` polls in this order, so the statements are sent in this order.
        let (begun, spent, accepted) = futures_util::join!(
            client.batch_execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = '1s'"),
            self.spend(client, spend, tenant),
            client.query(accept, params),
        );
        let is_accepted = spent.is_ok() && accepted.as_ref().is_ok_and(|rows| !rows.is_empty());
        let ended = client
            .batch_execute(if is_accepted { "COMMIT" } else { "ROLLBACK" })
            .await;
        // The first failure is the cause; later statements only report that the transaction is aborted.
        begun?;
        spent?;
        let rows = accepted?;
        ended?;
        Ok(rows)
    }

    /// The entry of the audit for an attempt that was not accepted.
    pub(crate) fn entry(&self, instance: Option<&InstanceId>, outcome: AuditOutcome) -> AuditEntry {
        AuditEntry {
            instance: instance.cloned(),
            link: Some(self.id),
            ..AuditEntry::from_address(AuditAction::ResumeLink, outcome, self.client.clone())
        }
    }
}

/// The error of a link that cannot be used, as the transaction that used it would have it.
pub(crate) fn refused(outcome: AuditOutcome) -> Error {
    Error::gone(LINK_REFUSED_CODE, outcome.number().to_string())
}

/// Why a transaction that used a link was refused, if the link was the reason.
pub(crate) fn refusal(error: &Error) -> Option<AuditOutcome> {
    let number = Some(error)
        .filter(|error| error.code() == LINK_REFUSED_CODE)?
        .message()
        .parse();
    outcome(Some(number.unwrap_or(AuditOutcome::Refused.number())))
}
