//! Lists of instances: filters, search, orders, pages by number and by cursor, and counts.
//!
//! # Invariants
//!
//! - Definitions and version numbers become ids of versions first, because instances are indexed by these.
//! - A few versions are each read in the order of their index; running instances, while they are few, are read by the rows
//!   that wait for them, because an index of a column that bursts change would cost each commit.
//! - A count is exact up to [`EXACT`]; beyond that, or if it takes half a second, it is the planner's estimate, and says so.

#[cfg(test)]
mod tests;

use chrono::{DateTime, Duration, Utc};
use postgres_types::{ToSql, Type};

use super::{InstanceColumns, InstanceRow, instance_row};
use crate::db::{Pool, ReadPool, columns};
use crate::id::TenantId;
use crate::store::code::{StatusCode, SubStatusCode};
use crate::store::parts::with_parts;
use crate::{Error, Result};

const LIST: &str = include_str!("../../../../sql/queries/instance/list.sql");
const WAITING: &str = include_str!("../../../../sql/queries/instance/waiting.sql");
const SELECT_VERSIONS: &str = include_str!("../../../../sql/queries/definition/select_versions.sql");
const SEARCH_VERSIONS: &str = include_str!("../../../../sql/queries/definition/search_versions.sql");

/// Up to here a count is exact.
pub(crate) const EXACT: i64 = 10_000;

/// From this estimate on nothing is counted.
const SURELY_MORE: f64 = 50_000.0;

/// The most versions that are read one by one.
const MAX_SINGLE_VERSIONS: usize = 100;

/// The same for pages of a thousand: each version is read up to the size of the page, and for most of these rows in vain. Read
/// at once in the order of creation, all pages together read each row once.
const MAX_PAGED_VERSIONS: usize = 4;

/// The most versions that a search text may mean.
const MAX_FOUND_VERSIONS: i64 = 1_000;

/// The characters of a name or correlation id that an index of trigrams has.
const INDEXED_ANYWHERE: usize = 256;

/// The characters of a name or correlation id that an index without trigrams has.
const INDEXED: usize = 64;

/// The times of a column that are meant: at least, at most, and none of these. Rows without a time are not within bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) from: Option<DateTime<Utc>>,
    pub(crate) to: Option<DateTime<Utc>>,
    pub(crate) not: Vec<DateTime<Utc>>,
}

impl TimeRange {
    pub(crate) fn at_least(&mut self, time: DateTime<Utc>) {
        self.from = Some(self.from.map_or(time, |from| from.max(time)));
    }

    pub(crate) fn at_most(&mut self, time: DateTime<Utc>) {
        self.to = Some(self.to.map_or(time, |to| to.min(time)));
    }

    /// The database has microseconds.
    pub(crate) fn step() -> Duration {
        Duration::microseconds(1)
    }
}

/// A filter for instances; an empty list means any.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstanceListFilter {
    pub(crate) ids: Vec<String>,
    pub(crate) definition_ids: Vec<String>,
    pub(crate) version_ids: Vec<String>,
    pub(crate) version: Option<i32>,
    /// Only of versions that belong to the system.
    pub(crate) is_system: bool,
    pub(crate) correlation_ids: Vec<String>,
    pub(crate) name: Option<String>,
    pub(crate) has_incidents: Option<bool>,
    pub(crate) statuses: Vec<i16>,
    pub(crate) sub_statuses: Vec<i16>,
    pub(crate) created: TimeRange,
    pub(crate) updated: TimeRange,
    pub(crate) finished: TimeRange,
    pub(crate) search: Option<String>,
    pub(crate) parents: Vec<String>,
}

/// The column of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InstanceListOrder {
    #[default]
    Created,
    Updated,
    Finished,
    Name,
}

