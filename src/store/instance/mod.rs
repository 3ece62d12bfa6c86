//! Instances as the API reads them.

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod transfer;

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::Row;

use super::code::{StatusCode, SubStatusCode};
use super::commit::DefinitionRef;
use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{BookmarkId, DefinitionId, InstanceId, InstanceKey, InstanceVersion, TenantId, VersionId};

const CHILD: &str = include_str!("../../../sql/queries/instance/child.sql");
const FIND: &str = include_str!("../../../sql/queries/instance/find.sql");
const EXECUTION_STATE: &str = include_str!("../../../sql/queries/instance/execution_state.sql");
const PARENT: &str = include_str!("../../../sql/queries/instance/parent.sql");
const VERSIONS: &str = include_str!("../../../sql/queries/instance/versions.sql");
const PENDING: &str = include_str!("../../../sql/queries/instance/pending.sql");
const BOOKMARKS: &str = include_str!("../../../sql/queries/instance/bookmarks.sql");

/// Distinguishes an instance from a deleted one with the same id: the time of its first commit, in microseconds since 1970 by
/// the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Generation(i64);

impl Generation {
    pub(crate) fn of(created_at: DateTime<Utc>) -> Self {
        Self(created_at.timestamp_micros())
    }

    pub(crate) fn number(self) -> i64 {
        self.0
    }

    pub(crate) fn of_number(number: i64) -> Self {
        Self(number)
    }
}

/// An instance without its state. `status` and `sub_status` are numbers of the schema.
#[derive(Clone, Debug)]
pub(crate) struct InstanceRow {
    pub(crate) id: InstanceId,
    pub(crate) definition: DefinitionRef,
    pub(crate) status: i16,
    pub(crate) sub_status: i16,
    pub(crate) correlation_id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) incident_count: i32,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
    pub(crate) finished_at: Option<DateTime<Utc>>,
    /// The instance whose activity started it.
    pub(crate) parent: Option<InstanceId>,
}

columns!(struct InstanceColumns { id, definition_id, version_id, definition_version, status, sub_status, correlation_id, name, incident_count, created_at, updated_at, finished_at, parent_instance_id });

fn instance_row(at: InstanceColumns, row: &Row) -> InstanceRow {
    InstanceRow {
        id: InstanceId::new(row.get::<_, String>(at.id)),
        definition: DefinitionRef {
            definition_id: DefinitionId::new(row.get::<_, String>(at.definition_id)),
            version_id: VersionId::new(row.get::<_, String>(at.version_id)),
            version: row.get(at.definition_version),
        },
        status: row.get(at.status),
        sub_status: row.get(at.sub_status),
        correlation_id: row.get(at.correlation_id),
        name: row.get(at.name),
        incident_count: row.get(at.incident_count),
        created_at: row.get(at.created_at),
        updated_at: row.get(at.updated_at),
        finished_at: row.get(at.finished_at),
        parent: row.get::<_, Option<String>>(at.parent_instance_id).map(InstanceId::new),
    }
}

/// What is known of a child before it runs in the burst of its parent.
#[derive(Debug)]
pub(crate) struct ChildBefore {
    /// The published version of its definition; `None` if there is no such version.
    pub(crate) definition: Option<DefinitionRef>,
    /// No activation strategy refuses a start.
    pub(crate) starts_always: bool,
    /// The state of the child, if it exists.
    pub(crate) state: Option<Vec<u8>>,
    pub(crate) version: Option<InstanceVersion>,
}

/// Reads what is known of a child, in one statement.
pub(crate) async fn child_before(
    pool: &Pool,
    tenant: &TenantId,
    definition: &DefinitionId,
    child: &InstanceId,
) -> Result<ChildBefore> {
    let row = pool
        .query_one(CHILD, &[&tenant.as_str(), &definition.as_str(), &child.as_str()])
        .await?;
    let at = columns!(row; version_id, version, starts_always, state, instance_version)?;
    let version = row.get::<_, Option<String>>(at.version_id);
    Ok(ChildBefore {
        definition: version.map(|version| DefinitionRef {
            definition_id: definition.clone(),
            version_id: VersionId::new(version),
            version: row.get(at.version),
        }),
        starts_always: row.get::<_, Option<bool>>(at.starts_always).unwrap_or(false),
        state: row.get(at.state),
        version: row.get::<_, Option<i64>>(at.instance_version).map(InstanceVersion),
    })
}

/// Reads an instance with its state.
pub(crate) async fn find(
    pool: &Pool,
    tenant: &TenantId,
    id: &InstanceId,
) -> Result<Option<(InstanceRow, Vec<u8>, InstanceVersion)>> {
    let row = pool
        .query_opt(FIND, &[&tenant.as_str(), &id.as_str(), &true, &false])
        .await?;
    let Some(row) = row else { return Ok(None) };
    let version = InstanceVersion(row.get("instance_version"));
    Ok(Some((
        instance_row(InstanceColumns::of(&row)?, &row),
        row.get("state"),
        version,
    )))
}

/// An instance as it is shown: one that was committed, or an accepted start.
#[derive(Debug)]
pub(crate) struct ShownInstance {
    pub(crate) row: InstanceRow,
    /// `None` before its first commit.
    pub(crate) state: Option<Vec<u8>>,
    /// A node holds a claim on work of it.
    pub(crate) is_executing: bool,
    /// Its version belongs to the system.
    pub(crate) is_system: bool,
}

impl ShownInstance {
    fn of(row: InstanceRow, state: Option<Vec<u8>>, flags: &Row) -> Self {
        let flag = |name: &str| flags.get::<_, Option<bool>>(name).unwrap_or(false);
        Self {
            row,
            state,
            is_executing: flag("is_executing"),
            is_system: flag("is_system"),
        }
    }
}

