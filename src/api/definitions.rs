//! Workflow definitions: save, import, publish, get, list; and the links that Elsa adds to each of them.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::fields::Fields;
use super::path::Id;
use super::{Api, PREFIX, paging, versions};
use crate::compute;
use crate::definition::WorkflowDefinition;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::{DefinitionId, VersionId};
use crate::runtime::{DefinitionFilter, Published, VersionOptions};

/// The orders of a list of definitions.
const ORDERS: [&str; 3] = ["Created", "Name", "Version"];

/// `GET /workflow-definitions`
pub(super) async fn list(State(api): State<Api>, uri: Uri) -> ApiResult {
    let mut fields = Fields::from_query(&uri)?;
    let page = paging::page(&mut fields)?;
    let filter = DefinitionFilter {
        // Without the option, Elsa lists every version of every definition.
        versions: versions::take(&mut fields)?.unwrap_or(VersionOptions::All),
        definition_ids: fields
            .texts("definitionIds")?
            .into_iter()
            .map(DefinitionId::new)
            .collect(),
        search_term: fields
            .text("searchTerm")?
            .map(|term| term.trim().to_owned())
            .filter(|term| !term.is_empty()),
    };
    let materializer = fields.text("materializer")?;
    let labels = fields.texts("label")?;
    paging::check_ignored(&mut fields, &ORDERS)?;
    if !fields.texts("ids")?.is_empty() {
        let message = "Filtering by the ids of versions is not supported; use by-id/{id}.";
        return Err(ApiError::bad_request("not-supported", message).field("ids", message));
    }
    // All definitions are materialized from JSON, and none has a label.
    if materializer.is_some_and(|name| !name.eq_ignore_ascii_case("Json")) || !labels.is_empty() {
        return paging::empty_response();
    }
    let listed = api.engine.definitions(&filter, page).await?;
    let items = listed
        .items
        .iter()
        .map(|item| serde_json::to_value(item).map(list_item));
    let items: Vec<Value> = items.collect::<Result<_, _>>().map_err(|_| ApiError::internal())?;
    paging::response(&items, listed.total_count)
}

/// A definition in a list, with Elsa's properties about its origin.
fn list_item(item: Value) -> Value {
    let mut item = linked(item);
    if let Some(fields) = item.as_object_mut() {
        fields.insert("providerName".to_owned(), Value::Null);
        fields.insert("materializerName".to_owned(), "Json".into());
        fields.insert("isMaterializerAvailable".to_owned(), true.into());
    }
    item
}

/// `GET /workflow-definitions/by-definition-id/{id}` and `GET /workflow-definitions/{id}`
pub(super) async fn by_definition_id(State(api): State<Api>, Id(id): Id, uri: Uri) -> ApiResult {
    let which = versions::take(&mut Fields::from_query(&uri)?)?.unwrap_or(VersionOptions::Latest);
    let definition = api.engine.definition(&DefinitionId::new(id), which).await?;
    definition_response(definition).await
}

/// `GET /workflow-definitions/by-id/{id}`
pub(super) async fn by_version_id(State(api): State<Api>, Id(id): Id) -> ApiResult {
    let definition = api.engine.definition_version(&VersionId::new(id)).await?;
    definition_response(definition).await
}

/// `POST /workflow-definitions`: saves a draft, and publishes it if `publish` is true.
pub(super) async fn save(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let publish = fields.flag("publish")?.unwrap_or(false);
    let Some(model) = fields.object("model")? else {
        let message = "The body must have a `model`, the workflow definition.";
        return Err(ApiError::bad_request("missing-field", message).field("model", message));
    };
    let saved = api.engine.save(parse(Value::Object(model)).await?, publish).await?;
    publish_response(saved).await
}

/// `PUT /workflow-definitions/{id}`: a bare definition, or `{model, publish}`. It is published unless `publish` is false,
/// so that a start right after the update, on any node, runs the new version.
pub(super) async fn put(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    let body = body.value.ok_or_else(missing_body)?;
    let (model, publish) = if is_envelope(&body) {
        let mut fields = Fields::from_body(Some(body))?;
        let publish = fields.flag("publish")?;
        (fields.object("model")?.map(Value::Object).unwrap_or_default(), publish)
    } else {
        (body, None)
    };
    let mut definition = parse(model).await?;
    definition.definition_id = DefinitionId::new(id);
    let saved = api.engine.save(definition, publish.unwrap_or(true)).await?;
    publish_response(saved).await
}