impl InstanceListOrder {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Finished => "finished",
            Self::Name => "name",
        }
    }

    /// The value of a row as its cursor has it.
    fn key(self, row: &InstanceRow) -> String {
        let time = |at: DateTime<Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        match self {
            Self::Created => time(row.created_at),
            Self::Updated => time(row.updated_at),
            Self::Finished => row.finished_at.map_or_else(|| "infinity".to_owned(), time),
            Self::Name => row.name.clone().unwrap_or_default(),
        }
    }
}

/// A place in a list: the row that it was read up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListCursor {
    /// The value of the order's column.
    pub(crate) key: String,
    pub(crate) id: String,
}

/// Which rows of the list.
#[derive(Clone, Debug)]
pub(crate) struct ListPage {
    pub(crate) order: InstanceListOrder,
    pub(crate) descending: bool,
    pub(crate) limit: i64,
    pub(crate) offset: i64,
    /// Only rows behind it.
    pub(crate) after: Option<ListCursor>,
}

/// A page of instances.
#[derive(Clone, Debug)]
pub(crate) struct ListedRows {
    pub(crate) rows: Vec<InstanceRow>,
    pub(crate) total: u64,
    pub(crate) is_estimate: bool,
    /// Behind the last row; `None` if there is none behind.
    pub(crate) next: Option<ListCursor>,
}

/// How the rows are found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    EachVersion,
    AtOnce,
    FewRunning,
}

/// What a statement returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Page,
    Count,
    Estimate,
}

/// The values of all parameters of the statements.
struct Parameters<'a> {
    tenant: &'a str,
    versions: Option<Vec<String>>,
    filter: &'a InstanceListFilter,
    pattern: Option<String>,
    behind_prefix: String,
    found_versions: Vec<String>,
    has_trigrams: bool,
    source: Source,
}

/// The connections that a list uses: for what it looks up, and for itself.
#[derive(Clone, Copy)]
pub(crate) struct ListPools<'a> {
    keys: &'a Pool,
    lists: &'a Pool,
}

impl<'a> ListPools<'a> {
    /// For a list of the API.
    pub(crate) fn of_reads(reads: &'a ReadPool) -> Self {
        Self {
            keys: reads.by_key(),
            lists: reads.lists(),
        }
    }

    /// For work of the engine.
    pub(crate) fn of_work(pool: &'a Pool) -> Self {
        Self {
            keys: pool,
            lists: pool,
        }
    }

    /// For statements of a list beside this module.
    pub(super) fn lists(self) -> &'a Pool {
        self.lists
    }

    /// Whether so few rows wait for running instances that these are found by them.
    pub(super) async fn few_running(self) -> Result<bool> {
        Ok(self.waiting().await?.0)
    }

    /// That, and whether texts have trigram indexes.
    async fn waiting(self) -> Result<(bool, bool)> {
        let row = self.keys.query_one(WAITING, &[&(EXACT + 1)]).await?;
        let at = columns!(row; rows, has_trigrams)?;
        Ok((row.get::<_, i64>(at.rows) <= EXACT, row.get(at.has_trigrams)))
    }
}

/// The first instances behind a place, the oldest first, without a count.
pub(crate) async fn oldest(
    pools: ListPools<'_>,
    tenant: &TenantId,
    filter: &InstanceListFilter,
    after: Option<ListCursor>,
    limit: i64,
) -> Result<Vec<InstanceRow>> {
    let Some(parameters) = parameters(pools, tenant, filter).await? else {
        return Ok(Vec::new());
    };
    let parameters = parameters.for_large_pages();
    let page = ListPage {
        order: InstanceListOrder::Created,
        descending: false,
        limit,
        offset: 0,
        after,
    };
    let rows = parameters.run(pools, Wanted::Page, Some(&page), limit).await?;
    let at = InstanceColumns::of(&rows)?;
    Ok(rows.iter().map(|row| instance_row(at, row)).collect())
}

