//! Starting a workflow: execute it and return its state, or accept it durably and return the id of the instance.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Api;
use super::fields::Fields;
use super::path::Id;
use super::versions;
use crate::auth::cross_site;
use crate::http::{ApiError, ApiResult, INSTANCE_HEADER, RequestBody};
use crate::id::{ActivityId, DefinitionId, InstanceId};
use crate::runtime::{Executed, Idempotency, StartRequest};

/// Set if the activation strategy of the workflow rejected the start.
const CANNOT_START: HeaderName = HeaderName::from_static("x-elsa-workflow-cannot-start");
/// The engine's error code for that.
const CANNOT_START_CODE: &str = "cannot-start";
/// Distinguishes a response of the API from one that the workflow itself wrote.
const ELSA_RESPONSE: HeaderName = HeaderName::from_static("x-elsa-response");

/// `POST /workflow-definitions/{id}/execute`
pub(super) async fn execute(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    let fields = Fields::from_body(body.value)?;
    execute_now(&api, start_request(id, fields, body.idempotency)?).await
}

/// `GET /workflow-definitions/{id}/execute`: the same with the fields in the query, `input` and `variables` as JSON.
pub(super) async fn execute_by_get(
    State(api): State<Api>,
    method: Method,
    Id(id): Id,
    uri: Uri,
    headers: HeaderMap,
    body: RequestBody,
) -> ApiResult {
    // A HEAD must not start anything.
    if method == Method::HEAD {
        return Err(head_not_allowed(
            "HEAD is not supported here, because a GET starts a workflow.",
        ));
    }
    if api.is_anonymous {
        cross_site::reject_forgeable_get(&headers)?;
    }
    execute_now(&api, start_request(id, Fields::from_query(&uri)?, body.idempotency)?).await
}

/// The refusal of a HEAD where a GET acts.
pub(super) fn head_not_allowed(message: &str) -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", message).header(header::ALLOW, "GET,POST")
}

/// `POST /workflow-definitions/{id}/dispatch`
pub(super) async fn dispatch(State(api): State<Api>, Id(id): Id, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let instance_id = fields.id("instanceId")?;
    let mut request = start_request(id, fields, body.idempotency)?;
    request.instance_id = instance_id.map(InstanceId::new);
    accept(&api, request).await
}

/// The start request of all endpoints that start an instance.
pub(super) fn start_request(
    definition_id: String,
    mut fields: Fields,
    idempotency: Option<Idempotency>,
) -> Result<StartRequest, ApiError> {
    versions::take_published(&mut fields)?;
    if fields.any("activityHandle").is_some() {
        let message = "Starting at an activity handle is not supported; use triggerActivityId.";
        return Err(ApiError::bad_request("not-supported", message).field("activityHandle", message));
    }
    Ok(StartRequest {
        definition_id: DefinitionId::new(definition_id),
        instance_id: None,
        correlation_id: fields.text("correlationId")?,
        name: fields.text("name")?,
        input: fields.object("input")?.unwrap_or_default(),
        variables: fields.object("variables")?.unwrap_or_default(),
        trigger_activity_id: fields.id("triggerActivityId")?.map(ActivityId::new),
        idempotency,
    })
}

/// Accepts a start durably and returns the id of the instance.
pub(super) async fn accept(api: &Api, request: StartRequest) -> ApiResult {
    let id = api.engine.dispatch(request).await?;
    let mut response = Json(json!({"workflowInstanceId": id.as_str()})).into_response();
    set_instance_header(&mut response, &id);
    Ok(response)
}

async fn execute_now(api: &Api, request: StartRequest) -> ApiResult {
    match api.engine.execute(request).await {
        Ok(executed) => Ok(execution_response(executed)),
        // As in Elsa, this is no error, and nothing was started.
        Err(error) if error.is_conflict() && error.code() == CANNOT_START_CODE => {
            Ok([(CANNOT_START, HeaderValue::from_static("true"))].into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// 200 with the state; 500 with the same body if the instance faulted; 202 if it is still running at the deadline.
pub(super) fn execution_response(executed: Executed) -> Response {
    let status = if executed.pending {
        StatusCode::ACCEPTED
    } else if executed.faulted {
        StatusCode::INTERNAL_SERVER_ERROR
    } else {
        StatusCode::OK
    };
    let mut response = (status, Json(json!({"workflowState": executed.workflow_state()}))).into_response();
    set_instance_header(&mut response, &executed.instance_id);
    response
        .headers_mut()
        .insert(ELSA_RESPONSE, HeaderValue::from_static("true"));
    response
}

fn set_instance_header(response: &mut Response, id: &InstanceId) {
    // An id chosen by a caller may hold characters that no header can; the body has it in any case.
    if let Ok(id) = HeaderValue::try_from(id.as_str()) {
        response.headers_mut().insert(INSTANCE_HEADER, id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::ExecutedState;

    fn of(body: Value) -> Result<StartRequest, (u16, &'static str)> {
        let fields = Fields::from_body(Some(body)).unwrap();
        start_request("d".to_owned(), fields, None).map_err(|error| error.status_and_code())
    }

    #[test]
    fn the_fields_of_a_start_are_typed() {
        let request = of(json!({
            "correlationId": "c", "name": "n", "triggerActivityId": "", "input": {"a": 1}, "variables": {"v": 2},
            "versionOptions": "Published", "activityHandle": null, "unknown": [],
        }));
        let request = request.unwrap();
        assert_eq!(request.correlation_id.as_deref(), Some("c"));
        assert_eq!(request.input["a"], 1);
        assert_eq!(request.variables["v"], 2);
        assert_eq!(request.trigger_activity_id, None);
        assert_eq!(of(json!({"input": [1]})).unwrap_err(), (400, "invalid-field"));
        assert_eq!(of(json!({"correlationId": 1})).unwrap_err(), (400, "invalid-field"));
        assert_eq!(
            of(json!({"activityHandle": {"activityId": "a"}})).unwrap_err(),
            (400, "not-supported")
        );
    }

    #[test]
    fn the_state_of_the_instance_sets_the_status() {
        let status = |faulted, pending| {
            let instance_id = InstanceId::new("i1");
            let response = execution_response(Executed {
                instance_id,
                state: ExecutedState::Shown(json!({})),
                faulted,
                pending,
            });
            assert_eq!(response.headers()[INSTANCE_HEADER], "i1");
            response.status().as_u16()
        };
        assert_eq!(
            [status(false, false), status(true, false), status(false, true)],
            [200, 500, 202]
        );
    }
}
