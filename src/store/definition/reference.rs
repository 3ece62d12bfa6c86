//! The references of a version: the definitions that it uses as activities.

use deadpool_postgres::Object;

use crate::Result;
use crate::id::{DefinitionId, TenantId, VersionId};

const WRITE: &str = include_str!("../../../sql/queries/composition/write.sql");

/// How an activity names a version of another definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReferenceKey {
    pub(crate) definition_id: String,
    pub(crate) type_name: String,
    /// Empty: by number.
    pub(crate) version_id: String,
    pub(crate) version: i32,
}

/// A reference of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReferenceRow {
    pub(crate) key: ReferenceKey,
    /// Of a draft, the definition that the activity names.
    pub(crate) used_definition: DefinitionId,
    /// The version that it means; `None` if it is not decided yet.
    pub(crate) used_version: Option<VersionId>,
}

/// Replaces the references of a version.
pub(super) async fn write_references(
    client: &Object,
    tenant: &TenantId,
    version: &VersionId,
    references: &[ReferenceRow],
) -> Result<()> {
    let column = |of: fn(&ReferenceRow) -> &str| references.iter().map(of).collect::<Vec<&str>>();
    let numbers: Vec<i32> = references.iter().map(|row| row.key.version).collect();
    let versions: Vec<Option<&str>> = references
        .iter()
        .map(|row| row.used_version.as_ref().map(VersionId::as_str))
        .collect();
    let params: [&(dyn postgres_types::ToSql + Sync); 8] = [
        &tenant.as_str(),
        &version.as_str(),
        &column(|row| &row.key.definition_id),
        &column(|row| &row.key.type_name),
        &column(|row| &row.key.version_id),
        &numbers,
        &column(|row| row.used_definition.as_str()),
        &versions,
    ];
    client.execute(WRITE, &params).await?;
    Ok(())
}
