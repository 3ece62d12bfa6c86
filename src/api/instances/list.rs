//! The list of instances, and the start that shares its route with it.

use axum::Json;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde_json::Value;

use super::filter;
use super::schema::{InstanceListFields, InstanceQuery, ListedOrStarted};
use crate::api::Api;
use crate::api::execute;
use crate::api::fields::Fields;
use crate::api::openapi::{IdempotencyKey, PageQuery};
use crate::api::paging;
use crate::auth::Permission;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::runtime::{InstanceList, InstanceOrder, InstancePage};

/// The orders of Elsa, and names that its columns have elsewhere.
const ORDERS: [(&str, InstanceOrder); 8] = [
    ("Created", InstanceOrder::Created),
    ("UpdatedAt", InstanceOrder::Updated),
    ("Finished", InstanceOrder::Finished),
    ("Name", InstanceOrder::Name),
    ("CreatedAt", InstanceOrder::Created),
    ("Updated", InstanceOrder::Updated),
    ("LastExecuted", InstanceOrder::Updated),
    ("FinishedAt", InstanceOrder::Finished),
];
/// The first of them are Elsa's, in the order of their numbers.
const ELSA_ORDERS: usize = 4;

/// The only keys of a body that starts an instance instead of listing them.
const START_KEYS: [&str; 8] = [
    "definitionId",
    "versionOptions",
    "input",
    "variables",
    "correlationId",
    "name",
    "triggerActivityId",
    "activityHandle",
];

/// Lists instances, newest first by default.
#[utoipa::path(get, path = "/workflow-instances", tag = "Instances",
    params(PageQuery, InstanceQuery),
    responses(
        (status = 200, description = "A page of instances.", body = InstanceList),
    ))]
pub(super) async fn list(api: Api, uri: Uri) -> ApiResult {
    list_response(&api, Fields::from_query(&uri)?).await
}

/// Lists instances, with the criteria in the body, or starts one.
///
/// A body starts an instance if `definitionId` is text and every field is one of `definitionId`, `versionOptions`, `input`,
/// `variables`, `correlationId`, `name`, `triggerActivityId` and `activityHandle`.
#[utoipa::path(post, path = "/workflow-instances", tag = "Instances",
    params(IdempotencyKey),
    request_body = Option<InstanceListFields>,
    responses(
        (status = 200, description = "A page of instances, or the instance that was started.", body = ListedOrStarted),
        (status = 404, description = "`definition-not-found`: of a start: no version of it is published."),
        (status = 409, description = "`cannot-start`: of a start: the activation strategy of the workflow rejects it."),
    ))]
pub(super) async fn list_or_start(api: Api, body: RequestBody) -> ApiResult {
    let start = body.value.as_ref().is_some_and(is_start_body);
    let mut fields = Fields::from_body(body.value)?;
    if start {
        api.require(&[Permission::ExecWorkflowDefinitions])?;
        let definition_id = fields.text("definitionId")?.unwrap_or_default();
        return execute::accept(&api, execute::start_request(definition_id, fields, body.idempotency)?).await;
    }
    api.require(&[Permission::ReadWorkflowInstances])?;
    api.engine.note_nothing();
    list_response(&api, fields).await
}

/// Elsa's clients always send more keys than these when they list.
fn is_start_body(body: &Value) -> bool {
    let Some(fields) = body.as_object() else { return false };
    fields.get("definitionId").is_some_and(Value::is_string)
        && fields.keys().all(|key| START_KEYS.contains(&key.as_str()))
}

async fn list_response(api: &Api, mut fields: Fields) -> ApiResult {
    let page = InstancePage {
        page: paging::page(&mut fields)?,
        ..order(&mut fields)?
    };
    let page = InstancePage {
        cursor: fields.id("cursor")?,
        ..page
    };
    let Some(filter) = filter::take(&mut fields)? else {
        return paging::empty_response();
    };
    Ok(Json(api.engine.list_instances(&filter, &page).await?).into_response())
}

/// The order; without a name the newest come first, whatever the direction: Elsa's clients send one then, too.
fn order(fields: &mut Fields) -> Result<InstancePage, ApiError> {
    let words = ORDERS.map(|(word, _)| word);
    let (members, synonyms) = words.split_at(ELSA_ORDERS);
    let name = fields.member("orderBy", members, synonyms)?;
    let direction = fields.member("orderDirection", &["Ascending", "Descending"], &[])?;
    let order = name.and_then(|name| ORDERS.iter().find(|(word, _)| *word == name));
    let Some((_, order)) = order.copied() else {
        return Ok(InstancePage::default());
    };
    let descending = match direction {
        Some(direction) => direction == "Descending",
        None => order != InstanceOrder::Name,
    };
    Ok(InstancePage {
        order,
        descending,
        ..InstancePage::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_body_with_the_keys_of_a_start_starts() {
        for start in [
            json!({"definitionId": "d"}),
            json!({"definitionId": "d", "activityHandle": {"activityId": "a"}}),
            json!({"definitionId": "d", "correlationId": null, "input": {}, "name": "n", "versionOptions": "Published"}),
        ] {
            assert!(is_start_body(&start), "{start}");
        }
        for list in [
            json!({}),
            json!(null),
            json!({"definitionId": null}),
            json!({"definitionId": ["d"]}),
            json!({"definitionId": "d", "page": 0}),
            json!({"definitionId": "d", "status": null}),
            json!({"input": {}}),
        ] {
            assert!(!is_start_body(&list), "{list}");
        }
    }
}