/// Reads an instance as it is shown.
pub(crate) async fn show(pool: &Pool, tenant: &TenantId, id: &InstanceId) -> Result<Option<ShownInstance>> {
    // Twice: between the two reads a pending start may have been committed.
    for _ in 0..2 {
        let found = pool
            .query_opt(FIND, &[&tenant.as_str(), &id.as_str(), &true, &true])
            .await?;
        if let Some(found) = found {
            let row = instance_row(InstanceColumns::of(&found)?, &found);
            return Ok(Some(ShownInstance::of(row, Some(found.get("state")), &found)));
        }
        if let Some(found) = pool.query_opt(PENDING, &[&tenant.as_str(), &id.as_str()]).await? {
            return Ok(Some(ShownInstance::of(pending_row(id, &found), None, &found)));
        }
    }
    Ok(None)
}

/// Reads an instance without its state, which may be large.
pub(crate) async fn find_summary(pool: &Pool, tenant: &TenantId, id: &InstanceId) -> Result<Option<InstanceRow>> {
    let row = pool
        .query_opt(FIND, &[&tenant.as_str(), &id.as_str(), &false, &false])
        .await?;
    row.map(|row| Ok(instance_row(InstanceColumns::of(&row)?, &row)))
        .transpose()
}

/// Whether an instance continues. `status` and `sub_status` are numbers of the schema.
#[derive(Clone, Debug)]
pub(crate) struct ExecutionStateRow {
    pub(crate) status: i16,
    pub(crate) sub_status: i16,
    pub(crate) updated_at: DateTime<Utc>,
}

/// Reads whether an instance continues, and nothing else of it.
pub(crate) async fn execution_state(
    pool: &Pool,
    tenant: &TenantId,
    id: &InstanceId,
) -> Result<Option<ExecutionStateRow>> {
    let row = pool
        .query_opt(EXECUTION_STATE, &[&tenant.as_str(), &id.as_str()])
        .await?;
    Ok(row.map(|row| ExecutionStateRow {
        status: row.get("status"),
        sub_status: row.get("sub_status"),
        updated_at: row.get("updated_at"),
    }))
}

/// The state of an instance that another one started; `None` if none did, or there is no such instance.
pub(crate) async fn state_of_child(pool: &Pool, tenant: &TenantId, id: &InstanceId) -> Result<Option<Vec<u8>>> {
    let row = pool.query_opt(PARENT, &[&tenant.as_str(), &id.as_str()]).await?;
    Ok(row.map(|row| row.get("state")))
}

/// The versions of instances, as far as they exist.
pub(crate) async fn versions(pool: &Pool, keys: &[InstanceKey]) -> Result<HashMap<InstanceKey, i64>> {
    let (tenants, ids): (Vec<&str>, Vec<&str>) = keys.iter().map(|(tenant, id)| (tenant.as_str(), id.as_str())).unzip();
    let rows = pool.query(VERSIONS, &[&tenants, &ids]).await?;
    let at = columns!(rows; tenant_id, id, version)?;
    let version = |row: &Row| {
        let key = (
            TenantId::new(row.get::<_, String>(at.tenant_id)),
            InstanceId::new(row.get::<_, String>(at.id)),
        );
        (key, row.get(at.version))
    };
    Ok(rows.iter().map(version).collect())
}

/// Reads an accepted start before its first commit, as the instance that it becomes.
pub(crate) async fn pending(pool: &Pool, tenant: &TenantId, id: &InstanceId) -> Result<Option<InstanceRow>> {
    let row = pool.query_opt(PENDING, &[&tenant.as_str(), &id.as_str()]).await?;
    Ok(row.map(|row| pending_row(id, &row)))
}

fn pending_row(id: &InstanceId, row: &Row) -> InstanceRow {
    let created_at: DateTime<Utc> = row.get("created_at");
    let body: Value = row.get("body");
    let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
    InstanceRow {
        id: id.clone(),
        definition: DefinitionRef {
            definition_id: DefinitionId::new(row.get::<_, Option<String>>("definition_id").unwrap_or_default()),
            version_id: VersionId::new(row.get::<_, Option<String>>("version_id").unwrap_or_default()),
            version: row.get::<_, Option<i32>>("definition_version").unwrap_or_default(),
        },
        status: StatusCode::Running.number(),
        sub_status: SubStatusCode::Pending.number(),
        correlation_id: text("correlationId"),
        name: text("name"),
        incident_count: 0,
        created_at,
        updated_at: created_at,
        finished_at: None,
        parent: body
            .pointer("/parent/instanceId")
            .and_then(Value::as_str)
            .map(InstanceId::new),
    }
}

/// The open bookmarks of an instance.
#[derive(Clone, Debug)]
pub(crate) struct OpenBookmarks {
    pub(crate) generation: Generation,
    pub(crate) bookmarks: Vec<BookmarkId>,
}

/// The bookmarks of an instance; `None` if there is no such instance.
pub(crate) async fn bookmarks(pool: &Pool, tenant: &TenantId, id: &InstanceId) -> Result<Option<OpenBookmarks>> {
    let row = pool.query_opt(BOOKMARKS, &[&tenant.as_str(), &id.as_str()]).await?;
    Ok(row.map(|row| OpenBookmarks {
        generation: Generation::of(row.get("created_at")),
        bookmarks: row
            .get::<_, Vec<String>>("bookmarks")
            .into_iter()
            .map(BookmarkId::new)
            .collect(),
    }))
}
