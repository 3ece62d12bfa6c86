//! The applications: programs with a key.

use std::time::Duration;

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use uuid::Uuid;

use super::{Added, IdentityChange};
use crate::Result;
use crate::db::{Pool, columns};
use crate::id::TenantId;

const KNOWN: &str = include_str!("../../../sql/queries/identity/known.sql");
const CALLER_NOW: &str = include_str!("../../../sql/queries/identity/caller_now.sql");
const LIST: &str = include_str!("../../../sql/queries/identity/application_list.sql");
const INSERT: &str = include_str!("../../../sql/queries/identity/application_insert.sql");
const DELETE: &str = include_str!("../../../sql/queries/identity/application_delete.sql");

/// The most applications of a tenant: each node holds all of them.
pub(crate) const MOST_APPLICATIONS: i64 = 1_000;

/// The hash of a key.
pub(crate) type KeyHash = [u8; 32];

/// An application as a node knows it.
#[derive(Clone, Debug)]
pub(crate) struct KnownApplication {
    pub(crate) id: String,
    pub(crate) tenant: TenantId,
    pub(crate) name: String,
    pub(crate) key_hash: KeyHash,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) permissions: Vec<String>,
}

/// The applications, and whether requests need a credential.
#[derive(Clone, Debug)]
pub(crate) struct KnownApplications {
    pub(crate) revision: i64,
    /// There ever was a user or an application: who deletes the last one does not open the server.
    pub(crate) is_in_use: bool,
    pub(crate) applications: Vec<KnownApplication>,
}

/// Reads all applications whose keys have not expired.
pub(crate) async fn known(pool: &Pool) -> Result<KnownApplications> {
    let rows = pool.query(KNOWN, &[]).await?;
    let at = columns!(rows; revision, is_in_use, id, tenant_id, name, key_hash, expires_at, permissions)?;
    let application = |row: &tokio_postgres::Row| {
        let id: String = row.get::<_, Option<String>>(at.id)?;
        Some(KnownApplication {
            id,
            tenant: TenantId::new(row.get::<_, String>(at.tenant_id)),
            name: row.get(at.name),
            key_hash: row.get::<_, &[u8]>(at.key_hash).try_into().ok()?,
            expires_at: row.get(at.expires_at),
            permissions: row.get(at.permissions),
        })
    };
    Ok(KnownApplications {
        revision: rows.first().map_or(0, |row| row.get(at.revision)),
        is_in_use: rows.first().is_some_and(|row| row.get(at.is_in_use)),
        applications: rows.iter().filter_map(application).collect(),
    })
}

/// An application as it is listed, without its key.
#[derive(Clone, Debug)]
pub(crate) struct ApplicationRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) roles: Vec<String>,
    pub(crate) client_id: String,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) has_expired: bool,
    pub(crate) created_at: DateTime<Utc>,
}

fn read(rows: Vec<tokio_postgres::Row>) -> Result<Vec<ApplicationRow>> {
    let at = columns!(rows; id, name, roles, client_id, expires_at, has_expired, created_at)?;
    let application = |row: &tokio_postgres::Row| ApplicationRow {
        id: row.get(at.id),
        name: row.get(at.name),
        roles: row.get(at.roles),
        client_id: row.get(at.client_id),
        expires_at: row.get(at.expires_at),
        has_expired: row.get(at.has_expired),
        created_at: row.get(at.created_at),
    };
    Ok(rows.iter().map(application).collect())
}

/// The applications of a tenant by their names.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId) -> Result<Vec<ApplicationRow>> {
    read(pool.query(LIST, &[&tenant.as_str(), &None::<&str>]).await?)
}

/// An application that is added.
#[derive(Clone, Debug)]
pub(crate) struct NewApplication {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) roles: Vec<String>,
    pub(crate) client_id: String,
    pub(crate) key_hash: KeyHash,
    /// For how long its key is good.
    pub(crate) lifetime: Option<Duration>,
}

impl IdentityChange {
    /// What the user of a session, or an application, may do now; `None`: it is not good any more.
    pub(crate) async fn permissions_now(
        &self,
        session: Option<Uuid>,
        application: Option<&str>,
    ) -> Result<Option<Vec<String>>> {
        let rows = self.query(CALLER_NOW, &[&session, &application]).await?;
        Ok(rows.first().map(|row| row.get("permissions")))
    }

    /// One application.
    pub(crate) async fn application(&self, id: &str) -> Result<Option<ApplicationRow>> {
        let rows = self.query(LIST, &[&self.tenant.as_str(), &Some(id)]).await?;
        Ok(read(rows)?.pop())
    }

    /// Adds an application.
    pub(crate) async fn add_application(&self, new: &NewApplication) -> Result<Added> {
        let lifetime = new
            .lifetime
            .map(|time| i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
        let params: [&(dyn ToSql + Sync); 8] = [
            &new.id,
            &self.tenant.as_str(),
            &new.name,
            &new.roles,
            &new.client_id,
            &new.key_hash.as_slice(),
            &lifetime,
            &MOST_APPLICATIONS,
        ];
        let row = self.query_one(INSERT, &params).await?;
        Ok(Added::of(row.get("made"), row.get("has_room")))
    }

    /// Deletes an application; false: there is none with this id.
    pub(crate) async fn delete_application(&self, id: &str) -> Result<bool> {
        Ok(!self.query(DELETE, &[&self.tenant.as_str(), &id]).await?.is_empty())
    }
}