/// The place of a row in the order of creation.
pub(crate) fn place_by_creation(row: &InstanceRow) -> ListCursor {
    ListCursor {
        key: InstanceListOrder::Created.key(row),
        id: row.id.as_str().to_owned(),
    }
}

/// Lists a page.
pub(crate) async fn list(
    pools: ListPools<'_>,
    tenant: &TenantId,
    filter: &InstanceListFilter,
    page: &ListPage,
) -> Result<ListedRows> {
    let nothing = ListedRows {
        rows: Vec::new(),
        total: 0,
        is_estimate: false,
        next: None,
    };
    let Some(parameters) = parameters(pools, tenant, filter).await? else {
        return Ok(nothing);
    };
    let rows = parameters.run(pools, Wanted::Page, Some(page), page.limit).await?;
    let at = InstanceColumns::of(&rows)?;
    let rows: Vec<InstanceRow> = rows.iter().map(|row| instance_row(at, row)).collect();
    let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= page.limit);
    let next = rows.last().filter(|_| is_full).map(|last| ListCursor {
        key: page.order.key(last),
        id: last.id.as_str().to_owned(),
    });
    let (total, is_estimate) = match (&page.after, rows.is_empty()) {
        // The end was read.
        (None, false) if !is_full => (page.offset + i64::try_from(rows.len()).unwrap_or(0), false),
        (None, true) if page.offset == 0 => (0, false),
        _ => parameters.total(pools).await?,
    };
    Ok(ListedRows {
        rows,
        total: u64::try_from(total).unwrap_or(0),
        is_estimate,
        next,
    })
}

/// Resolves what the statements need; `None` if no instance can match.
async fn parameters<'a>(
    pools: ListPools<'_>,
    tenant: &'a TenantId,
    filter: &'a InstanceListFilter,
) -> Result<Option<Parameters<'a>>> {
    let versions = version_ids(pools, tenant, filter).await?;
    if versions.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    let is_running = !filter.statuses.is_empty()
        && filter.statuses.iter().all(|code| *code == StatusCode::Running.number())
        || !filter.sub_statuses.is_empty()
            && filter
                .sub_statuses
                .iter()
                .all(|code| *code < SubStatusCode::Finished.number());
    let by_text = filter.search.is_some() || filter.name.is_some() || !filter.correlation_ids.is_empty();
    let (mut source, mut has_trigrams) = (Source::AtOnce, false);
    if is_running || by_text {
        let (few_running, trigrams) = pools.waiting().await?;
        has_trigrams = trigrams;
        if is_running && few_running {
            source = Source::FewRunning;
        }
    }
    let few_versions = versions.as_ref().is_some_and(|ids| ids.len() <= MAX_SINGLE_VERSIONS);
    if source == Source::AtOnce && few_versions && !by_text && filter.ids.is_empty() && filter.parents.is_empty() {
        source = Source::EachVersion;
    }
    let mut found_versions = Vec::new();
    if let Some(text) = &filter.search {
        let rows = pools
            .lists
            .query(SEARCH_VERSIONS, &[&tenant.as_str(), text, &MAX_FOUND_VERSIONS])
            .await?;
        let at = columns!(rows; version_id)?;
        found_versions = rows.iter().map(|row| row.get(at.version_id)).collect();
    }
    Ok(Some(Parameters {
        tenant: tenant.as_str(),
        versions,
        pattern: filter.search.as_deref().map(|text| pattern(text, has_trigrams)),
        behind_prefix: filter.search.as_deref().map(behind_prefix).unwrap_or_default(),
        filter,
        found_versions,
        has_trigrams,
        source,
    }))
}

