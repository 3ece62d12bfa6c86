//! The list of versions, a page at a time and without bodies.

use std::sync::{Arc, LazyLock};

use postgres_types::ToSql;

use super::{DefinitionColumns, DefinitionRow, definition_row};
use crate::Result;
use crate::db::Pool;
use crate::id::TenantId;
use crate::store::parts::with_parts;

const LIST: &str = include_str!("../../../sql/queries/definition/list.sql");

/// Which versions a list has; each is a part of the statement, as some have an index of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum VersionScope {
    #[default]
    All,
    Latest,
    Published,
    LatestOrPublished,
    LatestAndPublished,
    Draft,
}

const SCOPES: [&str; 6] = [
    "all",
    "latest",
    "published",
    "latest or published",
    "latest and published",
    "draft",
];

/// By what a list is ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DefinitionListOrder {
    #[default]
    Name,
    Created,
    Version,
}

const ORDERS: [&str; 6] = [
    "name ascending",
    "name descending",
    "created ascending",
    "created descending",
    "version ascending",
    "version descending",
];

/// The statement for each scope and order.
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let forms = SCOPES
        .iter()
        .flat_map(|scope| ORDERS.iter().map(move |order| (scope, order)));
    let text = |(scope, order): (&&str, &&str)| with_parts(LIST, |part| part == *scope || part == *order);
    forms.map(text).collect()
});

/// A filter for versions.
#[derive(Clone, Debug, Default)]
pub(crate) struct DefinitionListFilter<'a> {
    pub(crate) scope: VersionScope,
    pub(crate) version: Option<i32>,
    /// The ids of versions, deleted ones too.
    pub(crate) version_ids: Vec<&'a str>,
    pub(crate) definition_ids: Vec<&'a str>,
    pub(crate) is_system: Option<bool>,
    pub(crate) search: Option<&'a str>,
    pub(crate) order: DefinitionListOrder,
    pub(crate) descending: bool,
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

/// The statement of a filter.
pub(super) fn text(filter: &DefinitionListFilter<'_>) -> &'static str {
    let order = filter.order as usize * 2 + usize::from(filter.descending);
    let at = filter.scope as usize * ORDERS.len() + order;
    TEXTS.get(at).map_or(LIST, String::as_str)
}

/// A version in a list, without its body.
#[derive(Debug)]
pub(crate) struct ListedVersion {
    pub(crate) row: DefinitionRow,
    /// Of its body: the version of the tool that created it.
    pub(crate) tool_version: Option<String>,
}

/// Lists a page, with the total number.
pub(crate) async fn list(
    pool: &Pool,
    tenant: &TenantId,
    filter: &DefinitionListFilter<'_>,
) -> Result<(u64, Vec<ListedVersion>)> {
    let params: [&(dyn ToSql + Sync); 8] = [
        &tenant.as_str(),
        &filter.version_ids,
        &filter.definition_ids,
        &filter.version,
        &filter.is_system,
        &filter.search,
        &filter.limit,
        &filter.offset,
    ];
    let rows = pool.query(text(filter), &params).await?;
    let at = DefinitionColumns::of(&rows)?;
    let items = rows
        .iter()
        .filter(|row| row.get::<_, Option<String>>(at.version_id).is_some());
    let items = items.map(|row| ListedVersion {
        row: definition_row(at, row, Arc::default()),
        tool_version: row.get("tool_version"),
    });
    Ok((crate::store::total(&rows), items.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::store::Fixture;

    #[tokio::test]
    async fn every_shape_of_the_statement_runs() {
        let fixture = Fixture::new().await;
        let pool = Pool::new(&fixture.base, 1).unwrap();
        let mut texts = std::collections::HashSet::new();
        let scopes = [
            VersionScope::All,
            VersionScope::Latest,
            VersionScope::Published,
            VersionScope::LatestOrPublished,
            VersionScope::LatestAndPublished,
            VersionScope::Draft,
        ];
        for scope in scopes {
            for order in [
                DefinitionListOrder::Name,
                DefinitionListOrder::Created,
                DefinitionListOrder::Version,
            ] {
                for descending in [false, true] {
                    let filter = DefinitionListFilter {
                        scope,
                        order,
                        descending,
                        search: Some("text"),
                        limit: 10,
                        ..DefinitionListFilter::default()
                    };
                    let listed = list(&pool, &TenantId::default(), &filter).await;
                    let (total, rows) = listed.unwrap_or_else(|error| panic!("{error:?}\n{}", text(&filter)));
                    assert_eq!((total, rows.len()), (0, 0));
                    texts.insert(text(&filter));
                }
            }
        }
        assert_eq!(texts.len(), TEXTS.len());
    }
}
