//! The list of definitions.

use crate::Result;
use crate::id::{DefinitionId, VersionId};
use crate::runtime::context::request::{
    DefinitionFilter, DefinitionOrder, DefinitionSummary, Listed, Page, VersionOptions,
};
use crate::runtime::engine::Engine;
use crate::store::definition::list::{self, DefinitionListFilter, DefinitionListOrder, ListedVersion, VersionScope};

impl Engine {
    /// Lists versions of definitions, without their bodies.
    pub async fn definitions(&self, filter: &DefinitionFilter, page: Page) -> Result<Listed<DefinitionSummary>> {
        let (limit, offset) = page.window();
        let (scope, version) = match filter.versions {
            VersionOptions::All => (VersionScope::All, None),
            VersionOptions::Latest => (VersionScope::Latest, None),
            VersionOptions::Published => (VersionScope::Published, None),
            VersionOptions::LatestOrPublished => (VersionScope::LatestOrPublished, None),
            VersionOptions::LatestAndPublished => (VersionScope::LatestAndPublished, None),
            VersionOptions::Draft => (VersionScope::Draft, None),
            VersionOptions::Specific(version) => (VersionScope::All, Some(version)),
        };
        let wanted = DefinitionListFilter {
            scope,
            version,
            version_ids: filter.version_ids.iter().map(VersionId::as_str).collect(),
            definition_ids: filter.definition_ids.iter().map(DefinitionId::as_str).collect(),
            is_system: filter.is_system,
            search: filter.search_term.as_deref().filter(|term| !term.is_empty()),
            order: match filter.order {
                DefinitionOrder::Name => DefinitionListOrder::Name,
                DefinitionOrder::Created => DefinitionListOrder::Created,
                DefinitionOrder::Version => DefinitionListOrder::Version,
            },
            descending: filter.descending,
            limit,
            offset,
        };
        let (total_count, rows) = list::list(self.node()?.database.reads.lists(), &self.tenant, &wanted).await?;
        let items = rows.into_iter().map(summary).collect();
        Ok(Listed { items, total_count })
    }
}

fn summary(ListedVersion { row, tool_version }: ListedVersion) -> DefinitionSummary {
    DefinitionSummary {
        id: row.version_id,
        definition_id: row.definition_id,
        name: row.name,
        description: row.description,
        version: row.version,
        tool_version,
        is_latest: row.is_latest,
        is_published: row.is_published,
        is_readonly: row.is_readonly,
        is_system: row.is_system,
        created_at: row.created_at,
    }
}
