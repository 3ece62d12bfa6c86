//! Workflow definitions: immutable versions once published, drafts until then.
//!
//! A save or a publish holds the lock of its definition id, so that versions count without gaps and one draft is the newest.
//! Every change of a published version increments the revision in its own transaction (a sequence would show 2 before 1 is
//! committed) and notifies all nodes; NOTIFY is part of the transaction, as publishes are rare.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use deadpool_postgres::Object;
use postgres_types::{FromSql, ToSql, Type};
use serde_json::Value;

use super::activation;
use super::inbox_match;
use super::schedule::Planner;
use super::stimulus_key::{self, KeySet};
use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::failpoint;
use crate::id::{DefinitionId, StimulusHash, TenantId, VersionId};
use crate::{Error, Result, compute};

const LOCK: &str = include_str!("../../sql/queries/definition/lock.sql");
const HEAD: &str = include_str!("../../sql/queries/definition/head.sql");
const UPDATE_DRAFT: &str = include_str!("../../sql/queries/definition/update_draft.sql");
const UNLATEST: &str = include_str!("../../sql/queries/definition/unset_latest.sql");
const INSERT_DRAFT: &str = include_str!("../../sql/queries/definition/insert_draft.sql");
const PUBLISH: &str = include_str!("../../sql/queries/definition/publish.sql");
const PUBLISH_MARK: &str = include_str!("../../sql/queries/definition/publish_mark.sql");
const TRIGGER_CLEAR: &str = include_str!("../../sql/queries/trigger/clear.sql");
const TRIGGER_LIST: &str = include_str!("../../sql/queries/trigger/list.sql");
const TRIGGER_WRITE: &str = include_str!("../../sql/queries/trigger/write.sql");
const FIND: &str = include_str!("../../sql/queries/definition/find.sql");
const BODY: &str = include_str!("../../sql/queries/definition/body.sql");
const LIST: &str = include_str!("../../sql/queries/definition/list.sql");

/// A stored version. Whether it is the newest or the published one is not part of the body.
#[derive(Clone, Debug)]
pub(crate) struct DefinitionRow {
    pub(crate) version_id: VersionId,
    pub(crate) definition_id: DefinitionId,
    pub(crate) version: i32,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) is_latest: bool,
    pub(crate) is_published: bool,
    pub(crate) is_readonly: bool,
    pub(crate) created_at: DateTime<Utc>,
    /// The definition's JSON; null in a list.
    pub(crate) body: Arc<Value>,
}

/// JSON as the server sent it, not parsed yet.
struct JsonText(Vec<u8>);

impl<'a> FromSql<'a> for JsonText {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::JSON
    }
}

/// A definition to save.
#[derive(Clone, Debug)]
pub(crate) struct NewDefinition {
    pub(crate) tenant: TenantId,
    /// The version id of the request, used if it is free.
    pub(crate) version_id: Option<VersionId>,
    pub(crate) definition_id: DefinitionId,
    /// The version of the request; a first draft keeps it.
    pub(crate) version: i32,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) is_readonly: bool,
    pub(crate) is_system: bool,
    pub(crate) body: Arc<Value>,
}

/// A trigger of a published version.
#[derive(Clone, Debug)]
pub(crate) struct TriggerRow {
    pub(crate) activity_id: String,
    pub(crate) hash: StimulusHash,
    pub(crate) name: String,
    pub(crate) payload: Value,
}

/// What starts instances of a published version.
#[derive(Clone, Copy)]
pub(crate) struct StartSources<'a> {
    pub(crate) triggers: &'a [TriggerRow],
    pub(crate) schedules: &'a dyn Planner,
}

impl<'a> StartSources<'a> {
    /// Triggers only.
    #[cfg(test)]
    pub(crate) fn by(triggers: &'a [TriggerRow]) -> Self {
        Self {
            triggers,
            schedules: &super::schedule::NoSchedules,
        }
    }
}

/// The result of a save.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    /// The newest version after the save.
    pub(crate) row: DefinitionRow,
    /// Nothing was written: the newest version is published and equal.
    pub(crate) is_unchanged: bool,
}

/// The result of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublishOutcome {
    /// It is published now.
    Published,
    /// The draft changed since it was validated: nothing was written.
    Changed,
}

/// Saves a draft: changes the newest version if that was never published, else adds one. With `publish`, publishes it in the
/// same transaction with its start sources. If the newest version is published and equal, nothing is written.
pub(crate) async fn save(
    pool: &Pool,
    lock_class: i32,
    new: &NewDefinition,
    publish: Option<StartSources<'_>>,
) -> Result<Saved> {
    let connection = pool.exclusive().await?;
    let saved = within(
        ANSWER_TIMEOUT * 2,
        save_within(connection.client()?, lock_class, new, publish),
    )
    .await?;
    connection.give_back();
    if publish.is_some() && !saved.is_unchanged {
        finish_publish(pool, lock_class, &new.tenant, &new.definition_id).await;
    }
    Ok(saved)
}

