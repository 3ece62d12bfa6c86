//! The users.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::admin::{IdentityAdmin, added, check_roles};
use super::names;
use crate::elsa_json;
use crate::id::TenantId;
use crate::identity::{Caller, Permissions};
use crate::runtime::context::password_hasher;
use crate::store::identity::IdentityChange;
use crate::store::identity::user::{self, MOST_USERS, UserRow, UserUpdate};
use crate::{Error, Result};

/// A user, without its password.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserSummary {
    /// Its id.
    pub(crate) id: String,
    /// What it signs in with.
    pub(crate) name: String,
    /// The ids of its roles.
    pub(crate) roles: Vec<String>,
    /// Its tenant; empty for the default one.
    pub(crate) tenant_id: TenantId,
    /// It may not sign in.
    pub(crate) is_disabled: bool,
    /// When it was added.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub(crate) created_at: DateTime<Utc>,
    /// When it was changed.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub(crate) updated_at: DateTime<Utc>,
}

/// A user to add.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewUser {
    pub(crate) name: String,
    /// `None`: one is made.
    pub(crate) password: Option<String>,
    pub(crate) roles: Vec<String>,
}

/// A user that was added.
#[derive(Clone, Debug)]
pub(crate) struct AddedUser {
    pub(crate) user: UserSummary,
    /// The password that was made.
    pub(crate) password: Option<String>,
}

/// What changes of a user; `None` stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserChange {
    pub(crate) password: Option<String>,
    pub(crate) roles: Option<Vec<String>>,
    pub(crate) is_disabled: Option<bool>,
}

/// A password of 128 random bits.
fn random_password() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>())
}

impl IdentityAdmin {
    /// The users by their names.
    pub(crate) async fn users(&self) -> Result<Vec<UserSummary>> {
        let rows = user::list(&self.pool, &self.tenant, None).await?;
        Ok(rows.into_iter().map(|row| self.summary_of_user(row)).collect())
    }

    /// One of them. Errors: `user-not-found`.
    pub(crate) async fn user(&self, id: &str) -> Result<UserSummary> {
        let row = user::list(&self.pool, &self.tenant, Some(id)).await?.pop();
        row.map(|row| self.summary_of_user(row)).ok_or_else(|| no_user(id))
    }

    /// The user with a name, whose case does not matter. Errors: `user-not-found`.
    pub(crate) async fn user_named(&self, name: &str) -> Result<UserSummary> {
        let found = user::find_for_sign_in(&self.pool, name.trim()).await?;
        let found = found.filter(|user| user.tenant == self.tenant);
        match found {
            Some(found) => self.user(&found.id).await,
            None => Err(no_user(name)),
        }
    }

    /// Adds a user. Errors: `invalid-identity`, `role-not-found`, `more-than-own-permissions`, `user-exists`, `too-many-users`.
    pub(crate) async fn add_user(&self, by: &Permissions, new: NewUser) -> Result<AddedUser> {
        let name = names::name(&new.name)?.to_owned();
        let roles = names::roles(new.roles)?;
        let (password, made) = match new.password {
            Some(password) => {
                names::check_password(&password)?;
                (password, None)
            }
            None => {
                let password = random_password();
                (password.clone(), Some(password))
            }
        };
        // Before the transaction: it takes long.
        let hash = password_hasher::hash(&password).await?;
        let change = self.begin().await?;
        let done = add(&change, by, &name, &roles, &hash).await;
        let row = self.end(change, done).await?;
        tracing::info!(user = row.id, name, ?roles, "a user was added");
        Ok(AddedUser {
            user: self.summary_of_user(row),
            password: made,
        })
    }

