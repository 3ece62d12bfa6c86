//! Definitions that use others as activities: what their references mean, and the publishes that write several definitions.
//!
//! A row of `definition_reference` is one reference in one version. In a draft it means nothing yet; a publish of the
//! version, or its start as a draft, binds it to one version permanently.
//!
//! # Locks
//!
//! A transaction that decides a reference, or deletes a version that one may mean, first takes the lock of all compositions,
//! then the locks of all definitions that it writes, in the order of their ids, so no two wait for each other. Everything is
//! read and computed beforehand, from rows whose versions the transaction compares.

use deadpool_postgres::Object;
use serde_json::Value;
use tokio_postgres::Row;

use super::reference::write_references;
pub(crate) use super::reference::{ReferenceKey, ReferenceRow};
use super::save::{finish_publish, save_in};
use super::{
    DefinitionRow, JsonText, LOCK as LOCK_DEFINITION, NewDefinition, Saved, StartSources, end_refused, refuse_readonly,
};
use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::failpoint;
use crate::id::{DefinitionId, TenantId, VersionId};
use crate::store::{schedule, stimulus_key};
use crate::{Error, Result, compute};

const HEAD: &str = include_str!("../../../sql/queries/composition/head.sql");
const LOCK: &str = include_str!("../../../sql/queries/composition/lock.sql");
const RESOLVE: &str = include_str!("../../../sql/queries/composition/resolve.sql");
const USED_VERSIONS: &str = include_str!("../../../sql/queries/composition/used_versions.sql");
const CONSUMERS: &str = include_str!("../../../sql/queries/composition/consumers.sql");
const USERS: &str = include_str!("../../../sql/queries/composition/users.sql");
const FREEZE: &str = include_str!("../../../sql/queries/composition/freeze.sql");
const TYPES: &str = include_str!("../../../sql/queries/composition/types.sql");
const LISTED_TYPES: &str = include_str!("../../../sql/queries/composition/listed_types.sql");

/// The most versions in one composition.
const MOST_USED: usize = 1_000;

/// The most versions that are shown as activity types.
const MOST_TYPES: i64 = 5_000;

/// The version that a reference means now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedVersion {
    pub(crate) definition_id: DefinitionId,
    pub(crate) version_id: VersionId,
    pub(crate) version: i32,
    /// It was published or started, and never changes.
    pub(crate) is_final: bool,
    /// Changes with each change of the row.
    pub(crate) row_version: String,
}

/// A version with its references.
#[derive(Debug)]
pub(crate) struct UsedVersionRow {
    pub(crate) version_id: VersionId,
    pub(crate) definition_id: DefinitionId,
    pub(crate) version: i32,
    pub(crate) body: Value,
    pub(crate) is_final: bool,
    pub(crate) row_version: String,
    /// Those whose meaning is decided.
    pub(crate) references: Vec<(ReferenceKey, VersionId)>,
}

/// The newest version of a definition that uses another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerRow {
    pub(crate) definition_id: DefinitionId,
    pub(crate) version_id: VersionId,
    pub(crate) version: i32,
    pub(crate) name: Option<String>,
    pub(crate) is_published: bool,
    pub(crate) is_readonly: bool,
    pub(crate) is_system: bool,
    pub(crate) was_started: bool,
    pub(crate) max_version: i32,
    row_version: String,
}

/// A draft that a version uses: it never changes from now on.
#[derive(Clone, Debug)]
pub(crate) struct FrozenDraft {
    pub(crate) definition_id: DefinitionId,
    pub(crate) version_id: VersionId,
    pub(crate) row_version: String,
    pub(crate) references: Vec<ReferenceRow>,
}

/// One definition that a publish writes.
pub(crate) struct PlannedWrite<'a> {
    pub(crate) new: &'a NewDefinition,
    /// The version that is written, where other definitions of the plan name it.
    pub(crate) becomes: Option<(VersionId, i32)>,
    /// `None` if it stays a draft.
    pub(crate) starts: Option<StartSources<'a>>,
}

