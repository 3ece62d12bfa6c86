//! The version on which an imported instance continues.

use chrono::{DateTime, Utc};

use crate::Result;
use crate::db::Pool;
use crate::id::{DefinitionId, TenantId, VersionId};
use crate::store::code::ActivationStrategy;

const IMPORTABLE: &str = include_str!("../../../sql/queries/definition/importable.sql");

/// The version that an imported instance runs on.
#[derive(Clone, Debug)]
pub(crate) struct ImportVersion {
    pub(crate) version_id: VersionId,
    pub(crate) version: i32,
    /// It was published or started, and never changes.
    pub(crate) is_final: bool,
    /// The published version lets any number of instances run.
    pub(crate) allows_any: bool,
    /// The time of the database.
    pub(crate) at: DateTime<Utc>,
}

/// Finds a version by its own id, or else by the number.
pub(crate) async fn importable(
    pool: &Pool,
    tenant: &TenantId,
    definition: &DefinitionId,
    version: (&VersionId, i32),
) -> Result<Option<ImportVersion>> {
    let (id, number) = version;
    let row = pool
        .query_opt(
            IMPORTABLE,
            &[&tenant.as_str(), &definition.as_str(), &id.as_str(), &number],
        )
        .await?;
    Ok(row.map(|row| ImportVersion {
        version_id: VersionId::new(row.get::<_, String>("version_id")),
        version: row.get("version"),
        is_final: row.get("is_final"),
        allows_any: row.get::<_, i16>("strategy") == ActivationStrategy::Always.number(),
        at: row.get("at"),
    }))
}