/// The versions that a filter means; `None` means any.
pub(crate) async fn version_ids(
    pools: ListPools<'_>,
    tenant: &TenantId,
    filter: &InstanceListFilter,
) -> Result<Option<Vec<String>>> {
    if filter.definition_ids.is_empty() && filter.version.is_none() && !filter.is_system {
        return Ok((!filter.version_ids.is_empty()).then(|| filter.version_ids.clone()));
    }
    let params: [&(dyn ToSql + Sync); 5] = [
        &tenant.as_str(),
        &given(&filter.definition_ids),
        &given(&filter.version_ids),
        &filter.version,
        &filter.is_system,
    ];
    let rows = pools.lists.query(SELECT_VERSIONS, &params).await?;
    let at = columns!(rows; version_id)?;
    Ok(Some(rows.iter().map(|row| row.get(at.version_id)).collect()))
}

/// Null for any.
fn given<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// The pattern of LIKE for a text anywhere in what an index of trigrams has, or at the beginning of what one without has.
fn pattern(text: &str, anywhere: bool) -> String {
    let indexed = if anywhere { INDEXED_ANYWHERE } else { INDEXED };
    let shortened = text
        .char_indices()
        .nth(indexed)
        .and_then(|(end, _)| text.get(..end))
        .unwrap_or(text);
    let mut pattern = String::with_capacity(shortened.len() + 2);
    if anywhere {
        pattern.push('%');
    }
    for character in shortened.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

/// A text behind all ids that begin with `text`: they are ordered by their bytes. Empty: there is none.
fn behind_prefix(text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    while let Some(last) = characters.pop() {
        if let Some(next) = char::from_u32(u32::from(last) + 1) {
            characters.push(next);
            break;
        }
    }
    characters.into_iter().collect()
}

impl Parameters<'_> {
    /// How many there are, and whether that is an estimate.
    async fn total(&self, pools: ListPools<'_>) -> Result<(i64, bool)> {
        let estimate = if self.source == Source::FewRunning {
            0.0
        } else {
            self.estimate(pools).await?
        };
        if estimate < SURELY_MORE {
            let rows = match self.run(pools, Wanted::Count, None, EXACT + 1).await {
                // The page was read; its count is worth half a second.
                Err(error) if error.code() == "read-timeout" => return Ok((estimate as i64, true)),
                rows => rows?,
            };
            let at = columns!(rows; total)?;
            let total = rows.first().map_or(0, |row| row.get::<_, i64>(at.total));
            if total <= EXACT {
                return Ok((total, false));
            }
        }
        Ok(((estimate as i64).max(EXACT + 1), true))
    }

    /// How many rows the planner expects.
    async fn estimate(&self, pools: ListPools<'_>) -> Result<f64> {
        let rows = self.run(pools, Wanted::Estimate, None, 0).await?;
        let plan: Option<serde_json::Value> = match rows.first() {
            Some(row) => Some(row.try_get("QUERY PLAN").map_err(Error::from)?),
            None => None,
        };
        let expected = plan
            .as_ref()
            .and_then(|plan| plan.pointer("/0/Plan/Plan Rows")?.as_f64());
        Ok(expected.unwrap_or_default())
    }

    /// How rows are found for pages of a thousand.
    fn for_large_pages(mut self) -> Self {
        let has_many = |versions: &Vec<String>| versions.len() > MAX_PAGED_VERSIONS;
        if self.source == Source::EachVersion && self.versions.as_ref().is_some_and(has_many) {
            self.source = Source::AtOnce;
        }
        self
    }

    async fn run(
        &self,
        pools: ListPools<'_>,
        wanted: Wanted,
        page: Option<&ListPage>,
        limit: i64,
    ) -> Result<Vec<tokio_postgres::Row>> {
        // One by one, versions have no common plan for a count.
        let source = match (wanted, self.source) {
            (Wanted::Count | Wanted::Estimate, Source::EachVersion) => Source::AtOnce,
            (_, source) => source,
        };
        let text = self.text(wanted, source, page);
        self.send(pools, &text, wanted == Wanted::Count, page, limit).await
    }

    /// Runs a text of the statement. A count has half a second.
    async fn send(
        &self,
        pools: ListPools<'_>,
        text: &str,
        is_count: bool,
        page: Option<&ListPage>,
        limit: i64,
    ) -> Result<Vec<tokio_postgres::Row>> {
        let filter = self.filter;
        let (has_search, after) = (filter.search.is_some(), page.and_then(|page| page.after.as_ref()));
        let bitmaps = has_search || !filter.correlation_ids.is_empty() || filter.name.is_some();
        let offset = page.map_or(0, |page| page.offset);
        let (key, id) = (after.map(|after| &after.key), after.map(|after| &after.id));
        let times = |list| given::<DateTime<Utc>>(list);
        let params: [(&(dyn ToSql + Sync), Type); 26] = [
            (&self.tenant, Type::TEXT),
            (&self.versions, Type::TEXT_ARRAY),
            (&given(&filter.ids), Type::TEXT_ARRAY),
            (&given(&filter.correlation_ids), Type::TEXT_ARRAY),
            (&filter.name, Type::TEXT),
            (&filter.has_incidents, Type::BOOL),
            (&given(&filter.statuses), Type::INT2_ARRAY),
            (&given(&filter.sub_statuses), Type::INT2_ARRAY),
            (&filter.created.from, Type::TIMESTAMPTZ),
            (&filter.created.to, Type::TIMESTAMPTZ),
            (&times(&filter.created.not), Type::TIMESTAMPTZ_ARRAY),
            (&filter.updated.from, Type::TIMESTAMPTZ),
            (&filter.updated.to, Type::TIMESTAMPTZ),
            (&times(&filter.updated.not), Type::TIMESTAMPTZ_ARRAY),
            (&filter.finished.from, Type::TIMESTAMPTZ),
            (&filter.finished.to, Type::TIMESTAMPTZ),
            (&times(&filter.finished.not), Type::TIMESTAMPTZ_ARRAY),
            (&filter.search, Type::TEXT),
            (&self.pattern, Type::TEXT),
            (&self.behind_prefix, Type::TEXT),
            (&self.found_versions, Type::TEXT_ARRAY),
            (&limit, Type::INT8),
            (&offset, Type::INT8),
            (&key, Type::TEXT),
            (&id, Type::TEXT),
            (&given(&filter.parents), Type::TEXT_ARRAY),
        ];
        let settings = match (bitmaps, is_count) {
            (false, false) => "",
            (true, false) => "BEGIN; SET LOCAL enable_bitmapscan = on",
            (false, true) => "BEGIN; SET LOCAL statement_timeout = 500",
            (true, true) => "BEGIN; SET LOCAL enable_bitmapscan = on; SET LOCAL statement_timeout = 500",
        };
        pools.lists.query_planned(text, &params, settings).await
    }

    fn text(&self, wanted: Wanted, source: Source, page: Option<&ListPage>) -> String {
        let filter = self.filter;
        let ordered = page.map(|page| {
            let word = page.order.word();
            let (direction, side) = if page.descending {
                ("descending", "before")
            } else {
                ("ascending", "after")
            };
            let behind = page.after.is_some().then(|| format!("{word}_{side}"));
            (format!("{word}_{direction}"), behind)
        });
        with_parts(LIST, |part| match part {
            "page" => wanted == Wanted::Page,
            "count" => wanted == Wanted::Count,
            "estimate" => wanted == Wanted::Estimate,
            "each_version" => source == Source::EachVersion,
            "at_once" => source != Source::EachVersion,
            "few_running" => source == Source::FewRunning,
            "parents" => !filter.parents.is_empty(),
            "search" => filter.search.is_some(),
            "trigrams" => filter.search.is_some() && self.has_trigrams,
            "beginnings" => filter.search.is_some() && !self.has_trigrams,
            "correlations" => !filter.correlation_ids.is_empty(),
            "name" => filter.name.is_some(),
            part => ordered
                .as_ref()
                .is_some_and(|(order, behind)| part == order || behind.as_deref() == Some(part)),
        })
    }
}
