//! Retracts: the published version is no longer started.

use super::read::{VersionSelector, find_within};
use super::{DefinitionRow, begin, clear_start_sources, end_refused, head, refuse_readonly};
use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Exclusive, Pool, within};
use crate::id::{DefinitionId, TenantId};

const RETRACT: &str = include_str!("../../../sql/queries/definition/retract.sql");

/// The result of a retract.
#[derive(Clone, Debug)]
pub(crate) enum RetractOutcome {
    /// This version was published until now.
    Retracted(DefinitionRow),
    /// No version is published: nothing was written.
    NotPublished,
    /// There is no such definition.
    NotFound,
}

/// Retracts the published version with its triggers and schedules, in one transaction. What was accepted before runs. With
/// `guards_readonly`, one that is read-only or belongs to the system is refused.
pub(crate) async fn retract(
    pool: &Pool,
    lock_class: i32,
    tenant: &TenantId,
    id: &DefinitionId,
    guards_readonly: bool,
) -> Result<RetractOutcome> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let outcome = within(ANSWER_TIMEOUT * 2, async {
        let outcome = retract_within(&connection, lock_class, tenant, id, guards_readonly).await;
        end_refused(client, outcome).await
    })
    .await?;
    connection.give_back();
    outcome
}

async fn retract_within(
    connection: &Exclusive,
    lock_class: i32,
    tenant: &TenantId,
    id: &DefinitionId,
    guards_readonly: bool,
) -> Result<RetractOutcome> {
    let client = connection.client()?;
    begin(client, lock_class, tenant, id).await?;
    let wanted = VersionSelector {
        definition_id: Some(id.clone()),
        published: true,
        ..VersionSelector::default()
    };
    let Some(row) = find_within(client, tenant, &wanted).await? else {
        let head = head(client, tenant, id).await?;
        if let Some(head) = head.as_ref().filter(|_| guards_readonly) {
            refuse_readonly(id, head.is_readonly, head.is_system)?;
        }
        client.batch_execute("ROLLBACK").await?;
        return Ok(head.map_or(RetractOutcome::NotFound, |_| RetractOutcome::NotPublished));
    };
    if guards_readonly {
        refuse_readonly(id, row.is_readonly, row.is_system)?;
    }
    clear_start_sources(client, lock_class, tenant, id).await?;
    client.query(RETRACT, &[&tenant.as_str(), &id.as_str()]).await?;
    connection.commit().await?;
    Ok(RetractOutcome::Retracted(DefinitionRow {
        is_published: false,
        ..row
    }))
}
