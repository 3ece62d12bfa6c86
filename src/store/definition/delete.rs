//! Deletes of definitions and of single versions.
//!
//! A start that is accepted at the same moment may have a snapshot in which the version is still published. So a delete
//! marks the rows, and they are purged later, when every transaction that could have accepted such a start has ended; the
//! accepted starts keep their version.

use super::{LOCK, clear_start_sources, composition, end_refused, refuse_readonly};
use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Exclusive, Pool, columns, within};
use crate::id::{DefinitionId, TenantId, VersionId};
use crate::store::activation;

const VERSIONS: &str = include_str!("../../../sql/queries/definition/versions.sql");
const DELETE: &str = include_str!("../../../sql/queries/definition/delete.sql");
const SET_LATEST: &str = include_str!("../../../sql/queries/definition/set_latest.sql");
const DEFINITION_OF: &str = include_str!("../../../sql/queries/definition/definition_of.sql");
const LIST_DELETED: &str = include_str!("../../../sql/queries/definition/list_deleted.sql");
const PURGE: &str = include_str!("../../../sql/queries/definition/purge.sql");

/// The most deleted versions that one statement tries to purge.
const PURGE_PAGE: i64 = 100;

/// What is not deleted: such a version, and all versions if the newest is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteGuard {
    /// Everything is deleted.
    None,
    /// What belongs to the system.
    System,
    /// What is read-only or belongs to the system.
    ReadonlyOrSystem,
}

/// Deletes all versions of a definition, or one of them, with what starts it; returns the ids of the versions, none if there
/// are none. If the newest is deleted, the greatest of the others becomes the newest one.
pub(crate) async fn delete(
    pool: &Pool,
    lock_class: i32,
    tenant: &TenantId,
    id: &DefinitionId,
    only: Option<&VersionId>,
    guard: DeleteGuard,
) -> Result<Vec<String>> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let deleted = within(ANSWER_TIMEOUT * 2, async {
        let deleted = delete_within(&connection, lock_class, tenant, id, only, guard).await;
        end_refused(client, deleted).await
    })
    .await?;
    connection.give_back();
    deleted
}

async fn delete_within(
    connection: &Exclusive,
    lock_class: i32,
    tenant: &TenantId,
    id: &DefinitionId,
    only: Option<&VersionId>,
    guard: DeleteGuard,
) -> Result<Vec<String>> {
    let client = connection.client()?;
    client.batch_execute("BEGIN").await?;
    composition::lock(client, lock_class, tenant).await?;
    client
        .execute(LOCK, &[&lock_class, &tenant.as_str(), &id.as_str()])
        .await?;
    let rows = client.query(VERSIONS, &[&tenant.as_str(), &id.as_str()]).await?;
    let at = columns!(rows; version_id, is_latest, is_published, is_readonly, is_system)?;
    let (mut deleted, mut has_latest, mut has_published) = (Vec::new(), false, false);
    for row in &rows {
        let version: String = row.get(at.version_id);
        if only.is_none_or(|only| only.as_str() == version) {
            deleted.push(version);
            let is_latest: bool = row.get(at.is_latest);
            if guard != DeleteGuard::None && (only.is_some() || is_latest) {
                let is_readonly = guard == DeleteGuard::ReadonlyOrSystem && row.get(at.is_readonly);
                refuse_readonly(id, is_readonly, row.get(at.is_system))?;
            }
            has_latest |= is_latest;
            has_published |= row.get::<_, bool>(at.is_published);
        }
    }
    if deleted.is_empty() {
        client.batch_execute("ROLLBACK").await?;
        return Ok(deleted);
    }
    composition::refuse_used(client, tenant, id, &deleted).await?;
    if has_published {
        clear_start_sources(client, lock_class, tenant, id).await?;
    }
    client
        .query(DELETE, &[&tenant.as_str(), &id.as_str(), &deleted])
        .await?;
    if has_latest && deleted.len() < rows.len() {
        client.execute(SET_LATEST, &[&tenant.as_str(), &id.as_str()]).await?;
    }
    connection.commit().await?;
    Ok(deleted)
}

/// The definition of a version that is not deleted.
pub(crate) async fn definition_of(pool: &Pool, tenant: &TenantId, version: &VersionId) -> Result<Option<DefinitionId>> {
    let row = pool
        .query_opt(DEFINITION_OF, &[&tenant.as_str(), &version.as_str()])
        .await?;
    Ok(row.map(|row| DefinitionId::new(row.get::<_, String>("definition_id"))))
}

/// Purges those of these deleted versions that nothing has; returns how many. Waits until every transaction has ended that
/// could have accepted a start of one. If the future is dropped, or after an error, a cluster job purges them.
pub(crate) async fn purge(pool: &Pool, tenant: &TenantId, versions: &[String]) -> Result<usize> {
    activation::wait_for_writers(pool).await?;
    let mut purged = 0;
    for page in versions.chunks(usize::try_from(PURGE_PAGE).unwrap_or(1)) {
        let tenants = vec![tenant.as_str(); page.len()];
        purged += pool.query(PURGE, &[&tenants, &page]).await?.len();
    }
    Ok(purged)
}

/// Purges all deleted versions that nothing has any more, page by page; returns how many.
pub(crate) async fn purge_all(pool: &Pool) -> Result<usize> {
    let (mut after, mut purged) = ((String::new(), String::new()), 0);
    loop {
        let rows = pool.query(LIST_DELETED, &[&after.0, &after.1, &PURGE_PAGE]).await?;
        let at = columns!(rows; tenant_id, version_id)?;
        let page = rows.iter().map(|row| (row.get(at.tenant_id), row.get(at.version_id)));
        let (tenants, versions): (Vec<String>, Vec<String>) = page.unzip();
        let (Some(tenant), Some(version)) = (tenants.last(), versions.last()) else {
            return Ok(purged);
        };
        after = (tenant.clone(), version.clone());
        activation::wait_for_writers(pool).await?;
        purged += pool.query(PURGE, &[&tenants, &versions]).await?.len();
    }
}
