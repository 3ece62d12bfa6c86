//! Workflow definitions: immutable versions once published, drafts until then.
//!
//! Every change of a definition holds the lock of its id, so that versions count without gaps and one draft is the newest.
//! Every change of a published version increments the revision in its own transaction (a sequence would show 2 before 1 is
//! committed) and notifies all nodes; NOTIFY is part of the transaction, as publishes are rare.
//!
//! # Invariants
//!
//! - The body of a version that was published, or started as a draft, never changes. A save of such a draft replaces its row.
//! - A transaction that publishes or retracts triggers holds the keys of their stimuli exclusively (`stimulus_key`), and the
//!   schedules.
//! - A deleted version is never started again. Its row stays for the instances that use it, and is purged when no
//!   transaction that could have accepted a start of it is left and nothing uses it.
//!
//! # Layout
//!
//! `composition`: definitions that use others as activities, `reference`: what they use. `save` saves and publishes; `refresh`
//! writes what starts a published version again; `retract`, `delete` and `draft` (its start) change a version; `read` and
//! `list` read, `import` for imported instances.

pub(crate) mod composition;
pub(crate) mod delete;
pub(crate) mod draft;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod reference;
pub(crate) mod refresh;
pub(crate) mod retract;
mod save;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use deadpool_postgres::Object;
use postgres_types::{FromSql, Type};
use serde_json::Value;

pub(crate) use read::{VersionSelector, find};
#[cfg(feature = "http")]
pub(crate) use save::is_equivalent;
pub(crate) use save::{publish, save};

use self::reference::ReferenceRow;
use super::route;
use super::schedule::{NoSchedules, Planner};
use super::stimulus_key::{self, KeySet};
use crate::db::columns;
use crate::id::{DefinitionId, StimulusHash, TenantId, VersionId};
use crate::{Error, Result};

const LOCK: &str = include_str!("../../../sql/queries/definition/lock.sql");
const HEAD: &str = include_str!("../../../sql/queries/definition/head.sql");
const TRIGGER_CLEAR: &str = include_str!("../../../sql/queries/trigger/clear.sql");
const TRIGGER_LIST: &str = include_str!("../../../sql/queries/trigger/list.sql");

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
    pub(crate) is_system: bool,
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
    /// The version of the request.
    pub(crate) version: i32,
    /// The number of its version if it is the first one.
    pub(crate) first_version: i32,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) is_readonly: bool,
    pub(crate) is_system: bool,
    /// The activity type that it is, if it can be used as an activity.
    pub(crate) activity_type: Option<String>,
    /// What it uses as activities.
    pub(crate) references: Vec<ReferenceRow>,
    /// A draft that is the newest version stays as it is.
    pub(crate) adds_version: bool,
    /// It is refused if the newest version is another one that is read-only, or belongs to the system.
    pub(crate) guards_readonly: bool,
    pub(crate) body: Arc<Value>,
}

/// A trigger of a published version.
#[derive(Clone, Debug)]
pub(crate) struct TriggerRow {
    pub(crate) activity_id: String,
    pub(crate) hash: StimulusHash,
    pub(crate) name: String,
    pub(crate) payload: Value,
    /// What the compiled regular expressions of its route take.
    pub(crate) pattern_bytes: i32,
    /// The key of the outline of its route, if that has one: see [`route::outline_key`].
    pub(crate) outline: Option<Vec<u8>>,
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
            schedules: &NoSchedules,
        }
    }
}

/// The result of a save.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    /// The newest version after the save.
    pub(crate) row: DefinitionRow,
    /// Nothing was written: the newest version is equal, and published or not to be changed by clients.
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

/// Refuses a change of a version that is read-only or belongs to the system.
pub(crate) fn refuse_readonly(id: &DefinitionId, is_readonly: bool, is_system: bool) -> Result<()> {
    if !is_readonly && !is_system {
        return Ok(());
    }
    let why = if is_readonly {
        "is read-only"
    } else {
        "belongs to the system"
    };
    let message = format!("the workflow definition {:?} {why}", id.as_str());
    Err(Error::forbidden("definition-readonly", message))
}

/// Ends the transaction of a refusal, so that its connection can be given back. After any other error it is closed.
async fn end_refused<T>(client: &Object, outcome: Result<T>) -> Result<Result<T>> {
    match outcome {
        Err(error) if error.is_forbidden() || route::is_refusal(&error) => {
            client.batch_execute("ROLLBACK").await?;
            Ok(Err(error))
        }
        outcome => outcome.map(Ok),
    }
}

async fn begin(client: &Object, lock_class: i32, tenant: &TenantId, id: &DefinitionId) -> Result<()> {
    client.batch_execute("BEGIN").await?;
    client
        .execute(LOCK, &[&lock_class, &tenant.as_str(), &id.as_str()])
        .await?;
    Ok(())
}

/// Locks the schedules of a definition and replaces them by those of `schedules`, then locks the keys of its triggers, and of
/// new ones. In this order: firing locks schedules before the rows of activation.
async fn lock_start_sources(
    client: &Object,
    lock_class: i32,
    tenant: &TenantId,
    id: &DefinitionId,
    new: StartSources<'_>,
) -> Result<()> {
    super::schedule::publish(client, tenant, id, new.schedules).await?;
    let stored = stored_triggers(client, tenant, id).await?;
    let keys = KeySet::of_triggers(new.triggers.iter().map(|trigger| &trigger.hash).chain(&stored));
    if !keys.is_empty() {
        let (keys, modes) = keys.columns();
        client
            .execute(stimulus_key::LOCK, &[&lock_class, &keys, &modes])
            .await?;
    }
    Ok(())
}

/// The stimuli of the triggers of a definition.
async fn stored_triggers(client: &Object, tenant: &TenantId, id: &DefinitionId) -> Result<Vec<StimulusHash>> {
    let stored = client.query(TRIGGER_LIST, &[&tenant.as_str(), &id.as_str()]).await?;
    let at = columns!(stored; hash)?;
    let hashes = stored
        .iter()
        .filter_map(|row| <[u8; 32]>::try_from(row.get::<_, &[u8]>(at.hash)).ok());
    Ok(hashes.map(StimulusHash).collect())
}

/// Removes all that starts instances of a definition, in a transaction that holds its lock.
async fn clear_start_sources(client: &Object, lock_class: i32, tenant: &TenantId, id: &DefinitionId) -> Result<()> {
    let none = StartSources {
        triggers: &[],
        schedules: &NoSchedules,
    };
    lock_start_sources(client, lock_class, tenant, id, none).await?;
    client.execute(TRIGGER_CLEAR, &[&tenant.as_str(), &id.as_str()]).await?;
    super::inbox_match::begin(client, tenant.as_str(), id.as_str(), &[]).await
}

struct Head {
    version_id: VersionId,
    version: i32,
    is_published: bool,
    was_published: bool,
    was_started: bool,
    is_readonly: bool,
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
        was_started: row.get("was_started"),
        is_readonly: row.get("is_readonly"),
        is_system: row.get("is_system"),
        created_at: row.get("created_at"),
        body: row.get("body"),
        published_version: row.get("published_version"),
        max_version: row.get::<_, Option<i32>>("max_version").unwrap_or_default(),
    }))
}

columns!(struct DefinitionColumns { version_id, definition_id, version, name, description, is_latest, is_published, is_readonly, is_system, created_at });

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
        is_system: row.get(at.is_system),
        created_at: row.get(at.created_at),
        body,
    }
}