/// Fields of a body that the engine sets and a client sends back.
const ENGINE_FIELDS: [&str; 5] = ["id", "version", "createdAt", "isLatest", "isPublished"];

/// Whether two bodies of one definition are equal but for [`ENGINE_FIELDS`].
fn is_equivalent(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    let covers = |a: &serde_json::Map<String, Value>, b: &serde_json::Map<String, Value>| {
        let mut fields = a.iter().filter(|(name, _)| !ENGINE_FIELDS.contains(&name.as_str()));
        fields.all(|(name, value)| b.get(name) == Some(value))
    };
    covers(a, b) && covers(b, a)
}

/// Compares a stored body with another one; a large one on a compute thread.
async fn is_same(text: Vec<u8>, with: Arc<Value>, same: fn(&Value, &Value) -> bool) -> Result<bool> {
    let stored = compute::parse(text).await?;
    compute::run(compute::is_large(&stored), move || same(&stored, &with)).await
}

/// Counts earlier instances if the activation strategy changed. If that fails, the publish stays valid: a job of the cluster
/// does it later, and starts are refused as busy until then.
async fn finish_publish(pool: &Pool, lock_class: i32, tenant: &TenantId, id: &DefinitionId) {
    if let Err(error) = activation::finish_publish(pool, lock_class, tenant, id).await {
        tracing::warn!(workflow = id.as_str(), %error, "the running instances are not counted for the new activation strategy; a cluster job counts them, and starts are refused as busy until then");
    }
}

/// Publishes the newest version if its body is still the validated one.
pub(crate) async fn publish(
    pool: &Pool,
    lock_class: i32,
    tenant: &TenantId,
    validated: &DefinitionRow,
    starts: StartSources<'_>,
) -> Result<PublishOutcome> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let outcome = within(ANSWER_TIMEOUT * 2, async {
        let id = &validated.definition_id;
        begin(client, lock_class, tenant, id).await?;
        let head = head(client, tenant, id).await?;
        let same = head.filter(|head| head.version_id == validated.version_id);
        let is_unchanged = match same {
            Some(head) => is_same(head.body.0, Arc::clone(&validated.body), Value::eq).await?,
            None => false,
        };
        if !is_unchanged {
            client.batch_execute("ROLLBACK").await?;
            return Ok(PublishOutcome::Changed);
        }
        mark_published(client, lock_class, tenant, id, &validated.version_id, starts).await?;
        client.batch_execute("COMMIT").await?;
        failpoint::hit("publish.committed").await?;
        Ok::<_, Error>(PublishOutcome::Published)
    })
    .await?;
    connection.give_back();
    if outcome == PublishOutcome::Published {
        finish_publish(pool, lock_class, tenant, &validated.definition_id).await;
    }
    Ok(outcome)
}

async fn begin(client: &Object, lock_class: i32, tenant: &TenantId, id: &DefinitionId) -> Result<()> {
    client.batch_execute("BEGIN").await?;
    client
        .execute(LOCK, &[&lock_class, &tenant.as_str(), &id.as_str()])
        .await?;
    Ok(())
}

struct Head {
    version_id: VersionId,
    version: i32,
    is_published: bool,
    was_published: bool,
    is_system: bool,
    created_at: DateTime<Utc>,
    body: JsonText,
    published_version: Option<i32>,
    max_version: i32,
}

async fn head(client: &Object, tenant: &TenantId, id: &DefinitionId) -> Result<Option<Head>> {
    let row = client.query_opt(HEAD, &[&tenant.as_str(), &id.as_str()]).await?;
    Ok(row.map(|row| Head {
        version_id: VersionId::new(row.get::<_, String>("version_id")),
        version: row.get("version"),
        is_published: row.get("is_published"),
        was_published: row.get("was_published"),
        is_system: row.get("is_system"),
        created_at: row.get("created_at"),
        body: row.get("body"),
        published_version: row.get("published_version"),
        max_version: row.get::<_, Option<i32>>("max_version").unwrap_or_default(),
    }))
}

