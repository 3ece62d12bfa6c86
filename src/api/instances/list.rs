//! The list of instances, and the start that shares its route with it.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use serde_json::Value;

use super::schema::{InstanceList, InstanceListFields, InstanceQuery, ListedOrStarted};
use crate::api::Api;
use crate::api::execute;
use crate::api::fields::Fields;
use crate::api::openapi::{IdempotencyKey, PageQuery};
use crate::api::paging;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::id::DefinitionId;
use crate::runtime::InstanceFilter;

const STATUSES: [&str; 2] = ["Running", "Finished"];
const SUB_STATUSES: [&str; 6] = ["Pending", "Executing", "Suspended", "Finished", "Cancelled", "Faulted"];
const ORDERS: [&str; 5] = ["Created", "UpdatedAt", "LastExecuted", "Finished", "Name"];

/// The only keys of a body that starts an instance instead of listing them.
const START_KEYS: [&str; 7] = [
    "definitionId",
    "versionOptions",
    "input",
    "variables",
    "correlationId",
    "name",
    "triggerActivityId",
];

/// Lists instances, the newest first unless another order is given.
#[utoipa::path(get, path = "/workflow-instances", tag = "Instances",
    params(PageQuery, InstanceQuery),
    responses(
        (status = 200, description = "A page of instances.", body = InstanceList),
    ))]
pub(super) async fn list(State(api): State<Api>, uri: Uri) -> ApiResult {
    list_response(&api, Fields::from_query(&uri)?).await
}

/// Lists instances, with the criteria in the body, or starts one.
///
/// A body starts an instance if `definitionId` is text and every field is one of `definitionId`, `versionOptions`, `input`,
/// `variables`, `correlationId`, `name` and `triggerActivityId`.
#[utoipa::path(post, path = "/workflow-instances", tag = "Instances",
    params(IdempotencyKey),
    request_body = Option<InstanceListFields>,
    responses(
        (status = 200, description = "A page of instances, or the instance that was started.", body = ListedOrStarted),
        (status = 404, description = "`definition-not-found`: of a start: no version of it is published."),
        (status = 409, description = "`cannot-start`: of a start: the activation strategy of the workflow rejects it."),
    ))]
pub(super) async fn list_or_start(State(api): State<Api>, body: RequestBody) -> ApiResult {
    let start = body.value.as_ref().is_some_and(is_start_body);
    let mut fields = Fields::from_body(body.value)?;
    if start {
        let definition_id = fields.text("definitionId")?.unwrap_or_default();
        return execute::accept(&api, execute::start_request(definition_id, fields, body.idempotency)?).await;
    }
    list_response(&api, fields).await
}

/// Elsa's clients always send more keys than these when they list.
fn is_start_body(body: &Value) -> bool {
    let Some(fields) = body.as_object() else { return false };
    fields.get("definitionId").is_some_and(Value::is_string)
        && fields.keys().all(|key| START_KEYS.contains(&key.as_str()))
}

async fn list_response(api: &Api, mut fields: Fields) -> ApiResult {
    let page = paging::page(&mut fields)?;
    let Some(filter) = filter(&mut fields)? else {
        return paging::empty_response();
    };
    Ok(Json(api.engine.instances(&filter, page).await?).into_response())
}

/// The filter; `None` if no instance can meet it.
fn filter(fields: &mut Fields) -> Result<Option<InstanceFilter>, ApiError> {
    paging::check_ignored(fields, &ORDERS)?;
    match fields.any("timestampFilters") {
        None => {}
        Some(Value::Array(filters)) if filters.is_empty() => {}
        Some(_) => {
            let message = "Filtering by timestamps is not supported.";
            return Err(ApiError::bad_request("not-supported", message).field("timestampFilters", message));
        }
    }
    let status = fields.keyword("status", &STATUSES)?.map(str::to_owned);
    let sub_status = fields.keyword("subStatus", &SUB_STATUSES)?.map(str::to_owned);
    let lists = (
        intersect(fields.text("definitionId")?, fields.texts("definitionIds")?),
        intersect(status, fields.keywords("statuses", &STATUSES)?),
        intersect(sub_status, fields.keywords("subStatuses", &SUB_STATUSES)?),
    );
    let version = fields.number("version", 0)?.map(i32::try_from).transpose();
    let filter = InstanceFilter {
        definition_ids: Vec::new(),
        correlation_id: fields.text("correlationId")?,
        name: fields.text("name")?,
        version: version.map_err(|_| ApiError::internal())?,
        has_incidents: fields.flag("hasIncidents")?,
        statuses: Vec::new(),
        sub_statuses: Vec::new(),
        search_term: fields.text("searchTerm")?.filter(|term| !term.trim().is_empty()),
    };
    let (Some(definitions), Some(statuses), Some(sub_statuses)) = lists else {
        return Ok(None);
    };
    let definition_ids = definitions.into_iter().map(DefinitionId::new).collect();
    Ok(Some(InstanceFilter {
        definition_ids,
        statuses,
        sub_statuses,
        ..filter
    }))
}

/// Combines Elsa's two filters on one property, a single value and a list, which must both hold; `None` if they exclude
/// each other. An empty list means any value.
fn intersect(one: Option<String>, many: Vec<String>) -> Option<Vec<String>> {
    match one {
        None => Some(many),
        Some(one) if many.is_empty() || many.contains(&one) => Some(vec![one]),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_body_with_the_keys_of_a_start_starts() {
        for start in [
            json!({"definitionId": "d"}),
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

    #[test]
    fn a_single_value_and_a_list_must_both_hold() {
        let read = |body: Value| filter(&mut Fields::from_body(Some(body)).unwrap());
        let ids = |body| read(body).unwrap().map(|filter| filter.definition_ids.len());
        assert_eq!(ids(json!({"definitionIds": ["a", "b"]})), Some(2));
        assert_eq!(ids(json!({"definitionId": "a", "definitionIds": ["a", "b"]})), Some(1));
        assert_eq!(ids(json!({"definitionId": "c", "definitionIds": ["a", "b"]})), None);
        let filter = read(json!({"status": "running", "subStatuses": ["SUSPENDED"], "version": 2}))
            .unwrap()
            .unwrap();
        assert_eq!(
            (filter.statuses, filter.sub_statuses),
            (vec!["Running".to_owned()], vec!["Suspended".to_owned()])
        );
        assert_eq!(filter.version, Some(2));
        assert_eq!(
            read(json!({"status": "Idle"})).unwrap_err().status_and_code(),
            (400, "invalid-field")
        );
        assert_eq!(
            read(json!({"timestampFilters": [{}]})).unwrap_err().status_and_code(),
            (400, "not-supported")
        );
    }
}
