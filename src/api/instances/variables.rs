//! The execution state of an instance, and the variables of its workflow.

use axum::Json;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::Counted;
use crate::api::path::Id;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::InstanceId;
use crate::runtime::{InstanceExecutionState, InstanceVariable};

/// Values of variables.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
pub(super) struct VariableFields {
    /// The variables to set; the others do not change.
    variables: Vec<VariableValue>,
}

/// The value of a variable.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct VariableValue {
    /// The id of the variable in the definition.
    id: String,
    /// Its new value.
    value: Value,
}

/// Gets whether an instance still runs.
#[utoipa::path(get, path = "/workflow-instances/{id}/execution-state", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance.")),
    responses(
        (status = 200, description = "Its status.", body = InstanceExecutionState),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn execution_state(api: Api, Id(id): Id) -> ApiResult {
    let state = api.engine.instance_execution_state(&InstanceId::new(id)).await?;
    Ok(Json(state).into_response())
}

/// Lists the variables of an instance that its definition declares for the workflow.
#[utoipa::path(get, path = "/workflow-instances/{id}/variables", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance.")),
    responses(
        (status = 200, description = "The variables with their values.", body = Counted<InstanceVariable>),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
    ))]
pub(super) async fn list(api: Api, Id(id): Id) -> ApiResult {
    Ok(counted(&api.engine.instance_variables(&InstanceId::new(id)).await?))
}

/// Sets variables of a waiting instance.
#[utoipa::path(post, path = "/workflow-instances/{id}/variables", tag = "Instances",
    params(("id" = String, Path, description = "The id of the instance.")),
    request_body = VariableFields,
    responses(
        (status = 200, description = "They are set; the response has all variables.", body = Counted<InstanceVariable>),
        (status = 400, description = "`unknown-variable`: the definition declares no such variable; nothing is set."),
        (status = 404, description = "`instance-not-found`: the instance does not exist."),
        (status = 409, description = "`instance-busy`, `instance-finished`: nothing is set."),
    ))]
pub(super) async fn set(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let values = match fields.any("variables") {
        Some(Value::Array(items)) => items.into_iter().map(value).collect::<Result<_, _>>()?,
        _ => return Err(invalid("variables must be a list of objects with id and value.")),
    };
    Ok(counted(
        &api.engine.set_instance_variables(&InstanceId::new(id), values).await?,
    ))
}

fn value(item: Value) -> Result<(String, Value), ApiError> {
    let mut fields = Fields::from_body(Some(item)).map_err(|_| invalid("Each of variables is an object."))?;
    let id = fields
        .id("id")?
        .ok_or_else(|| invalid("Each of variables has an id."))?;
    Ok((id, fields.any("value").unwrap_or_default()))
}

fn invalid(message: &str) -> ApiError {
    ApiError::invalid_field("variables", message)
}

fn counted(variables: &[InstanceVariable]) -> axum::response::Response {
    Json(json!({"items": variables, "count": variables.len()})).into_response()
}