/// What a publish of definitions that belong together was planned from, and what it writes. The first one is the one that is
/// published; the others follow it.
pub(crate) struct Plan<'a> {
    pub(crate) tenant: &'a TenantId,
    /// The newest version of a definition.
    pub(crate) head: Option<(&'a DefinitionId, Option<&'a RowVersion>)>,
    pub(crate) resolved: &'a [(ReferenceKey, Option<ResolvedVersion>)],
    pub(crate) drafts: &'a [FrozenDraft],
    /// The definition whose consumers the plan has, and these.
    pub(crate) consumers: Option<(&'a DefinitionId, &'a [ConsumerRow])>,
    pub(crate) writes: Vec<PlannedWrite<'a>>,
}

/// Writes what was planned in one transaction; `None` if something that it was planned from has changed, and nothing is
/// written.
pub(crate) async fn write(pool: &Pool, lock_class: i32, plan: &Plan<'_>) -> Result<Option<Vec<Saved>>> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let saved = within(ANSWER_TIMEOUT * 2, async {
        let saved = match end_refused(client, write_within(client, lock_class, plan).await).await? {
            Ok(saved) => saved,
            refused => return Ok(refused),
        };
        let is_unchanged = saved
            .as_ref()
            .and_then(|saved| saved.first())
            .is_some_and(|first| first.is_unchanged);
        if saved.is_none() || is_unchanged {
            client.batch_execute("ROLLBACK").await?;
        } else {
            connection.commit().await?;
            failpoint::hit("publish.committed").await?;
        }
        Ok::<_, Error>(Ok(saved))
    })
    .await?;
    connection.give_back();
    let saved = saved?;
    for saved in saved
        .iter()
        .flatten()
        .filter(|saved| saved.row.is_published && !saved.is_unchanged)
    {
        finish_publish(pool, lock_class, plan.tenant, &saved.row.definition_id).await;
    }
    Ok(saved)
}

async fn write_within(client: &Object, lock_class: i32, plan: &Plan<'_>) -> Result<Option<Vec<Saved>>> {
    let tenant = plan.tenant.as_str();
    client.batch_execute("BEGIN").await?;
    lock(client, lock_class, plan.tenant).await?;
    let written = plan.writes.iter().map(|write| write.new.definition_id.as_str());
    let mut ids: Vec<&str> = written
        .chain(plan.drafts.iter().map(|draft| draft.definition_id.as_str()))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        client.execute(LOCK_DEFINITION, &[&lock_class, &tenant, &id]).await?;
    }
    if let Some((id, known)) = plan.head {
        let row = client.query_opt(HEAD, &[&tenant, &id.as_str()]).await?;
        if row.as_ref().map(row_version).as_ref() != known {
            return Ok(None);
        }
    }
    let keys: Vec<ReferenceKey> = plan.resolved.iter().map(|(key, _)| key.clone()).collect();
    let is_resolved_alike = resolve_with(client, plan.tenant, &keys)
        .await?
        .iter()
        .eq(plan.resolved.iter().map(|(_, found)| found));
    if !is_resolved_alike {
        return Ok(None);
    }
    if let Some((definition, known)) = plan.consumers {
        let limit = i64::try_from(known.len() + 1).unwrap_or(i64::MAX);
        let rows = client
            .query(CONSUMERS, &[&tenant, &definition.as_str(), &limit])
            .await?;
        if consumer_rows(&rows)? != known {
            return Ok(None);
        }
    }
    for draft in plan.drafts {
        let params: [&(dyn postgres_types::ToSql + Sync); 3] =
            [&tenant, &draft.version_id.as_str(), &draft.row_version];
        if client.execute(FREEZE, &params).await? == 0 {
            return Ok(None);
        }
        write_references(client, plan.tenant, &draft.version_id, &draft.references).await?;
    }
    lock_all_start_sources(client, lock_class, plan).await?;
    let mut all = Vec::with_capacity(plan.writes.len());
    for write in &plan.writes {
        let saved = save_in(client, lock_class, write.new, write.starts).await?;
        let is_first = all.is_empty();
        if is_first && saved.is_unchanged {
            return Ok(Some(vec![saved]));
        }
        let expected = write.becomes.as_ref();
        if expected.is_some_and(|(id, number)| *id != saved.row.version_id || *number != saved.row.version) {
            return Ok(None);
        }
        all.push(saved);
    }
    Ok(Some(all))
}

