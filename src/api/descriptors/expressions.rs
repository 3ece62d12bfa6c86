//! Expression types, and what scripts can name.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{json_response, list_of};
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::Counted;
use crate::api::path::Id;
use crate::expression::expression_types;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::DefinitionId;

/// What a script editor edits. All of it is optional, and every input of a workflow sees the same names.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct TypeDefinitionFields {
    workflow_definition_id: Option<String>,
    activity_type_name: Option<String>,
    property_name: Option<String>,
}

static LIST: LazyLock<Bytes> = LazyLock::new(|| {
    let types = expression_types().map(|known| {
        let editor = known
            .editor
            .map(|editor| ("MonacoLanguage".to_owned(), Value::from(editor)));
        json!({
            "type": known.name,
            "displayName": known.display_name,
            "isSerializable": true,
            "isBrowsable": known.is_offered,
            "properties": Map::from_iter(editor),
        })
    });
    list_of(&types.collect::<Vec<_>>())
});

/// Lists the types of expressions that can be evaluated.
#[utoipa::path(get, path = "/descriptors/expression-descriptors", tag = "For designers",
    responses((status = 200, description = "All types.", body = Counted<Value>)))]
pub(super) async fn list() -> Response {
    json_response(&LIST)
}

/// Declares what the scripts of a workflow can name, for a script editor.
#[utoipa::path(post, path = "/scripting/javascript/type-definitions/{id}", tag = "For designers",
    params(("id" = String, Path, description = "The id of the definition.")),
    request_body = Option<TypeDefinitionFields>,
    responses(
        (status = 200, description = "Declarations in TypeScript.", body = String, content_type = "application/x-typescript"),
        (status = 400, description = "`invalid-field`: no definition has this id."),
    ))]
pub(super) async fn type_definitions(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    // Every input of a workflow sees the same names, and the path has the workflow.
    for name in ["workflowDefinitionId", "activityTypeName", "propertyName"] {
        fields.text(name)?;
    }
    let declarations = match api.engine.script_declarations(&DefinitionId::new(id)).await {
        Err(error) if error.is_not_found() => {
            let message = "No workflow definition has the id in the path.";
            return Err(ApiError::invalid_field("workflowDefinitionId", message));
        }
        declarations => declarations?,
    };
    let kind = [(header::CONTENT_TYPE, "application/x-typescript; charset=utf-8")];
    Ok((kind, declarations).into_response())
}
