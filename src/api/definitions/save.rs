//! Saves.

use serde_json::Value;

use super::schema::{DefinitionOrSave, SaveFields, SavedDefinition};
use super::{edited, missing_body, parse, publish_response, with_root};
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::path::Id;
use crate::auth::Permission;
use crate::definition::elsa2;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::DefinitionId;

/// Saves a draft, and publishes it on request.
///
/// If the latest version is published and equal, nothing is written.
#[utoipa::path(post, path = "/workflow-definitions", tag = "Definitions",
    request_body = SaveFields,
    responses(
        (status = 200, description = "The version.", body = SavedDefinition),
        (status = 409, description = "`newer-version-published` or `definition-changing`."),
    ))]
pub(super) async fn save(api: Api, body: RequestBody) -> ApiResult {
    body.value.as_ref().map_or(Ok(()), elsa2::refuse)?;
    let mut fields = Fields::from_body(body.value)?;
    let publish = fields.flag("publish")?.unwrap_or(false);
    may_publish(&api, publish)?;
    let Some(model) = fields.object("model")? else {
        let message = "The body must have a `model`, the workflow definition.";
        return Err(ApiError::bad_request("missing-field", message).field("model", message));
    };
    let (definition, _memory) = parse(&api, Value::Object(model)).await?;
    let saved = api.engine.save(with_root(edited(definition)), publish).await?;
    publish_response(&api, saved).await
}

/// Saves a definition, and publishes it unless `publish` is false.
///
/// The id in the path takes precedence. The next start, on any node, runs the published version.
#[utoipa::path(put, path = "/workflow-definitions/{id}", tag = "Definitions",
    params(("id" = String, Path, description = "The id of the definition.")),
    request_body = DefinitionOrSave,
    responses(
        (status = 200, description = "The version.", body = SavedDefinition),
        (status = 409, description = "`newer-version-published` or `definition-changing`."),
    ))]
pub(super) async fn put(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let body = body.value.ok_or_else(missing_body)?;
    elsa2::refuse(&body)?;
    let (model, publish) = if is_envelope(&body) {
        let mut fields = Fields::from_body(Some(body))?;
        let publish = fields.flag("publish")?;
        (fields.object("model")?.map(Value::Object).unwrap_or_default(), publish)
    } else {
        (body, None)
    };
    may_publish(&api, publish.unwrap_or(true))?;
    let (definition, _memory) = parse(&api, model).await?;
    // Without a root it is refused as soon as it is published: a body that lacks one is a mistake here.
    let mut definition = edited(definition);
    definition.definition_id = DefinitionId::new(id);
    let saved = api.engine.save(definition, publish.unwrap_or(true)).await?;
    publish_response(&api, saved).await
}

/// Refuses a save that publishes to a caller who may only save.
fn may_publish(api: &Api, publish: bool) -> Result<(), ApiError> {
    match publish {
        true => api.require(&[Permission::PublishWorkflowDefinitions]),
        false => Ok(()),
    }
}

/// Whether a body wraps a definition instead of being one: a definition has a root, and no model.
fn is_envelope(body: &Value) -> bool {
    let has = |name: &str| {
        let named = |fields: &serde_json::Map<String, Value>| fields.keys().any(|key| key.eq_ignore_ascii_case(name));
        body.as_object().is_some_and(named)
    };
    has("model") && !has("root")
}