/// Takes the locks of all start sources: first the schedules, definition by definition, then the keys of all stimuli in one
/// sorted pass, as another publish does.
async fn lock_all_start_sources(client: &Object, lock_class: i32, plan: &Plan<'_>) -> Result<()> {
    let published = || {
        plan.writes
            .iter()
            .filter_map(|write| Some((&write.new.definition_id, write.starts?)))
    };
    if published().count() < 2 {
        return Ok(());
    }
    let mut hashes = Vec::new();
    for (id, starts) in published() {
        schedule::publish(client, plan.tenant, id, starts.schedules).await?;
        hashes.extend(super::stored_triggers(client, plan.tenant, id).await?);
        hashes.extend(starts.triggers.iter().map(|trigger| trigger.hash));
    }
    let keys = stimulus_key::KeySet::of_triggers(hashes.iter());
    if !keys.is_empty() {
        let (keys, modes) = keys.columns();
        client
            .execute(stimulus_key::LOCK, &[&lock_class, &keys, &modes])
            .await?;
    }
    Ok(())
}

/// A version, and a text that changes with each change of its row.
pub(crate) type RowVersion = (VersionId, String);

fn row_version(row: &Row) -> RowVersion {
    (
        VersionId::new(row.get::<_, String>("version_id")),
        row.get("row_version"),
    )
}

/// The newest version of a definition, without its body.
pub(crate) struct HeadRow {
    pub(crate) version: RowVersion,
    pub(crate) is_readonly: bool,
    pub(crate) is_system: bool,
    /// A version that exists is published, or was.
    pub(crate) was_published: bool,
}

impl HeadRow {
    /// Refuses a client's publish of what belongs to the system, and of what is read-only. Only the first version of a
    /// read-only definition is published: an import makes drafts, and nothing else could publish them.
    pub(crate) fn refuse_publish(&self, id: &DefinitionId) -> Result<()> {
        refuse_readonly(id, self.is_readonly && self.was_published, self.is_system)
    }
}

/// The newest version of a definition.
pub(crate) async fn head(pool: &Pool, tenant: &TenantId, id: &DefinitionId) -> Result<Option<HeadRow>> {
    let row = pool.query_opt(HEAD, &[&tenant.as_str(), &id.as_str()]).await?;
    Ok(row.map(|row| HeadRow {
        version: row_version(&row),
        is_readonly: row.get("is_readonly"),
        is_system: row.get("is_system"),
        was_published: row.get("was_published"),
    }))
}

/// The version that a save of this definition makes, without saving it: the id and the number. `None`: the newest version is
/// published and equal.
pub(crate) async fn probe(pool: &Pool, lock_class: i32, new: &NewDefinition) -> Result<Option<(VersionId, i32)>> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let saved = within(ANSWER_TIMEOUT * 2, async {
        super::begin(client, lock_class, &new.tenant, &new.definition_id).await?;
        let saved = end_refused(client, save_in(client, lock_class, new, None).await).await?;
        if saved.is_ok() {
            client.batch_execute("ROLLBACK").await?;
        }
        Ok::<_, Error>(saved)
    })
    .await?;
    connection.give_back();
    let saved = saved?;
    Ok((!saved.is_unchanged).then_some((saved.row.version_id, saved.row.version)))
}

/// Serializes with every other transaction that decides what references mean.
pub(super) async fn lock(client: &Object, lock_class: i32, tenant: &TenantId) -> Result<()> {
    client.execute(LOCK, &[&lock_class, &tenant.as_str()]).await?;
    Ok(())
}

