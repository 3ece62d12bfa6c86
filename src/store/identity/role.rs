//! The roles.

use postgres_types::ToSql;

use super::{Added, IdentityChange};
use crate::Result;
use crate::db::{Pool, columns};
use crate::id::TenantId;

const LIST: &str = include_str!("../../../sql/queries/identity/role_list.sql");
const PERMISSIONS: &str = include_str!("../../../sql/queries/identity/permissions.sql");
const INSERT: &str = include_str!("../../../sql/queries/identity/role_insert.sql");
const COPY: &str = include_str!("../../../sql/queries/identity/role_copy.sql");
const UPDATE: &str = include_str!("../../../sql/queries/identity/role_update.sql");
const DELETE: &str = include_str!("../../../sql/queries/identity/role_delete.sql");
const REFERENCES: &str = include_str!("../../../sql/queries/identity/role_references.sql");

/// The most roles of a tenant.
pub(crate) const MOST_ROLES: i64 = 1_000;

/// A role.
#[derive(Clone, Debug)]
pub(crate) struct RoleRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) permissions: Vec<String>,
}

fn read(rows: Vec<tokio_postgres::Row>) -> Result<Vec<RoleRow>> {
    let at = columns!(rows; id, name, permissions)?;
    let role = |row: &tokio_postgres::Row| RoleRow {
        id: row.get(at.id),
        name: row.get(at.name),
        permissions: row.get(at.permissions),
    };
    Ok(rows.iter().map(role).collect())
}

/// The roles of a tenant by their ids: all, or that with an id.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId, id: Option<&str>) -> Result<Vec<RoleRow>> {
    read(pool.query(LIST, &[&tenant.as_str(), &id]).await?)
}

/// What has a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoleReference {
    /// A user; else an application.
    pub(crate) is_user: bool,
    pub(crate) id: String,
    pub(crate) name: String,
}

fn references(rows: Vec<tokio_postgres::Row>) -> Result<Vec<RoleReference>> {
    let at = columns!(rows; is_user, id, name)?;
    let reference = |row: &tokio_postgres::Row| RoleReference {
        is_user: row.get(at.is_user),
        id: row.get(at.id),
        name: row.get(at.name),
    };
    Ok(rows.iter().map(reference).collect())
}

/// The users and applications that have a role.
pub(crate) async fn references_of(pool: &Pool, tenant: &TenantId, id: &str) -> Result<Vec<RoleReference>> {
    references(pool.query(REFERENCES, &[&tenant.as_str(), &id]).await?)
}

/// What roles permit, and those of them that do not exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct RolePermissions {
    pub(crate) permissions: Vec<String>,
    pub(crate) unknown: Vec<String>,
}

impl IdentityChange {
    /// Gives a tenant without roles those of the default one.
    pub(crate) async fn copy_first_roles(&self) -> Result<()> {
        self.query(COPY, &[&self.tenant.as_str()]).await?;
        Ok(())
    }

    /// One role.
    pub(crate) async fn role(&self, id: &str) -> Result<Option<RoleRow>> {
        let rows = self.query(LIST, &[&self.tenant.as_str(), &Some(id)]).await?;
        Ok(read(rows)?.pop())
    }

    /// What these roles permit.
    pub(crate) async fn permissions_of(&self, roles: &[String]) -> Result<RolePermissions> {
        let rows = self.query(PERMISSIONS, &[&self.tenant.as_str(), &roles]).await?;
        let at = columns!(rows; id, permissions)?;
        let known: Vec<String> = rows.iter().map(|row| row.get(at.id)).collect();
        let unknown = roles.iter().filter(|role| !known.contains(role));
        Ok(RolePermissions {
            permissions: rows
                .iter()
                .flat_map(|row| row.get::<_, Vec<String>>(at.permissions))
                .collect(),
            unknown: unknown.cloned().collect(),
        })
    }

    /// The users and applications that have a role.
    pub(crate) async fn references_of(&self, id: &str) -> Result<Vec<RoleReference>> {
        references(self.query(REFERENCES, &[&self.tenant.as_str(), &id]).await?)
    }

    /// Adds a role.
    pub(crate) async fn add_role(&self, role: &RoleRow) -> Result<Added> {
        let params: [&(dyn ToSql + Sync); 5] = [
            &self.tenant.as_str(),
            &role.id,
            &role.name,
            &role.permissions,
            &MOST_ROLES,
        ];
        let row = self.query_one(INSERT, &params).await?;
        Ok(Added::of(row.get("made"), row.get("has_room")))
    }

    /// Changes a role; `None` stays.
    pub(crate) async fn update_role(&self, id: &str, name: Option<&str>, permissions: Option<&[String]>) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 4] = [&self.tenant.as_str(), &id, &name, &permissions];
        self.query(UPDATE, &params).await.map(drop)
    }

    /// Deletes a role, and takes it from what has it.
    pub(crate) async fn delete_role(&self, id: &str) -> Result<()> {
        self.query(DELETE, &[&self.tenant.as_str(), &id]).await.map(drop)
    }
}