async fn save_within(
    client: &Object,
    lock_class: i32,
    new: &NewDefinition,
    publish: Option<StartSources<'_>>,
) -> Result<Saved> {
    let (tenant, id, body) = (&new.tenant, &new.definition_id, &*new.body);
    begin(client, lock_class, tenant, id).await?;
    let mut head = head(client, tenant, id).await?;
    if let (Some(_), Some(published)) = (publish, head.as_ref().and_then(|head| head.published_version))
        && new.version > 0
        && new.version < published
    {
        return Err(Error::conflict(
            "newer-version-published",
            format!(
                "version {} of {:?} cannot be published: version {published} already is; save without a version, or \
                 with a newer one",
                new.version,
                id.as_str()
            ),
        ));
    }
    let is_equal = match &mut head {
        Some(head) if head.is_published && head.is_system == new.is_system => {
            let text = std::mem::take(&mut head.body.0);
            is_same(text, Arc::clone(&new.body), is_equivalent).await?
        }
        _ => false,
    };
    let row = match head {
        Some(head) if is_equal => {
            let row = saved_row(new, head.version_id, head.version, head.created_at);
            let is_unchanged = match publish {
                Some(starts) => has_start_sources(client, tenant, id, starts).await?,
                None => true,
            };
            if is_unchanged {
                client.batch_execute("ROLLBACK").await?;
                return Ok(Saved {
                    row: DefinitionRow {
                        is_published: true,
                        ..row
                    },
                    is_unchanged,
                });
            }
            // Another build derives other triggers or schedules from the same body: they are written again for this version.
            row
        }
        Some(head) if !head.was_published => {
            let params: [&(dyn ToSql + Sync); 7] = [
                &tenant.as_str(),
                &head.version_id.as_str(),
                &new.name,
                &new.description,
                &body,
                &new.is_readonly,
                &new.is_system,
            ];
            let row = client.query_one(UPDATE_DRAFT, &params).await?;
            saved_row(new, head.version_id, head.version, row.get("created_at"))
        }
        head => {
            let version = head.map_or(new.version.max(1), |head| head.max_version + 1);
            client
                .execute(UNLATEST, &[&tenant.as_str(), &id.as_str(), &publish.is_none()])
                .await?;
            let spare = VersionId::random();
            let wanted = new.version_id.as_ref().unwrap_or(&spare);
            let params: [&(dyn ToSql + Sync); 10] = [
                &tenant.as_str(),
                &wanted.as_str(),
                &spare.as_str(),
                &id.as_str(),
                &version,
                &new.name,
                &new.description,
                &body,
                &new.is_readonly,
                &new.is_system,
            ];
            let row = client.query_one(INSERT_DRAFT, &params).await?;
            saved_row(
                new,
                VersionId::new(row.get::<_, String>("version_id")),
                version,
                row.get("created_at"),
            )
        }
    };
    if let Some(starts) = publish {
        mark_published(client, lock_class, tenant, id, &row.version_id, starts).await?;
    }
    client.batch_execute("COMMIT").await?;
    failpoint::hit("publish.committed").await?;
    Ok(Saved {
        row: DefinitionRow {
            is_published: publish.is_some(),
            ..row
        },
        is_unchanged: false,
    })
}

/// Whether the start sources of a definition are already stored.
async fn has_start_sources(
    client: &Object,
    tenant: &TenantId,
    id: &DefinitionId,
    starts: StartSources<'_>,
) -> Result<bool> {
    let rows = client.query(TRIGGER_LIST, &[&tenant.as_str(), &id.as_str()]).await?;
    let at = columns!(rows; activity_id, hash)?;
    let stored: BTreeSet<(String, Vec<u8>)> = rows
        .iter()
        .map(|row| (row.get(at.activity_id), row.get(at.hash)))
        .collect();
    let wanted = starts.triggers.iter();
    let wanted = wanted.map(|trigger| (trigger.activity_id.clone(), trigger.hash.0.to_vec()));
    Ok(stored == wanted.collect() && super::schedule::are_planned(client, tenant, id, starts.schedules).await?)
}

fn saved_row(new: &NewDefinition, version_id: VersionId, version: i32, created_at: DateTime<Utc>) -> DefinitionRow {
    DefinitionRow {
        version_id,
        definition_id: new.definition_id.clone(),
        version,
        name: new.name.clone(),
        description: new.description.clone(),
        is_latest: true,
        is_published: false,
        is_readonly: new.is_readonly,
        created_at,
        body: new.body.clone(),
    }
}

