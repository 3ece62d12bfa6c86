//! The users.

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use uuid::Uuid;

use super::{Added, IdentityChange};
use crate::Result;
use crate::db::{Pool, columns};
use crate::id::TenantId;

const LIST: &str = include_str!("../../../sql/queries/identity/user_list.sql");
const SIGN_IN: &str = include_str!("../../../sql/queries/identity/user_sign_in.sql");
const INSERT: &str = include_str!("../../../sql/queries/identity/user_insert.sql");
const UPDATE: &str = include_str!("../../../sql/queries/identity/user_update.sql");
const DELETE: &str = include_str!("../../../sql/queries/identity/user_delete.sql");
const REHASH: &str = include_str!("../../../sql/queries/identity/user_rehash.sql");

/// The most users of a tenant: more than these belong to an identity provider.
pub(crate) const MOST_USERS: i64 = 10_000;

/// A user as it is listed, without its password.
#[derive(Clone, Debug)]
pub(crate) struct UserRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) roles: Vec<String>,
    pub(crate) disabled_at: Option<DateTime<Utc>>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
}

fn read(rows: Vec<tokio_postgres::Row>) -> Result<Vec<UserRow>> {
    let at = columns!(rows; id, name, roles, disabled_at, created_at, updated_at)?;
    let user = |row: &tokio_postgres::Row| UserRow {
        id: row.get(at.id),
        name: row.get(at.name),
        roles: row.get(at.roles),
        disabled_at: row.get(at.disabled_at),
        created_at: row.get(at.created_at),
        updated_at: row.get(at.updated_at),
    };
    Ok(rows.iter().map(user).collect())
}

/// The users of a tenant by their names: all, or that with an id.
pub(crate) async fn list(pool: &Pool, tenant: &TenantId, id: Option<&str>) -> Result<Vec<UserRow>> {
    read(pool.query(LIST, &[&tenant.as_str(), &id]).await?)
}

/// The user that signs in.
#[derive(Clone, Debug)]
pub(crate) struct SignInRow {
    pub(crate) id: String,
    pub(crate) tenant: TenantId,
    /// A PHC string.
    pub(crate) password_hash: String,
    pub(crate) is_disabled: bool,
}

/// Finds the user with a name, in any tenant.
pub(crate) async fn find_for_sign_in(pool: &Pool, name: &str) -> Result<Option<SignInRow>> {
    let Some(row) = pool.query_opt(SIGN_IN, &[&name]).await? else {
        return Ok(None);
    };
    let at = columns!(row; id, tenant_id, password_hash, is_disabled)?;
    Ok(Some(SignInRow {
        id: row.get(at.id),
        tenant: TenantId::new(row.get::<_, String>(at.tenant_id)),
        password_hash: row.get(at.password_hash),
        is_disabled: row.get(at.is_disabled),
    }))
}

/// Replaces the hash of a password by one with other parameters, unless the password has changed.
pub(crate) async fn rehash(pool: &Pool, id: &str, verified: &str, hash: &str) -> Result<()> {
    pool.query(REHASH, &[&id, &verified, &hash]).await.map(drop)
}

/// What changes of a user; `None` stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserUpdate {
    pub(crate) roles: Option<Vec<String>>,
    pub(crate) password_hash: Option<String>,
    pub(crate) disabled: Option<bool>,
    /// The session that another password does not end: that of who changes it.
    pub(crate) kept_session: Option<Uuid>,
    /// The hash of the password that was verified for the change: with another one by now nothing changes.
    pub(crate) verified_hash: Option<String>,
}

impl IdentityChange {
    /// One user.
    pub(crate) async fn user(&self, id: &str) -> Result<Option<UserRow>> {
        let rows = self.query(LIST, &[&self.tenant.as_str(), &Some(id)]).await?;
        Ok(read(rows)?.pop())
    }

    /// Adds a user.
    pub(crate) async fn add_user(&self, id: &str, name: &str, roles: &[String], password_hash: &str) -> Result<Added> {
        let params: [&(dyn ToSql + Sync); 6] = [&id, &self.tenant.as_str(), &name, &roles, &password_hash, &MOST_USERS];
        let row = self.query_one(INSERT, &params).await?;
        Ok(Added::of(row.get("made"), row.get("has_room")))
    }

    /// Changes a user, and ends its sessions if it has another password or may not sign in any more; false: there is no such user.
    pub(crate) async fn update_user(&self, id: &str, update: &UserUpdate) -> Result<bool> {
        let params: [&(dyn ToSql + Sync); 7] = [
            &self.tenant.as_str(),
            &id,
            &update.roles,
            &update.password_hash,
            &update.disabled,
            &update.kept_session,
            &update.verified_hash,
        ];
        Ok(!self.query(UPDATE, &params).await?.is_empty())
    }

    /// Deletes a user with its sessions; false: there is no such user.
    pub(crate) async fn delete_user(&self, id: &str) -> Result<bool> {
        Ok(!self.query(DELETE, &[&self.tenant.as_str(), &id]).await?.is_empty())
    }
}