    /// Adds a user with a role, unless there is a user already.
    pub(crate) async fn add_first_user(&self, name: &str, password: &str, role: &str) -> Result<bool> {
        names::check_password(password)?;
        if !self.users().await?.is_empty() {
            return Ok(false);
        }
        let new = NewUser {
            name: name.to_owned(),
            password: Some(password.to_owned()),
            roles: vec![role.to_owned()],
        };
        match self.add_user(&Permissions::everything(), new).await {
            Ok(_) => Ok(true),
            // Another node has begun at the same time.
            Err(error) if error.code() == "user-exists" => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes a user. Another password ends its sessions, but that of the caller. Errors: `user-not-found`, `last-administrator`,
    /// and those of [`IdentityAdmin::add_user`].
    pub(crate) async fn change_user(&self, by: &Caller, id: &str, given: UserChange) -> Result<UserSummary> {
        let roles = given.roles.map(names::roles).transpose()?;
        let hash = match &given.password {
            Some(password) => {
                names::check_password(password)?;
                Some(password_hasher::hash(password).await?)
            }
            None => None,
        };
        let update = UserUpdate {
            roles,
            password_hash: hash,
            disabled: given.is_disabled,
            kept_session: by.session.as_deref().and_then(|session| Uuid::parse_str(session).ok()),
            ..UserUpdate::default()
        };
        let change = self.begin().await?;
        let done = update_within(&change, &by.permissions, id, &update).await;
        self.end(change, done).await?;
        let (password, roles, disabled) = (update.password_hash.is_some(), &update.roles, update.disabled);
        tracing::info!(user = id, password, ?roles, ?disabled, "a user was changed");
        self.user(id).await
    }

    /// Sets the password of a user whose password was verified; false: it is another one meanwhile, or there is no such user.
    pub(super) async fn set_password(&self, by: &Caller, verified_hash: &str, password: &str) -> Result<bool> {
        let update = UserUpdate {
            password_hash: Some(password_hasher::hash(password).await?),
            kept_session: by.session.as_deref().and_then(|session| Uuid::parse_str(session).ok()),
            verified_hash: Some(verified_hash.to_owned()),
            ..UserUpdate::default()
        };
        let change = self.begin().await?;
        let done = change.update_user(&by.id, &update).await;
        if matches!(done, Ok(false)) {
            change.roll_back().await?;
            return Ok(false);
        }
        self.end(change, done).await?;
        tracing::info!(user = by.id, "a user has changed its password");
        Ok(true)
    }

    /// Deletes a user. Errors: `user-not-found`, `more-than-own-permissions`, `last-administrator`.
    pub(crate) async fn delete_user(&self, by: &Permissions, id: &str) -> Result<()> {
        let change = self.begin().await?;
        let done = delete(&change, by, id).await;
        self.end(change, done).await?;
        tracing::info!(user = id, "a user was deleted");
        Ok(())
    }

    fn summary_of_user(&self, row: UserRow) -> UserSummary {
        UserSummary {
            id: row.id,
            name: row.name,
            roles: row.roles,
            tenant_id: self.tenant.clone(),
            is_disabled: row.disabled_at.is_some(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

async fn add(change: &IdentityChange, by: &Permissions, name: &str, roles: &[String], hash: &str) -> Result<UserRow> {
    check_roles(change, by, roles).await?;
    let id = Uuid::now_v7().simple().to_string();
    let taken = || {
        let message = format!("there is a user {name:?} already, in this tenant or another one; choose another name");
        Error::conflict("user-exists", message).field("name", "is taken")
    };
    let full = || {
        let message = format!("there are {MOST_USERS} users already; so many belong to an identity provider");
        Error::conflict("too-many-users", message)
    };
    added(change.add_user(&id, name, roles, hash).await?, taken, full)?;
    change
        .user(&id)
        .await?
        .ok_or_else(|| Error::internal("a user that was added is not found"))
}

async fn update_within(change: &IdentityChange, by: &Permissions, id: &str, update: &UserUpdate) -> Result<()> {
    let before = change.user(id).await?.ok_or_else(|| no_user(id))?;
    // Who sets the password of a user can be that user.
    check_roles(change, by, &before.roles).await?;
    if let Some(roles) = &update.roles {
        check_roles(change, by, roles).await?;
    }
    change.update_user(id, update).await.map(drop)
}

async fn delete(change: &IdentityChange, by: &Permissions, id: &str) -> Result<()> {
    let before = change.user(id).await?.ok_or_else(|| no_user(id))?;
    check_roles(change, by, &before.roles).await?;
    change.delete_user(id).await.map(drop)
}

fn no_user(id: &str) -> Error {
    Error::not_found("user-not-found", format!("there is no user {id:?}"))
}
