//! Workflow definitions: save, import, publish, get, list.

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

/// What definitions can be ordered by.
const ORDERS: [&str; 3] = ["Created", "Name", "Version"];
pub(super) const DIRECTIONS: [&str; 2] = ["Ascending", "Descending"];

/// `GET /workflow-definitions`
pub(super) async fn list(State(api): State<Api>, uri: Uri) -> ApiResult {
    let mut fields = Fields::of_query(&uri)?;
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
    fields.word("orderBy", &ORDERS)?;
    fields.word("orderDirection", &DIRECTIONS)?;
    fields.flag("isSystem")?;
    if !fields.texts("ids")?.is_empty() {
        let message = "Filtering by ids of versions is not possible here; use by-id/{id}.";
        return Err(ApiError::bad_request("not-supported", message).field("ids", message));
    }
    // All of ours are materialized from JSON, and none has a label.
    if materializer.is_some_and(|name| !name.eq_ignore_ascii_case("Json")) || !labels.is_empty() {
        return Ok(Json(json!({"items": [], "totalCount": 0})).into_response());
    }
    let listed = api.engine.definitions(&filter, page).await?;
    let items = listed.items.iter().map(|item| serde_json::to_value(item).map(summary));
    let items: Vec<Value> = items.collect::<Result<_, _>>().map_err(|_| ApiError::internal())?;
    Ok(Json(json!({"items": items, "totalCount": listed.total_count})).into_response())
}

/// A definition in a list, with what Elsa says of where it comes from.
fn summary(item: Value) -> Value {
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
    let which = versions::take(&mut Fields::of_query(&uri)?)?.unwrap_or(VersionOptions::Latest);
    let definition = api.engine.definition(&DefinitionId::new(id), which).await?;
    shown(definition).await
}

/// `GET /workflow-definitions/by-id/{id}`
pub(super) async fn by_version_id(State(api): State<Api>, Id(id): Id) -> ApiResult {
    let definition = api.engine.definition_version(&VersionId::new(id)).await?;
    shown(definition).await
}

/// `POST /workflow-definitions`: saves a draft, and publishes it if asked to.
pub(super) async fn save(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let mut fields = Fields::of_body(body.value)?;
    let publish = fields.flag("publish")?.unwrap_or(false);
    let Some(model) = fields.object("model")? else {
        let message = "The body must have a `model`, the workflow definition.";
        return Err(ApiError::bad_request("missing-field", message).field("model", message));
    };
    let saved = api.engine.save(read(Value::Object(model)).await?, publish).await?;
    published(saved).await
}

/// `PUT /workflow-definitions/{id}`: a bare definition, or `{model, publish}`. It is published unless told otherwise:
/// whoever updates a workflow and starts it in the next moment, on any node, means the one that was just sent.
pub(super) async fn put(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    let Some(body) = body.value else {
        return Err(ApiError::bad_request(
            "missing-body",
            "The body must be a workflow definition.",
        ));
    };
    let (model, publish) = if is_envelope(&body) {
        let mut fields = Fields::of_body(Some(body))?;
        let publish = fields.flag("publish")?;
        (fields.object("model")?.map(Value::Object).unwrap_or_default(), publish)
    } else {
        (body, None)
    };
    let mut definition = read(model).await?;
    definition.definition_id = DefinitionId::new(id);
    let saved = api.engine.save(definition, publish.unwrap_or(true)).await?;
    published(saved).await
}

/// Whether a body holds a definition instead of being one: a definition has a root, and no model.
fn is_envelope(body: &Value) -> bool {
    let has = |name: &str| {
        let named = |fields: &serde_json::Map<String, Value>| fields.keys().any(|key| key.eq_ignore_ascii_case(name));
        body.as_object().is_some_and(named)
    };
    has("model") && !has("root")
}

/// `POST|PUT /workflow-definitions/import`: saves a draft, whatever the definition says of itself.
pub(super) async fn import_new(State(api): State<Api>, body: RequestBody) -> ApiResult {
    take_in(&api, None, body).await
}

/// `POST|PUT /workflow-definitions/{id}/import`: the id in the path wins over the one in the body.
pub(super) async fn import(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    take_in(&api, Some(DefinitionId::new(id)), body).await
}

async fn take_in(api: &Api, id: Option<DefinitionId>, body: RequestBody) -> ApiResult {
    let Some(model) = body.value else {
        return Err(ApiError::bad_request(
            "missing-body",
            "The body must be a workflow definition.",
        ));
    };
    let mut definition = read(model).await?;
    if let Some(id) = id {
        definition.definition_id = id;
    }
    let new = definition.definition_id.as_str().trim().is_empty();
    let definition = api.engine.import(definition).await?;
    let place = definition
        .get("definitionId")
        .and_then(Value::as_str)
        .map(|id| HeaderValue::try_from(format!("{PREFIX}/workflow-definitions/by-definition-id/{id}")));
    let mut response = shown(definition).await?;
    if new {
        *response.status_mut() = StatusCode::CREATED;
        if let Some(Ok(place)) = place {
            response.headers_mut().insert(header::LOCATION, place);
        }
    }
    Ok(response)
}

/// `POST /workflow-definitions/{id}/publish`
pub(super) async fn publish(State(api): State<Api>, Id(id): Id, _body: RequestBody) -> ApiResult {
    published(api.engine.publish(&DefinitionId::new(id)).await?).await
}

async fn read(mut model: Value) -> Result<WorkflowDefinition, ApiError> {
    if let Some(fields) = model.as_object_mut() {
        fields.shift_remove(LINKS);
    }
    let reading = compute::run(compute::is_large(&model), move || WorkflowDefinition::from_value(model));
    Ok(reading.await??)
}

/// A definition with its links.
async fn shown(definition: Value) -> ApiResult {
    let is_large = compute::is_large(&definition);
    Ok(compute::run(is_large, move || Json(linked(definition)).into_response()).await?)
}

/// What Elsa answers to a save and to a publish.
async fn published(published: Published) -> ApiResult {
    let is_large = compute::is_large(&published.definition);
    let answering = compute::run(is_large, move || {
        let body = json!({
            "workflowDefinition": linked(published.definition),
            "alreadyPublished": published.already_published,
            // Workflows that use this one as an activity follow it when that is built.
            "consumingWorkflowCount": 0,
            "validationErrors": [],
        });
        Json(body).into_response()
    });
    Ok(answering.await?)
}

/// The property that holds them; it is ours to write, so what a client sends under it is dropped.
const LINKS: &str = "links";

/// The definition with its links.
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
