//! Reads of single versions, by what identifies them.

use std::sync::Arc;

use deadpool_postgres::Object;
use postgres_types::ToSql;

use super::{DefinitionColumns, DefinitionRow, JsonText, definition_row};
use crate::db::{Pool, columns};
use crate::id::{DefinitionId, TenantId, VersionId};
use crate::{Error, Result, compute};

const FIND: &str = include_str!("../../../sql/queries/definition/find.sql");
const FIND_MANY: &str = include_str!("../../../sql/queries/definition/find_many.sql");
const IS_NAME_FREE: &str = include_str!("../../../sql/queries/definition/is_name_free.sql");
const IS_PUBLISHED: &str = include_str!("../../../sql/queries/definition/is_published.sql");
const COUNT: &str = include_str!("../../../sql/queries/definition/count.sql");

/// Selects a version of a definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct VersionSelector {
    pub(crate) definition_id: Option<DefinitionId>,
    pub(crate) version_id: Option<VersionId>,
    pub(crate) version: Option<i32>,
    pub(crate) published: bool,
    pub(crate) latest: bool,
    pub(crate) draft: bool,
}

impl VersionSelector {
    fn params<'a>(&'a self, tenant: &'a &'a str, ids: &'a SelectedIds<'a>) -> [&'a (dyn ToSql + Sync); 7] {
        [
            tenant,
            &ids.0,
            &ids.1,
            &self.version,
            &self.published,
            &self.latest,
            &self.draft,
        ]
    }

    fn ids(&self) -> SelectedIds<'_> {
        let definition = self.definition_id.as_ref().map(DefinitionId::as_str);
        SelectedIds(definition, self.version_id.as_ref().map(VersionId::as_str))
    }
}

/// The ids of a definition and of a version, as parameters.
struct SelectedIds<'a>(Option<&'a str>, Option<&'a str>);

/// Finds one version: the published one first, then the newest.
pub(crate) async fn find(pool: &Pool, tenant: &TenantId, selector: &VersionSelector) -> Result<Option<DefinitionRow>> {
    let found = pool
        .query_opt(FIND, &selector.params(&tenant.as_str(), &selector.ids()))
        .await?;
    read(found).await
}

/// The same in a transaction.
pub(super) async fn find_within(
    client: &Object,
    tenant: &TenantId,
    selector: &VersionSelector,
) -> Result<Option<DefinitionRow>> {
    let found = client
        .query_opt(FIND, &selector.params(&tenant.as_str(), &selector.ids()))
        .await?;
    read(found).await
}

async fn read(row: Option<tokio_postgres::Row>) -> Result<Option<DefinitionRow>> {
    let Some(row) = row else { return Ok(None) };
    let JsonText(text) = row.get("body");
    let body = compute::parse(text).await?;
    Ok(Some(definition_row(DefinitionColumns::of(&row)?, &row, Arc::new(body))))
}

/// Finds versions by their own ids, in the order of the ids; unknown ones are left out. `too-large` if the bodies have more
/// than `most_bytes` together.
pub(crate) async fn find_many(
    pool: &Pool,
    tenant: &TenantId,
    versions: &[&str],
    most_bytes: i64,
) -> Result<Vec<DefinitionRow>> {
    find_many_with(pool, tenant, versions, most_bytes, &mut |_| Ok::<_, Error>(())).await
}

/// The same; `admit` is asked about each body before it is parsed.
pub(crate) async fn find_many_with<E: From<Error>>(
    pool: &Pool,
    tenant: &TenantId,
    versions: &[&str],
    most_bytes: i64,
    admit: &mut (dyn FnMut(&[u8]) -> Result<(), E> + Send),
) -> Result<Vec<DefinitionRow>, E> {
    let rows = pool
        .query(FIND_MANY, &[&tenant.as_str(), &versions, &most_bytes])
        .await?;
    let at = DefinitionColumns::of(&rows)?;
    let mut found = Vec::new();
    for row in &rows {
        let Some(JsonText(text)) = row.get::<_, Option<JsonText>>("body") else {
            let message = format!("these versions have more than {most_bytes} bytes together; ask for fewer at a time");
            return Err(Error::invalid("too-large", message.clone())
                .field("ids", message)
                .into());
        };
        admit(&text)?;
        found.push(definition_row(at, row, Arc::new(compute::parse(text).await?)));
    }
    Ok(found)
}

/// Whether no newest version of another definition has this name.
pub(crate) async fn is_name_free(
    pool: &Pool,
    tenant: &TenantId,
    name: &str,
    besides: Option<&DefinitionId>,
) -> Result<bool> {
    let besides = besides.map(DefinitionId::as_str);
    let row = pool
        .query_one(IS_NAME_FREE, &[&tenant.as_str(), &name, &besides])
        .await?;
    Ok(row.get("free"))
}

/// Whether a version of a definition is published.
pub(crate) async fn is_published(pool: &Pool, tenant: &TenantId, definition: &str) -> Result<bool> {
    let row = pool.query_one(IS_PUBLISHED, &[&tenant.as_str(), &definition]).await?;
    let at = columns!(row; is_published)?;
    Ok(row.get(at.is_published))
}

/// The number of definitions.
pub(crate) async fn count(pool: &Pool, tenant: &TenantId) -> Result<u64> {
    Ok(crate::store::total(&pool.query(COUNT, &[&tenant.as_str()]).await?))
}
