//! The applications: programs with an API key.

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::path::Id;
use crate::auth::Caller;
use crate::http::{ApiResult, RequestBody};
use crate::runtime::{AddedApplication, ApplicationSummary, NewKey};

/// An application to add.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ApplicationFields {
    /// What people call it.
    name: String,
    /// The ids of its roles.
    roles: Option<Vec<String>>,
    /// How long its key is good: a time span such as `90.00:00:00` or `P90D`, or a number of seconds. For ever if absent.
    #[schema(value_type = Option<String>)]
    expires_in: Option<Value>,
}

/// All applications.
#[derive(Serialize, ToSchema)]
struct ApplicationList {
    /// By their names.
    applications: Vec<ApplicationSummary>,
}

/// Lists the applications, without their keys
#[utoipa::path(get, path = "/identity/applications", tag = "Identity",
    responses((status = 200, description = "All applications of the tenant.", body = ApplicationList)))]
pub(super) async fn list(api: Api) -> ApiResult {
    let applications = api.engine.identity()?.applications().await?;
    Ok(Json(ApplicationList { applications }).into_response())
}

/// Adds an application, and makes its key
#[utoipa::path(post, path = "/identity/applications", tag = "Identity",
    request_body = ApplicationFields,
    responses(
        (status = 200, description = "The application with its key, which is not shown again.", body = AddedApplication),
        (status = 400, description = "`invalid-identity`: a field is wrong. `role-not-found`."),
        (status = 403, description = "`more-than-own-permissions`: a role permits what the caller may not do."),
        (status = 409, description = "`application-exists`: the name is taken. `too-many-applications`: there are 1,000."),
    ))]
pub(super) async fn create(api: Api, caller: Caller, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let new = NewKey {
        name: fields.text("name")?.unwrap_or_default(),
        roles: fields.texts("roles")?,
        lifetime: fields.lifetime("expiresIn", "90.00:00:00")?,
    };
    let added = api.engine.identity()?.add_application(&caller.permissions, new).await?;
    Ok(Json(added).into_response())
}

/// Deletes an application: its key is good no more
#[utoipa::path(delete, path = "/identity/applications/{id}", tag = "Identity",
    params(("id" = String, Path, description = "The id of the application.")),
    responses(
        (status = 204, description = "It is deleted; other nodes know one check-in later."),
        (status = 403, description = "`more-than-own-permissions`: the application may do what the caller may not."),
        (status = 404, description = "`application-not-found`: there is no such application."),
    ))]
pub(super) async fn delete(api: Api, caller: Caller, Id(id): Id) -> ApiResult {
    api.engine
        .identity()?
        .delete_application(&caller.permissions, &id)
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
