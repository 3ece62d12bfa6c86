//! Single expressions, evaluated for a designer or a test; nothing is stored.

use axum::Json;
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::fields::Fields;
use crate::expression::{ScriptScope, WorkflowFacts, is_runnable, runnable_types};
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::runtime::{EvaluatedExpression, ExpressionRequest};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(evaluate))
}

/// An expression, and the data that it reads.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct EvaluationFields {
    /// As in a definition.
    expression: ExpressionFields,
    /// The type that the value is converted to; `Object` if absent.
    type_name: Option<String>,
    /// The variables by name.
    variables: Option<Map<String, Value>>,
    /// The inputs of the workflow by name.
    inputs: Option<Map<String, Value>>,
    /// The outputs of activities: for each activity an object of values by output.
    outputs: Option<Map<String, Value>>,
    /// The result of the activity that completed last.
    last_result: Option<Value>,
    /// The correlation id.
    correlation_id: Option<String>,
    /// The id of the instance; random if absent.
    workflow_instance_id: Option<String>,
    /// The name of the instance.
    workflow_instance_name: Option<String>,
}

/// An expression of a definition.
#[derive(ToSchema)]
#[allow(dead_code, reason = "a schema")]
struct ExpressionFields {
    /// `JavaScript`, `Liquid`, `CSharp`, `Literal`, `Object`, `Variable`, `Input`, `Output`, `Configuration` or `Secret`.
    r#type: String,
    /// The text, the value, or the reference.
    value: Value,
}

/// Evaluates an expression within the limits of a burst.
///
/// A failure of the expression is in the response. What it sets is returned, but not applied. It reads no secrets: asking
/// for one is the error `secrets-not-available`.
#[utoipa::path(post, path = "/expressions/evaluate", tag = "For designers",
    request_body = EvaluationFields,
    responses((status = 200, description = "The result.", body = EvaluatedExpression)))]
async fn evaluate(api: Api, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let Some(expression) = fields.object("expression")? else {
        let message = "expression must have a type and a value.";
        return Err(ApiError::bad_request("missing-field", message).field("expression", message));
    };
    let mut expression = Fields::from_body(Some(Value::Object(expression)))?;
    let kind = expression.text("type")?.unwrap_or_else(|| "Literal".to_owned());
    if !is_runnable(&kind) {
        let message = format!("expression.type must be one of {}.", runnable_types());
        return Err(ApiError::invalid_field("expression.type", message));
    }
    let outputs = fields.object("outputs")?.unwrap_or_default();
    if let Some((name, _)) = outputs.iter().find(|(_, values)| !values.is_object()) {
        let message = format!("outputs.{name} must be an object of values by output.");
        return Err(ApiError::invalid_field("outputs", message));
    }
    let request = ExpressionRequest {
        kind,
        value: expression.any("value").unwrap_or_default(),
        type_name: fields.text("typeName")?,
        scope: ScriptScope {
            variables: fields.object("variables")?.unwrap_or_default(),
            inputs: fields.object("inputs")?.unwrap_or_default(),
            outputs,
            last_result: fields.any("lastResult"),
            hides_secrets: false,
            workflow: WorkflowFacts {
                instance_id: fields.id("workflowInstanceId")?.unwrap_or_default(),
                correlation_id: fields.id("correlationId")?,
                name: fields.id("workflowInstanceName")?,
                ..WorkflowFacts::default()
            },
            ..ScriptScope::default()
        },
    };
    Ok(Json(api.engine.evaluate_expression(request).await?).into_response())
}
