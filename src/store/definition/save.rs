//! Saves of drafts, and publishes.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use deadpool_postgres::Object;
use postgres_types::ToSql;
use serde_json::Value;

use super::{
    DefinitionRow, NewDefinition, PublishOutcome, Saved, StartSources, TRIGGER_CLEAR, TRIGGER_LIST, begin, end_refused,
    head, lock_start_sources, reference, refuse_readonly,
};
use crate::db::{ANSWER_TIMEOUT, Exclusive, Pool, columns, within};
use crate::failpoint;
use crate::id::{DefinitionId, StimulusHash, TenantId, VersionId};
use crate::store::{activation, inbox_match, route, schedule};
use crate::{Error, Result, compute};

const UPDATE_DRAFT: &str = include_str!("../../../sql/queries/definition/update_draft.sql");
const REPLACE_DRAFT: &str = include_str!("../../../sql/queries/definition/replace_draft.sql");
const UNLATEST: &str = include_str!("../../../sql/queries/definition/unset_latest.sql");
const INSERT_DRAFT: &str = include_str!("../../../sql/queries/definition/insert_draft.sql");
const PUBLISH: &str = include_str!("../../../sql/queries/definition/publish.sql");
const PUBLISH_MARK: &str = include_str!("../../../sql/queries/definition/publish_mark.sql");
const TRIGGER_WRITE: &str = include_str!("../../../sql/queries/trigger/write.sql");

/// Saves a draft: changes the newest version if that was never published, else adds one. With `publish`, publishes it in the
/// same transaction with its start sources. If the newest version is equal, and published or not to be changed by clients,
/// nothing is written.
pub(crate) async fn save(
    pool: &Pool,
    lock_class: i32,
    new: &NewDefinition,
    publish: Option<StartSources<'_>>,
) -> Result<Saved> {
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    let saved = within(ANSWER_TIMEOUT * 2, async {
        end_refused(client, save_within(&connection, lock_class, new, publish).await).await
    })
    .await?;
    connection.give_back();
    let saved = saved?;
    if publish.is_some() && !saved.is_unchanged {
        finish_publish(pool, lock_class, &new.tenant, &new.definition_id).await;
    }
    Ok(saved)
}

/// Fields of a body that the engine sets and a client sends back.
const ENGINE_FIELDS: [&str; 5] = ["id", "version", "createdAt", "isLatest", "isPublished"];

/// Whether two bodies of one definition are equal but for [`ENGINE_FIELDS`].
pub(crate) fn is_equivalent(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    let covers = |a: &serde_json::Map<String, Value>, b: &serde_json::Map<String, Value>| {
        let mut fields = a.iter().filter(|(name, _)| !ENGINE_FIELDS.contains(&name.as_str()));
        fields.all(|(name, value)| b.get(name).is_some_and(|other| is_equal_part(value, other)))
    };
    covers(a, b) && covers(b, a)
}

/// Whether two parts of a body are equal. An activity that names no version is shown with the one that runs, so a version that
/// only one side names is no difference.
fn is_equal_part(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let is_activity =
                a.get("type").is_some_and(Value::is_string) && b.get("type").is_some_and(Value::is_string);
            let is_shown =
                |name: &str| is_activity && name == "version" && a.contains_key(name) != b.contains_key(name);
            a.iter()
                .all(|(name, value)| is_shown(name) || b.get(name).is_some_and(|other| is_equal_part(value, other)))
                && b.keys().all(|name| is_shown(name) || a.contains_key(name))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal_part(a, b)),
        (a, b) => a == b,
    }
}

/// Compares a stored body with another one; a large one on a compute thread.
async fn is_same(text: Vec<u8>, with: Arc<Value>, same: fn(&Value, &Value) -> bool) -> Result<bool> {
    let stored = compute::parse(text).await?;
    compute::run(compute::is_large(&stored), move || same(&stored, &with)).await
}

