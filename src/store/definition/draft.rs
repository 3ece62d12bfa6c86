//! Starts of versions that are not published.

use super::begin;
use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Pool, within};
use crate::id::{DefinitionId, TenantId, VersionId};

const STARTABLE: &str = include_str!("../../../sql/queries/definition/startable.sql");
const START_DRAFT: &str = include_str!("../../../sql/queries/definition/start_draft.sql");

/// A version that a start names.
#[derive(Clone, Debug)]
pub(crate) struct Startable {
    pub(crate) version_id: VersionId,
    pub(crate) is_published: bool,
    /// It is a draft that a save may still change: it must be marked before it is started.
    pub(crate) may_change: bool,
}

/// Finds the version that a start names.
pub(crate) async fn startable(
    pool: &Pool,
    tenant: &TenantId,
    id: &DefinitionId,
    selector: &super::VersionSelector,
) -> Result<Option<Startable>> {
    let row = pool
        .query_opt(
            STARTABLE,
            &[
                &tenant.as_str(),
                &id.as_str(),
                &selector.version,
                &selector.published,
                &selector.latest,
                &selector.draft,
            ],
        )
        .await?;
    Ok(row.map(|row| Startable {
        version_id: VersionId::new(row.get::<_, String>("version_id")),
        is_published: row.get("is_published"),
        may_change: row.get("may_change"),
    }))
}

/// Marks a draft as started, so that no save changes it from now on. Nothing is written for another version.
pub(crate) async fn mark_started(
    pool: &Pool,
    lock_class: i32,
    tenant: &TenantId,
    id: &DefinitionId,
    version: &VersionId,
) -> Result<()> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    within(ANSWER_TIMEOUT * 2, async {
        begin(client, lock_class, tenant, id).await?;
        client
            .execute(START_DRAFT, &[&tenant.as_str(), &version.as_str()])
            .await?;
        client.batch_execute("COMMIT").await?;
        Ok::<_, crate::Error>(())
    })
    .await?;
    connection.give_back();
    Ok(())
}
