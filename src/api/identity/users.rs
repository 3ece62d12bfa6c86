//! The users.

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::path::Id;
use crate::auth::Caller;
use crate::http::{ApiResult, RequestBody};
use crate::runtime::{AddedUser, NewUser, UserChange, UserSummary};

/// A user to add.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct NewUserFields {
    /// What the user signs in with; unique in the cluster, whatever its case.
    name: String,
    /// Of at least 8 characters; made if it is absent.
    password: Option<String>,
    /// The ids of its roles.
    roles: Option<Vec<String>>,
}

/// What changes of a user; what is absent stays.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct UserFields {
    /// Another password. It ends the sessions of the user, but that of the caller.
    password: Option<String>,
    /// The ids of its roles.
    roles: Option<Vec<String>>,
    /// Whether it may not sign in. It ends the sessions of the user.
    is_disabled: Option<bool>,
}

/// All users.
#[derive(Serialize, ToSchema)]
struct UserList {
    /// By their names.
    users: Vec<UserSummary>,
}

/// A user that was added.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MadeUser {
    #[serde(flatten)]
    user: UserSummary,
    /// The password that was made, which is shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
}

impl From<AddedUser> for MadeUser {
    fn from(added: AddedUser) -> Self {
        Self {
            user: added.user,
            password: added.password,
        }
    }
}

/// Lists the users, without their passwords
#[utoipa::path(get, path = "/identity/users", tag = "Identity",
    responses((status = 200, description = "All users of the tenant.", body = UserList)))]
pub(super) async fn list(api: Api) -> ApiResult {
    let users = api.engine.identity()?.users().await?;
    Ok(Json(UserList { users }).into_response())
}

/// Adds a user
#[utoipa::path(post, path = "/identity/users", tag = "Identity",
    request_body = NewUserFields,
    responses(
        (status = 200, description = "The user, with the password if it was made.", body = MadeUser),
        (status = 400, description = "`invalid-identity`: a field is wrong. `role-not-found`."),
        (status = 403, description = "`more-than-own-permissions`: a role permits what the caller may not do."),
        (status = 409, description = "`user-exists`: the name is taken. `too-many-users`: there are 10,000."),
    ))]
pub(super) async fn create(api: Api, caller: Caller, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let new = NewUser {
        name: fields.text("name")?.unwrap_or_default(),
        password: fields.text("password")?.filter(|password| !password.is_empty()),
        roles: fields.texts("roles")?,
    };
    let added = api.engine.identity()?.add_user(&caller.permissions, new).await?;
    Ok(Json(MadeUser::from(added)).into_response())
}

/// Gets a user
#[utoipa::path(get, path = "/identity/users/{id}", tag = "Identity",
    params(("id" = String, Path, description = "The id of the user.")),
    responses(
        (status = 200, description = "The user.", body = UserSummary),
        (status = 404, description = "`user-not-found`: there is no such user."),
    ))]
pub(super) async fn get(api: Api, Id(id): Id) -> ApiResult {
    Ok(Json(api.engine.identity()?.user(&id).await?).into_response())
}

/// Changes the password or the roles of a user, or disables it
#[utoipa::path(put, path = "/identity/users/{id}", tag = "Identity",
    params(("id" = String, Path, description = "The id of the user.")),
    request_body = UserFields,
    responses(
        (status = 200, description = "The user.", body = UserSummary),
        (status = 400, description = "`invalid-identity`: a field is wrong. `role-not-found`."),
        (status = 403, description = "`more-than-own-permissions`: the user may do, or would, what the caller may not."),
        (status = 404, description = "`user-not-found`: there is no such user."),
        (status = 409, description = "`last-administrator`: no other user may do everything."),
    ))]
pub(super) async fn change(api: Api, caller: Caller, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let change = UserChange {
        password: fields.text("password")?.filter(|password| !password.is_empty()),
        roles: fields.texts_if_any("roles")?,
        is_disabled: fields.flag("isDisabled")?,
    };
    Ok(Json(api.engine.identity()?.change_user(&caller, &id, change).await?).into_response())
}

/// Deletes a user, and ends its sessions
#[utoipa::path(delete, path = "/identity/users/{id}", tag = "Identity",
    params(("id" = String, Path, description = "The id of the user.")),
    responses(
        (status = 204, description = "It is deleted."),
        (status = 403, description = "`more-than-own-permissions`: the user may do what the caller may not."),
        (status = 404, description = "`user-not-found`: there is no such user."),
        (status = 409, description = "`last-administrator`: no other user may do everything."),
    ))]
pub(super) async fn delete(api: Api, caller: Caller, Id(id): Id) -> ApiResult {
    api.engine.identity()?.delete_user(&caller.permissions, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