/// Refuses the delete of versions that other definitions use.
pub(super) async fn refuse_used(
    client: &Object,
    tenant: &TenantId,
    definition: &DefinitionId,
    versions: &[String],
) -> Result<()> {
    let rows = client
        .query(USERS, &[&tenant.as_str(), &versions, &definition.as_str()])
        .await?;
    if rows.is_empty() {
        return Ok(());
    }
    let at = columns!(rows; definition_id, version)?;
    let shown = rows.iter().take(10).map(|row| {
        format!(
            "{} (version {})",
            row.get::<_, String>(at.definition_id),
            row.get::<_, i32>(at.version)
        )
    });
    let mut shown = shown.collect::<Vec<_>>().join(", ");
    if rows.len() > 10 {
        shown.push_str(" and others");
    }
    Err(Error::conflict(
        "definition-used",
        format!(
            "{definition} is used as an activity by {shown}; delete these versions first, or keep this one and retract it"
        ),
    ))
}

/// What references mean now, in their order; `None` if there is no version that can be used.
pub(crate) async fn resolve(
    pool: &Pool,
    tenant: &TenantId,
    keys: &[ReferenceKey],
) -> Result<Vec<Option<ResolvedVersion>>> {
    let columns = KeyColumns::of(keys);
    let rows = pool.query(RESOLVE, &columns.params(&tenant.as_str())).await?;
    resolved_rows(&rows, keys.len())
}

async fn resolve_with(
    client: &Object,
    tenant: &TenantId,
    keys: &[ReferenceKey],
) -> Result<Vec<Option<ResolvedVersion>>> {
    let columns = KeyColumns::of(keys);
    let rows = client.query(RESOLVE, &columns.params(&tenant.as_str())).await?;
    resolved_rows(&rows, keys.len())
}

/// References as parameters.
struct KeyColumns<'a>(Vec<&'a str>, Vec<&'a str>, Vec<&'a str>, Vec<i32>);

impl<'a> KeyColumns<'a> {
    fn of(keys: &'a [ReferenceKey]) -> Self {
        Self(
            keys.iter().map(|key| key.definition_id.as_str()).collect(),
            keys.iter().map(|key| key.type_name.as_str()).collect(),
            keys.iter().map(|key| key.version_id.as_str()).collect(),
            keys.iter().map(|key| key.version).collect(),
        )
    }

    fn params<'p>(&'p self, tenant: &'p &'p str) -> [&'p (dyn postgres_types::ToSql + Sync); 5] {
        [tenant, &self.0, &self.1, &self.2, &self.3]
    }
}

fn resolved_rows(rows: &[Row], count: usize) -> Result<Vec<Option<ResolvedVersion>>> {
    let mut found = vec![None; count];
    let at = columns!(*rows; no, definition_id, version_id, version, is_final, row_version)?;
    for row in rows {
        let place = usize::try_from(row.get::<_, i64>(at.no)).unwrap_or_default();
        if let Some(found) = place.checked_sub(1).and_then(|place| found.get_mut(place)) {
            *found = Some(ResolvedVersion {
                definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
                version_id: VersionId::new(row.get::<_, String>(at.version_id)),
                version: row.get(at.version),
                is_final: row.get(at.is_final),
                row_version: row.get(at.row_version),
            });
        }
    }
    Ok(found)
}

/// Versions, and all that they use.
pub(crate) async fn used_versions(pool: &Pool, tenant: &TenantId, versions: &[&str]) -> Result<Vec<UsedVersionRow>> {
    let rows = pool.query(USED_VERSIONS, &[&tenant.as_str(), &versions]).await?;
    if rows.len() > MOST_USED {
        let message = format!("a workflow uses more than {MOST_USED} versions of others as activities");
        return Err(Error::invalid("composition-too-large", message));
    }
    let at = columns!(rows; version_id, definition_id, version, body, is_final, row_version, refs)?;
    let mut used = Vec::with_capacity(rows.len());
    for row in &rows {
        let (JsonText(body), JsonText(references)) = (row.get(at.body), row.get(at.refs));
        let references: Vec<(String, String, String, i32, String)> = serde_json::from_slice(&references)
            .map_err(|error| Error::internal("the references of a version cannot be read").caused_by(error))?;
        let references = references
            .into_iter()
            .map(|(definition_id, type_name, version_id, version, used)| {
                let key = ReferenceKey {
                    definition_id,
                    type_name,
                    version_id,
                    version,
                };
                (key, VersionId::new(used))
            });
        used.push(UsedVersionRow {
            version_id: VersionId::new(row.get::<_, String>(at.version_id)),
            definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
            version: row.get(at.version),
            body: compute::parse(body).await?,
            is_final: row.get(at.is_final),
            row_version: row.get(at.row_version),
            references: references.collect(),
        });
    }
    Ok(used)
}