async fn mark_published(
    client: &Object,
    lock_class: i32,
    tenant: &TenantId,
    id: &DefinitionId,
    version_id: &VersionId,
    starts: StartSources<'_>,
) -> Result<()> {
    let triggers = starts.triggers;
    // Before the activation rows: firing locks them in this order, too.
    super::schedule::publish(client, tenant, id, starts.schedules).await?;
    let (tenant, id, version_id) = (tenant.as_str(), id.as_str(), version_id.as_str());
    let stored = client.query(TRIGGER_LIST, &[&tenant, &id]).await?;
    let at = columns!(stored; hash)?;
    let stored = stored
        .iter()
        .filter_map(|row| <[u8; 32]>::try_from(row.get::<_, &[u8]>(at.hash)).ok());
    let stored: Vec<StimulusHash> = stored.map(StimulusHash).collect();
    let keys = KeySet::of_triggers(triggers.iter().map(|trigger| &trigger.hash).chain(&stored));
    if !keys.is_empty() {
        let (keys, modes) = keys.columns();
        client
            .execute(stimulus_key::LOCK, &[&lock_class, &keys, &modes])
            .await?;
    }
    let before = client.query_one(PUBLISH, &[&tenant, &id, &version_id]).await?;
    let (activation, left): (Option<i16>, Option<i16>) = (before.get("activation_strategy"), before.get("seeding"));
    client
        .execute(PUBLISH_MARK, &[&tenant, &version_id, &activation, &left])
        .await?;
    client.execute(TRIGGER_CLEAR, &[&tenant, &id]).await?;
    if !triggers.is_empty() {
        let activities: Vec<&str> = triggers.iter().map(|trigger| trigger.activity_id.as_str()).collect();
        let hashes: Vec<&[u8]> = triggers.iter().map(|trigger| trigger.hash.0.as_slice()).collect();
        let names: Vec<&str> = triggers.iter().map(|trigger| trigger.name.as_str()).collect();
        let payloads: Vec<&Value> = triggers.iter().map(|trigger| &trigger.payload).collect();
        client
            .execute(TRIGGER_WRITE, &[&tenant, &id, &activities, &hashes, &names, &payloads])
            .await?;
    }
    let hashes: Vec<StimulusHash> = triggers.iter().map(|trigger| trigger.hash).collect();
    inbox_match::begin(client, tenant, id, &hashes).await?;
    failpoint::hit("publish.written").await?;
    Ok(())
}

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

/// Finds one version: the published one first, then the newest.
pub(crate) async fn find(pool: &Pool, tenant: &TenantId, selector: &VersionSelector) -> Result<Option<DefinitionRow>> {
    let params: [&(dyn ToSql + Sync); 7] = [
        &tenant.as_str(),
        &selector.definition_id.as_ref().map(DefinitionId::as_str),
        &selector.version_id.as_ref().map(VersionId::as_str),
        &selector.version,
        &selector.published,
        &selector.latest,
        &selector.draft,
    ];
    let Some(row) = pool.query_opt(FIND, &params).await? else {
        return Ok(None);
    };
    let JsonText(text) = row.get("body");
    let body = compute::parse(text).await?;
    Ok(Some(definition_row(DefinitionColumns::of(&row)?, &row, Arc::new(body))))
}

columns!(struct DefinitionColumns { version_id, definition_id, version, name, description, is_latest, is_published, is_readonly, created_at });

fn definition_row(at: DefinitionColumns, row: &tokio_postgres::Row, body: Arc<Value>) -> DefinitionRow {
    DefinitionRow {
        version_id: VersionId::new(row.get::<_, String>(at.version_id)),
        definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
        version: row.get(at.version),
        name: row.get(at.name),
        description: row.get(at.description),
        is_latest: row.get(at.is_latest),
        is_published: row.get(at.is_published),
        is_readonly: row.get(at.is_readonly),
        created_at: row.get(at.created_at),
        body,
    }
}

/// The body of a version, to compile it.
pub(crate) async fn body(
    pool: &Pool,
    tenant: &TenantId,
    version: &VersionId,
) -> Result<Option<(DefinitionId, i32, Value)>> {
    let row = pool.query_opt(BODY, &[&tenant.as_str(), &version.as_str()]).await?;
    let Some(row) = row else { return Ok(None) };
    let JsonText(text) = row.get("body");
    let body = compute::parse(text).await?;
    Ok(Some((
        DefinitionId::new(row.get::<_, String>("definition_id")),
        row.get("version"),
        body,
    )))
}

/// A filter for versions.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListFilter<'a> {
    pub(crate) selector: VersionSelector,
    /// The newest and the published one.
    pub(crate) latest_and_published: bool,
    pub(crate) definition_ids: Vec<&'a str>,
    pub(crate) search: Option<&'a str>,
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

/// Lists a page, with the total number.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId, filter: &ListFilter<'_>) -> Result<(u64, Vec<DefinitionRow>)> {
    let params: [&(dyn ToSql + Sync); 10] = [
        &tenant.as_str(),
        &filter.selector.published,
        &filter.selector.latest,
        &filter.latest_and_published,
        &filter.selector.draft,
        &filter.selector.version,
        &filter.definition_ids,
        &filter.search,
        &filter.limit,
        &filter.offset,
    ];
    let rows = pool.query(LIST, &params).await?;
    let at = DefinitionColumns::of(&rows)?;
    let items = rows
        .iter()
        .filter(|row| row.get::<_, Option<String>>(at.version_id).is_some());
    Ok((
        super::total(&rows),
        items.map(|row| definition_row(at, row, Arc::default())).collect(),
    ))
}