/// Counts earlier instances if the activation strategy changed. If that fails, the publish stays valid: a job of the cluster
/// does it later, and starts are refused as busy until then.
pub(super) async fn finish_publish(pool: &Pool, lock_class: i32, tenant: &TenantId, id: &DefinitionId) {
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
            return Ok(Ok(PublishOutcome::Changed));
        }
        let marked = mark_published(client, lock_class, tenant, id, &validated.version_id, starts).await;
        if let Err(refused) = end_refused(client, marked).await? {
            return Ok(Err(refused));
        }
        connection.commit().await?;
        failpoint::hit("publish.committed").await?;
        Ok::<_, Error>(Ok(PublishOutcome::Published))
    })
    .await?;
    connection.give_back();
    let outcome = outcome?;
    if outcome == PublishOutcome::Published {
        finish_publish(pool, lock_class, tenant, &validated.definition_id).await;
    }
    Ok(outcome)
}

async fn save_within(
    connection: &Exclusive,
    lock_class: i32,
    new: &NewDefinition,
    publish: Option<StartSources<'_>>,
) -> Result<Saved> {
    let client = connection.client()?;
    begin(client, lock_class, &new.tenant, &new.definition_id).await?;
    let saved = save_in(client, lock_class, new, publish).await?;
    if saved.is_unchanged {
        client.batch_execute("ROLLBACK").await?;
        return Ok(saved);
    }
    connection.commit().await?;
    failpoint::hit("publish.committed").await?;
    Ok(saved)
}

/// Saves in a transaction that holds the definition's lock, and is to be rolled back where nothing is written.
pub(super) async fn save_in(
    client: &Object,
    lock_class: i32,
    new: &NewDefinition,
    publish: Option<StartSources<'_>>,
) -> Result<Saved> {
    let (tenant, id, body) = (&new.tenant, &new.definition_id, &*new.body);
    let mut head = head(client, tenant, id).await?;
    if let Some(head) = head.as_mut().filter(|_| new.guards_readonly)
        && let Err(refused) = refuse_readonly(id, head.is_readonly, head.is_system)
    {
        // The repeat of an import is answered as the import was.
        let text = std::mem::take(&mut head.body.0);
        if publish.is_some() || head.is_system || !is_same(text, Arc::clone(&new.body), is_equivalent).await? {
            return Err(refused);
        }
        return Ok(Saved {
            row: DefinitionRow {
                is_published: head.is_published,
                ..saved_row(new, head.version_id.clone(), head.version, head.created_at)
            },
            is_unchanged: true,
        });
    }
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
        Some(head) if !head.was_published && !head.was_started && !new.adds_version => {
            let params: [&(dyn ToSql + Sync); 8] = [
                &tenant.as_str(),
                &head.version_id.as_str(),
                &new.name,
                &new.description,
                &body,
                &new.is_readonly,
                &new.is_system,
                &new.activity_type,
            ];
            let row = client.query_one(UPDATE_DRAFT, &params).await?;
            saved_row(new, head.version_id, head.version, row.get("created_at"))
        }
        head => {
            // The versions of a definition show a draft that was started and changed since once.
            let replaced = head
                .as_ref()
                .filter(|head| !head.was_published && head.was_started && !new.adds_version);
            let version = match replaced {
                Some(head) => {
                    client
                        .execute(REPLACE_DRAFT, &[&tenant.as_str(), &head.version_id.as_str()])
                        .await?;
                    head.version
                }
                None => head.as_ref().map_or(new.first_version, |head| head.max_version + 1),
            };
            client
                .execute(UNLATEST, &[&tenant.as_str(), &id.as_str(), &publish.is_none()])
                .await?;
            let spare = VersionId::random();
            let wanted = new.version_id.as_ref().unwrap_or(&spare);
            let (tenant, id, spare) = (tenant.as_str(), id.as_str(), spare.as_str());
            let mut row = None;
            for wanted in [wanted.as_str(), spare] {
                let params: [&(dyn ToSql + Sync); 11] = [
                    &tenant,
                    &wanted,
                    &spare,
                    &id,
                    &version,
                    &new.name,
                    &new.description,
                    &body,
                    &new.is_readonly,
                    &new.is_system,
                    &new.activity_type,
                ];
                row = client.query_opt(INSERT_DRAFT, &params).await?;
                if row.is_some() {
                    break;
                }
            }
            let row = row.ok_or_else(|| Error::internal("a new version has found no id"))?;
            saved_row(
                new,
                VersionId::new(row.get::<_, String>("version_id")),
                version,
                row.get("created_at"),
            )
        }
    };
    if !is_equal {
        reference::write_references(client, tenant, &row.version_id, &new.references).await?;
    }
    if let Some(starts) = publish {
        mark_published(client, lock_class, tenant, id, &row.version_id, starts).await?;
    }
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
    Ok(stored == wanted.collect() && schedule::are_planned(client, tenant, id, starts.schedules).await?)
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
        is_system: new.is_system,
        created_at,
        body: new.body.clone(),
    }
}

