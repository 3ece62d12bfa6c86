//! The roles.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::admin::{IdentityAdmin, added, check_covered};
use super::names;
use crate::id::TenantId;
use crate::identity::Permissions;
use crate::store::identity::IdentityChange;
use crate::store::identity::role::{self, MOST_ROLES, RoleReference, RoleRow};
use crate::{Error, Result};

/// A role.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoleSummary {
    /// Its id.
    pub(crate) id: String,
    /// What people call it.
    pub(crate) name: String,
    /// What it permits: names, and wildcards such as `*` and `read:*`.
    pub(crate) permissions: Vec<String>,
    /// Its tenant; empty for the default one.
    pub(crate) tenant_id: TenantId,
}

/// A role to add.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewRole {
    /// `None`: its name in kebab case.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) permissions: Vec<String>,
}

/// A user or application that has a role.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoleHolder {
    /// `User` or `Application`.
    #[schema(value_type = String)]
    pub(crate) kind: &'static str,
    /// Its id.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: String,
}

/// What the deletion of a role would change.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoleImpact {
    /// The role.
    pub(crate) role_id: String,
    /// Changes with what has the role; a deletion that takes it from all of them names it.
    pub(crate) dependency_version: String,
    /// `atomic`: all of it, or nothing.
    #[schema(value_type = String)]
    pub(crate) execution_mode: &'static str,
    /// Nothing has the role.
    pub(crate) can_delete: bool,
    /// The role can be taken from all that has it.
    pub(crate) can_remediate: bool,
    /// What only settings can change: nothing.
    pub(crate) configuration_references: Vec<RoleHolder>,
    /// The users and applications that have the role.
    pub(crate) editable_references: Vec<RoleHolder>,
    /// What to know before: that a user would have no role any more.
    pub(crate) warnings: Vec<String>,
}

impl IdentityAdmin {
    /// The roles by their ids.
    pub(crate) async fn roles(&self) -> Result<Vec<RoleSummary>> {
        let rows = role::list(&self.pool, &self.tenant, None).await?;
        Ok(rows.into_iter().map(|row| self.summary_of_role(row)).collect())
    }

    /// Adds a role; one that exists is never replaced. Errors: `invalid-identity`, `more-than-own-permissions`, `role-exists`,
    /// `too-many-roles`.
    pub(crate) async fn add_role(&self, by: &Permissions, new: NewRole) -> Result<RoleSummary> {
        let name = names::name(&new.name)?.to_owned();
        let id = new.id.unwrap_or_else(|| names::kebab(&name));
        let role = RoleRow {
            id: names::role_id(&id)?.to_owned(),
            name,
            permissions: names::permissions(new.permissions)?,
        };
        check_covered(by, role.permissions.clone())?;
        let change = self.begin().await?;
        let done = add(&change, &role).await;
        self.end(change, done).await?;
        tracing::info!(role = role.id, permissions = ?role.permissions, "a role was added");
        Ok(self.summary_of_role(role))
    }

    /// Changes a role; `None` stays. Errors: `role-not-found`, `invalid-identity`, `more-than-own-permissions`,
    /// `last-administrator`.
    pub(crate) async fn change_role(
        &self,
        by: &Permissions,
        id: &str,
        name: Option<&str>,
        permissions: Option<Vec<String>>,
    ) -> Result<RoleSummary> {
        let name = name.map(names::name).transpose()?;
        let permissions = permissions.map(names::permissions).transpose()?;
        if let Some(permissions) = &permissions {
            check_covered(by, permissions.clone())?;
        }
        let change = self.begin().await?;
        let done = update(&change, by, id, name, permissions.as_deref()).await;
        let role = self.end(change, done).await?;
        tracing::info!(role = id, permissions = ?role.permissions, "a role was changed");
        Ok(self.summary_of_role(role))
    }

    /// What the deletion of a role would change. Errors: `role-not-found`.
    pub(crate) async fn role_impact(&self, id: &str) -> Result<RoleImpact> {
        if role::list(&self.pool, &self.tenant, Some(id)).await?.is_empty() {
            return Err(no_role(id));
        }
        let references = role::references_of(&self.pool, &self.tenant, id).await?;
        Ok(RoleImpact {
            role_id: id.to_owned(),
            dependency_version: version_of(&references),
            execution_mode: "atomic",
            can_delete: references.is_empty(),
            can_remediate: true,
            configuration_references: Vec::new(),
            warnings: match references.len() {
                0 => Vec::new(),
                count => vec![format!(
                    "{count} users and applications would lose what the role permits."
                )],
            },
            editable_references: references.into_iter().map(holder).collect(),
        })
    }

    /// Deletes a role that nothing has, or takes it from all that has it if that is still what this version names. Errors:
    /// `role-not-found`, `more-than-own-permissions`, `role-in-use`, `role-references-changed`, `last-administrator`.
    pub(crate) async fn delete_role(&self, by: &Permissions, id: &str, expected: Option<&str>) -> Result<()> {
        let change = self.begin().await?;
        let done = delete(&change, by, id, expected).await;
        self.end(change, done).await?;
        tracing::info!(role = id, "a role was deleted");
        Ok(())
    }

    fn summary_of_role(&self, row: RoleRow) -> RoleSummary {
        RoleSummary {
            id: row.id,
            name: row.name,
            permissions: row.permissions,
            tenant_id: self.tenant.clone(),
        }
    }
}

async fn add(change: &IdentityChange, role: &RoleRow) -> Result<()> {
    let taken = || {
        let message = format!(
            "there is a role {:?} already; change it by PUT, or give another id",
            role.id
        );
        Error::conflict("role-exists", message).field("id", "is taken")
    };
    let full = || Error::conflict("too-many-roles", format!("there are {MOST_ROLES} roles already"));
    added(change.add_role(role).await?, taken, full)
}

async fn update(
    change: &IdentityChange,
    by: &Permissions,
    id: &str,
    name: Option<&str>,
    permissions: Option<&[String]>,
) -> Result<RoleRow> {
    let before = change.role(id).await?.ok_or_else(|| no_role(id))?;
    check_covered(by, before.permissions)?;
    change.update_role(id, name, permissions).await?;
    change.role(id).await?.ok_or_else(|| no_role(id))
}

async fn delete(change: &IdentityChange, by: &Permissions, id: &str, expected: Option<&str>) -> Result<()> {
    let before = change.role(id).await?.ok_or_else(|| no_role(id))?;
    check_covered(by, before.permissions)?;
    let references = change.references_of(id).await?;
    match expected {
        None if !references.is_empty() => {
            let message = format!(
                "{} users and applications have the role {id:?}: take it from them, or see its deletion-impact",
                references.len()
            );
            return Err(Error::conflict("role-in-use", message));
        }
        Some(expected) if expected != version_of(&references) => {
            let message =
                "other users or applications have the role than when its deletion-impact was read; read it again";
            return Err(Error::conflict("role-references-changed", message));
        }
        _ => {}
    }
    change.delete_role(id).await
}

/// Changes with what has a role.
fn version_of(references: &[RoleReference]) -> String {
    let mut hash = Sha256::new();
    for reference in references {
        hash.update([u8::from(reference.is_user)]);
        hash.update(reference.id.as_bytes());
        hash.update([0]);
    }
    let hash = hash.finalize();
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn holder(reference: RoleReference) -> RoleHolder {
    RoleHolder {
        kind: if reference.is_user { "User" } else { "Application" },
        id: reference.id,
        name: reference.name,
    }
}

fn no_role(id: &str) -> Error {
    Error::not_found("role-not-found", format!("there is no role {id:?}"))
}