/// The newest versions that use a definition, through all levels, by the ids of their definitions; at most `limit`.
pub(crate) async fn consumers(
    pool: &Pool,
    tenant: &TenantId,
    definition: &DefinitionId,
    limit: usize,
) -> Result<Vec<ConsumerRow>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = pool
        .query(CONSUMERS, &[&tenant.as_str(), &definition.as_str(), &limit])
        .await?;
    consumer_rows(&rows)
}

fn consumer_rows(rows: &[Row]) -> Result<Vec<ConsumerRow>> {
    let at = columns!(*rows; definition_id, version_id, version, name, is_published, is_readonly, is_system, was_started, row_version, max_version)?;
    let consumer = |row: &Row| ConsumerRow {
        definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
        version_id: VersionId::new(row.get::<_, String>(at.version_id)),
        version: row.get(at.version),
        name: row.get(at.name),
        is_published: row.get(at.is_published),
        is_readonly: row.get(at.is_readonly),
        is_system: row.get(at.is_system),
        was_started: row.get(at.was_started),
        max_version: row.get(at.max_version),
        row_version: row.get(at.row_version),
    };
    Ok(rows.iter().map(consumer).collect())
}

/// The versions that can be used as activities; of the body only what describes them.
pub(crate) async fn types(pool: &Pool, tenant: &TenantId) -> Result<Vec<DefinitionRow>> {
    let rows = pool.query(TYPES, &[&tenant.as_str(), &MOST_TYPES]).await?;
    let at = columns!(rows; version_id, definition_id, version, name, description, is_published, body)?;
    let mut types = Vec::with_capacity(rows.len());
    for row in &rows {
        let JsonText(body) = row.get(at.body);
        let is_published: bool = row.get(at.is_published);
        let row = DefinitionRow {
            version_id: VersionId::new(row.get::<_, String>(at.version_id)),
            definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
            version: row.get(at.version),
            name: row.get(at.name),
            description: row.get(at.description),
            is_latest: false,
            is_published,
            is_readonly: false,
            is_system: false,
            created_at: chrono::DateTime::UNIX_EPOCH,
            body: std::sync::Arc::new(compute::parse(body).await?),
        };
        types.push(row);
    }
    Ok(types)
}

/// A version that is shown as an activity type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedType {
    pub(crate) type_name: String,
    pub(crate) version: i32,
    pub(crate) definition_id: DefinitionId,
    pub(crate) version_id: VersionId,
    pub(crate) is_published: bool,
    pub(crate) outcomes: Vec<String>,
}

/// Of the versions that [`types`] shows, those of these definitions, with these ids, or of these types.
pub(crate) async fn listed_types(
    pool: &Pool,
    tenant: &TenantId,
    definitions: &[&str],
    versions: &[&str],
    of_types: &[&str],
) -> Result<Vec<ListedType>> {
    let rows = pool
        .query(
            LISTED_TYPES,
            &[&tenant.as_str(), &MOST_TYPES, &definitions, &versions, &of_types],
        )
        .await?;
    let at = columns!(rows; activity_type, version, definition_id, version_id, is_published, outcomes)?;
    let texts = |outcomes: Option<Value>| serde_json::from_value(outcomes.unwrap_or_default()).unwrap_or_default();
    let listed = rows.iter().map(|row| ListedType {
        type_name: row.get(at.activity_type),
        version: row.get(at.version),
        definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
        version_id: VersionId::new(row.get::<_, String>(at.version_id)),
        is_published: row.get(at.is_published),
        outcomes: texts(row.get(at.outcomes)),
    });
    Ok(listed.collect())
}