/// Marks a version as published, and replaces the start sources of its definition, in a transaction that holds its lock.
pub(super) async fn mark_published(
    client: &Object,
    lock_class: i32,
    tenant: &TenantId,
    id: &DefinitionId,
    version_id: &VersionId,
    starts: StartSources<'_>,
) -> Result<()> {
    let triggers = starts.triggers;
    lock_start_sources(client, lock_class, tenant, id, starts).await?;
    let (tenant, id, version_id) = (tenant.as_str(), id.as_str(), version_id.as_str());
    let before = client.query_one(PUBLISH, &[&tenant, &id, &version_id]).await?;
    let (activation, left): (Option<i16>, Option<i16>) = (before.get("activation_strategy"), before.get("seeding"));
    client
        .execute(PUBLISH_MARK, &[&tenant, &version_id, &activation, &left])
        .await?;
    client.execute(TRIGGER_CLEAR, &[&tenant, &id]).await?;
    let routes = triggers.iter().filter(|trigger| trigger.name == route::STIMULUS_NAME);
    let hashes: Vec<&[u8]> = routes.clone().map(|route| route.hash.0.as_slice()).collect();
    let pattern_bytes = routes.map(|route| i64::from(route.pattern_bytes)).sum();
    route::check_owner(client, tenant, id, &hashes, pattern_bytes).await?;
    #[cfg(feature = "http")]
    {
        let outlined = triggers
            .iter()
            .filter_map(|trigger| Some((trigger.outline.as_deref()?, &trigger.payload)));
        route::check_overlap(client, tenant, id, &outlined.collect::<Vec<_>>()).await?;
    }
    if !triggers.is_empty() {
        let activities: Vec<&str> = triggers.iter().map(|trigger| trigger.activity_id.as_str()).collect();
        let hashes: Vec<&[u8]> = triggers.iter().map(|trigger| trigger.hash.0.as_slice()).collect();
        let names: Vec<&str> = triggers.iter().map(|trigger| trigger.name.as_str()).collect();
        let payloads: Vec<&Value> = triggers.iter().map(|trigger| &trigger.payload).collect();
        let patterns: Vec<i32> = triggers.iter().map(|trigger| trigger.pattern_bytes).collect();
        let outlines: Vec<Option<&[u8]>> = triggers.iter().map(|trigger| trigger.outline.as_deref()).collect();
        let params: [&(dyn ToSql + Sync); 8] = [
            &tenant,
            &id,
            &activities,
            &hashes,
            &names,
            &payloads,
            &patterns,
            &outlines,
        ];
        client.execute(TRIGGER_WRITE, &params).await?;
    }
    let hashes: Vec<StimulusHash> = triggers.iter().map(|trigger| trigger.hash).collect();
    inbox_match::begin(client, tenant, id, &hashes).await?;
    failpoint::hit("publish.written").await?;
    Ok(())
}
