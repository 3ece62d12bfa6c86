//! Refreshes: what starts instances of the published version is computed and written again.

use tokio_postgres::Row;

use super::{StartSources, begin, end_refused, save};
use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::id::{DefinitionId, TenantId, VersionId};
use crate::{Error, Result};

const PUBLISHED_VERSION: &str = include_str!("../../../sql/queries/definition/published_version.sql");
const LIST_PUBLISHED: &str = include_str!("../../../sql/queries/definition/list_published.sql");

/// Writes the start sources of the published version again, as its publish has, and notifies all nodes of the change. The
/// planner decides which schedules stay. Returns false, and writes nothing, if another version is published.
pub(crate) async fn refresh(
    pool: &Pool,
    lock_class: i32,
    tenant: &TenantId,
    id: &DefinitionId,
    version: &VersionId,
    starts: StartSources<'_>,
) -> Result<bool> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let is_published = within(ANSWER_TIMEOUT * 2, async {
        begin(client, lock_class, tenant, id).await?;
        let row = client
            .query_opt(PUBLISHED_VERSION, &[&tenant.as_str(), &id.as_str()])
            .await?;
        if row.as_ref().map(version_id).as_ref() != Some(version) {
            client.batch_execute("ROLLBACK").await?;
            return Ok(Ok(false));
        }
        let marked = save::mark_published(client, lock_class, tenant, id, version, starts).await;
        if let Err(refused) = end_refused(client, marked).await? {
            return Ok(Err(refused));
        }
        connection.commit().await?;
        Ok::<_, Error>(Ok(true))
    })
    .await?;
    connection.give_back();
    is_published
}

/// The published version of a definition.
pub(crate) async fn published_version(pool: &Pool, tenant: &TenantId, id: &DefinitionId) -> Result<Option<VersionId>> {
    let row = pool
        .query_opt(PUBLISHED_VERSION, &[&tenant.as_str(), &id.as_str()])
        .await?;
    Ok(row.as_ref().map(version_id))
}

fn version_id(row: &Row) -> VersionId {
    VersionId::new(row.get::<_, String>("version_id"))
}

/// The ids of the published definitions after one of them, in their order.
pub(crate) async fn list_published(
    pool: &Pool,
    tenant: &TenantId,
    after: &DefinitionId,
    limit: i64,
) -> Result<Vec<DefinitionId>> {
    let rows = pool
        .query(LIST_PUBLISHED, &[&tenant.as_str(), &after.as_str(), &limit])
        .await?;
    let at = columns!(rows; definition_id)?;
    Ok(rows
        .iter()
        .map(|row| DefinitionId::new(row.get::<_, String>(at.definition_id)))
        .collect())
}