fn missing_body() -> ApiError {
    ApiError::bad_request("missing-body", "The body must be a workflow definition.")
}

/// Whether a body wraps a definition instead of being one: a definition has a root, and no model.
fn is_envelope(body: &Value) -> bool {
    let has = |name: &str| {
        let named = |fields: &serde_json::Map<String, Value>| fields.keys().any(|key| key.eq_ignore_ascii_case(name));
        body.as_object().is_some_and(named)
    };
    has("model") && !has("root")
}

/// `POST|PUT /workflow-definitions/import`: saves a draft, even if the definition has `isPublished`.
pub(super) async fn import_new(State(api): State<Api>, body: RequestBody) -> ApiResult {
    import_as(&api, None, body).await
}

/// `POST|PUT /workflow-definitions/{id}/import`: the id in the path takes precedence over the one in the body.
pub(super) async fn import(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    import_as(&api, Some(DefinitionId::new(id)), body).await
}

async fn import_as(api: &Api, id: Option<DefinitionId>, body: RequestBody) -> ApiResult {
    let mut definition = parse(body.value.ok_or_else(missing_body)?).await?;
    if let Some(id) = id {
        definition.definition_id = id;
    }
    let is_new = definition.definition_id.as_str().trim().is_empty();
    let definition = api.engine.import(definition).await?;
    let location = definition
        .get("definitionId")
        .and_then(Value::as_str)
        .map(|id| HeaderValue::try_from(format!("{PREFIX}/workflow-definitions/by-definition-id/{id}")));
    let mut response = definition_response(definition).await?;
    if is_new {
        *response.status_mut() = StatusCode::CREATED;
        if let Some(Ok(location)) = location {
            response.headers_mut().insert(header::LOCATION, location);
        }
    }
    Ok(response)
}

/// `POST /workflow-definitions/{id}/publish`
pub(super) async fn publish(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    publish_response(api.engine.publish(&DefinitionId::new(id)).await?).await
}

async fn parse(mut model: Value) -> Result<WorkflowDefinition, ApiError> {
    if let Some(fields) = model.as_object_mut() {
        fields.shift_remove(LINKS);
    }
    let definition = compute::run(compute::is_large(&model), move || WorkflowDefinition::from_value(model));
    Ok(definition.await??)
}

/// The response with a definition and its links.
async fn definition_response(definition: Value) -> ApiResult {
    let is_large = compute::is_large(&definition);
    Ok(compute::run(is_large, move || Json(linked(definition)).into_response()).await?)
}

/// Elsa's response to a save and to a publish.
async fn publish_response(published: Published) -> ApiResult {
    let is_large = compute::is_large(&published.definition);
    let response = compute::run(is_large, move || {
        let body = json!({
            "workflowDefinition": linked(published.definition),
            "alreadyPublished": published.already_published,
            // Workflows are not yet usable as activities, so no definition consumes this one.
            "consumingWorkflowCount": 0,
            "validationErrors": [],
        });
        Json(body).into_response()
    });
    Ok(response.await?)
}

/// The property with a definition's links. The server writes it, so a client's value is dropped.
const LINKS: &str = "links";

/// Adds the links of a definition. Elsa's designer takes a definition without a `publish` link as read only. Only routes
/// that exist here are linked.
fn linked(mut definition: Value) -> Value {
    let id = definition
        .get("definitionId")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let readonly = definition.get("isReadonly").and_then(Value::as_bool).unwrap_or(false);
    if let Some(fields) = definition.as_object_mut() {
        fields.insert(LINKS.to_owned(), links(&id, readonly));
    }
    definition
}

fn links(id: &str, readonly: bool) -> Value {
    let link = |path: String, rel: &str, method: &str| json!({"href": path, "rel": rel, "method": method});
    let own = |rest: &str| format!("/workflow-definitions/{id}{rest}");
    let mut links = vec![
        link(own(""), "self", "GET"),
        link(format!("/workflow-definitions/by-definition-id/{id}"), "self", "GET"),
        link(own("/dispatch"), "dispatch", "POST"),
        link(own("/execute"), "execute", "POST"),
    ];
    if !readonly {
        links.push(link(own("/publish"), "publish", "POST"));
        links.push(link(own("/import"), "import", "PUT"));
    }
    links.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_may_be_edited_can_be_published() {
        let links = |readonly: bool| linked(json!({"definitionId": "d", "isReadonly": readonly}))["links"].to_string();
        assert!(links(false).contains("/workflow-definitions/d/publish"));
        assert!(!links(true).contains("publish"));
    }
}
