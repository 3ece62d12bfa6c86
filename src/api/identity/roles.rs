//! The roles.

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::path::Id;
use crate::auth::Caller;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::runtime::{NewRole, RoleImpact, RoleSummary};

/// A role to add.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct NewRoleFields {
    /// Its id: letters, digits and `-._`; the name in kebab case if it is absent.
    id: Option<String>,
    /// What people call it.
    name: String,
    /// What it permits: names, and wildcards such as `*` and `read:*`.
    permissions: Option<Vec<String>>,
}

/// What changes of a role; what is absent stays.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct RoleFields {
    /// What people call it.
    name: Option<String>,
    /// What it permits.
    permissions: Option<Vec<String>>,
}

/// Which deletion was confirmed.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct RemediateFields {
    /// `dependencyVersion` of the impact that was read before.
    expected_dependency_version: String,
}

/// All roles.
#[derive(Serialize, ToSchema)]
struct RoleList {
    /// By their ids.
    roles: Vec<RoleSummary>,
}

/// Lists the roles
#[utoipa::path(get, path = "/identity/roles", tag = "Identity",
    responses((status = 200, description = "All roles of the tenant.", body = RoleList)))]
pub(super) async fn list(api: Api) -> ApiResult {
    let roles = api.engine.identity()?.roles().await?;
    Ok(Json(RoleList { roles }).into_response())
}

/// Adds a role
#[utoipa::path(post, path = "/identity/roles", tag = "Identity",
    request_body = NewRoleFields,
    responses(
        (status = 200, description = "The role.", body = RoleSummary),
        (status = 400, description = "`invalid-identity`: a field is wrong."),
        (status = 403, description = "`more-than-own-permissions`: the role permits what the caller may not do."),
        (status = 409, description = "`role-exists`: the id is taken. `too-many-roles`: there are 1,000."),
    ))]
pub(super) async fn create(api: Api, caller: Caller, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let new = NewRole {
        id: fields.id("id")?,
        name: fields.text("name")?.unwrap_or_default(),
        permissions: fields.texts("permissions")?,
    };
    Ok(Json(api.engine.identity()?.add_role(&caller.permissions, new).await?).into_response())
}

/// Changes a role
#[utoipa::path(put, path = "/identity/roles/{id}", tag = "Identity",
    params(("id" = String, Path, description = "The id of the role.")),
    request_body = RoleFields,
    responses(
        (status = 200, description = "The role.", body = RoleSummary),
        (status = 400, description = "`invalid-identity`: a field is wrong."),
        (status = 403, description = "`more-than-own-permissions`: the role permits, or would, what the caller may not do."),
        (status = 404, description = "`role-not-found`: there is no such role."),
        (status = 409, description = "`last-administrator`: no other role of a user permits everything."),
    ))]
pub(super) async fn change(api: Api, caller: Caller, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let (name, permissions) = (fields.text("name")?, fields.texts_if_any("permissions")?);
    let identity = api.engine.identity()?;
    let role = identity
        .change_role(&caller.permissions, &id, name.as_deref(), permissions)
        .await?;
    Ok(Json(role).into_response())
}

/// Deletes a role that no user and no application has
#[utoipa::path(delete, path = "/identity/roles/{id}", tag = "Identity",
    params(("id" = String, Path, description = "The id of the role.")),
    responses(
        (status = 204, description = "It is deleted."),
        (status = 403, description = "`more-than-own-permissions`: the role permits what the caller may not do."),
        (status = 404, description = "`role-not-found`: there is no such role."),
        (status = 409, description = "`role-in-use`: users or applications have it."),
    ))]
pub(super) async fn delete(api: Api, caller: Caller, Id(id): Id) -> ApiResult {
    api.engine
        .identity()?
        .delete_role(&caller.permissions, &id, None)
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Shows which users and applications have a role
#[utoipa::path(get, path = "/identity/roles/{id}/deletion-impact", tag = "Identity",
    params(("id" = String, Path, description = "The id of the role.")),
    responses(
        (status = 200, description = "What a deletion would change.", body = RoleImpact),
        (status = 404, description = "`role-not-found`: there is no such role."),
    ))]
pub(super) async fn impact(api: Api, Id(id): Id) -> ApiResult {
    Ok(Json(api.engine.identity()?.role_impact(&id).await?).into_response())
}

/// Takes a role from all users and applications that have it, and deletes it
#[utoipa::path(post, path = "/identity/roles/{id}/remove-from-jit-policies-and-delete", tag = "Identity",
    params(("id" = String, Path, description = "The id of the role.")),
    request_body = RemediateFields,
    responses(
        (status = 204, description = "It is deleted."),
        (status = 403, description = "`more-than-own-permissions`: the role permits what the caller may not do."),
        (status = 404, description = "`role-not-found`: there is no such role."),
        (status = 409, description = "`role-references-changed`: others have it than when the impact was read. `last-administrator`."),
    ))]
pub(super) async fn remediate(api: Api, caller: Caller, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let missing = || {
        let message = "expectedDependencyVersion must be the dependencyVersion of the deletion-impact.";
        ApiError::invalid_field("expectedDependencyVersion", message)
    };
    let expected = fields.id("expectedDependencyVersion")?.ok_or_else(missing)?;
    api.engine
        .identity()?
        .delete_role(&caller.permissions, &id, Some(&expected))
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
