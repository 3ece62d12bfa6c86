//! Starting a workflow: execute it and return its state, or accept it durably and return the id of the instance.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::definitions::ActivityHandleFields;
use super::fields::Fields;
use super::openapi::{IdempotencyKey, Started};
use super::path::Id;
use super::versions;
use crate::auth::cross_site;
use crate::http::{ApiError, ApiResult, ErrorBody, INSTANCE_HEADER, RequestBody};
use crate::id::{ActivityId, DefinitionId, InstanceId, VersionId};
use crate::runtime::{Executed, Idempotency, StartRequest};

/// Whether the activation strategy of the workflow rejected the start: `True` or `False`, as .NET writes them.
const CANNOT_START: HeaderName = HeaderName::from_static("x-elsa-workflow-cannot-start");
/// The engine's error code for that.
const CANNOT_START_CODE: &str = "cannot-start";
/// Distinguishes a response of the API from one that the workflow itself wrote.
const ELSA_RESPONSE: HeaderName = HeaderName::from_static("x-elsa-response");

/// Elsa's other way to name the activity to begin at.
const HANDLE: &str = "activityHandle";

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(execute_by_get, execute))
        .routes(routes!(dispatch))
}

/// How to start an instance.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(super) struct StartFields {
    /// The correlation id of the instance.
    correlation_id: Option<String>,
    /// The name of the instance.
    name: Option<String>,
    /// The trigger at which it begins; the root if absent.
    trigger_activity_id: Option<String>,
    /// The same trigger by a handle: an `activityId` or an `activityNodeId`; in a query as JSON.
    #[param(value_type = Option<String>)]
    activity_handle: Option<ActivityHandleFields>,
    /// The inputs of the workflow by name; in a query as JSON.
    #[param(value_type = Option<String>)]
    input: Option<Map<String, Value>>,
    /// The values of variables by name; in a query as JSON.
    #[param(value_type = Option<String>)]
    variables: Option<Map<String, Value>>,
    /// Which version: `Latest`, `LatestOrPublished`, `LatestAndPublished`, `Draft`, a number, or `Published` (if absent).
    version_options: Option<String>,
}

/// How to start an instance under an id chosen by the caller.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct DispatchFields {
    #[serde(flatten)]
    start: StartFields,
    /// The id of the instance; the engine chooses one if absent.
    #[schema(min_length = 1, max_length = 255)]
    instance_id: Option<String>,
}

/// The state of an instance that was executed or resumed.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(super) struct Execution {
    workflow_state: WorkflowState,
}

/// The state of an instance, as Elsa shows it.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
pub(super) struct WorkflowState {
    /// The id of the instance.
    id: InstanceId,
    /// Its definition.
    definition_id: DefinitionId,
    /// The version that it runs, by id.
    definition_version_id: VersionId,
    /// The version that it runs, by number.
    definition_version: i32,
    /// The instance whose activity started it.
    parent_workflow_instance_id: Option<String>,
    /// Its correlation id.
    correlation_id: Option<String>,
    /// Its name.
    name: Option<String>,
    /// `Running` or `Finished`.
    status: String,
    /// `Pending`, `Executing`, `Suspended`, `Finished`, `Cancelled` or `Faulted`.
    sub_status: String,
    /// A node holds a claim on work of it. False in the response to an execute or resume whose run has ended.
    is_executing: bool,
    /// Where it waits.
    bookmarks: Vec<Map<String, Value>>,
    /// Failed activity executions.
    incidents: Vec<Map<String, Value>>,
    /// Its version belongs to the system. Absent in the response to an execute or resume whose run has ended.
    is_system: Option<bool>,
    /// Empty.
    completion_callbacks: Vec<Value>,
    /// Unfinished activity executions.
    activity_execution_contexts: Vec<Map<String, Value>>,
    /// Activities that run next.
    scheduled_activities: Vec<Map<String, Value>>,
    /// The number of journal entries.
    execution_log_sequence: i64,
    /// Its inputs by name.
    input: Map<String, Value>,
    /// Its outputs by name.
    output: Map<String, Value>,
    /// `Variables`: their values by name; `Outcomes`: those of a workflow that declares any.
    properties: Map<String, Value>,
    /// When it was first committed.
    created_at: DateTime<Utc>,
    /// When it was last committed.
    updated_at: DateTime<Utc>,
    /// When it finished.
    finished_at: Option<DateTime<Utc>>,
}

/// Starts an instance and waits until it waits or ends.
#[utoipa::path(post, path = "/workflow-definitions/{id}/execute", tag = "Starting",
    params(("id" = String, Path, description = "The id of the definition."), IdempotencyKey),
    request_body = Option<StartFields>,
    responses(
        (status = 200, description = "The instance waits or has ended. Without a body and with the header \
            `x-elsa-workflow-cannot-start: True`, the activation strategy of the workflow rejected the start.",
            body = Option<Execution>, headers(
            ("x-elsa-workflow-instance-id" = Option<String>, description = "The instance."),
            ("x-elsa-workflow-cannot-start" = Option<String>, description = "`True`: nothing was started."),
            ("x-elsa-response" = Option<String>, description = "`true`: no workflow wrote this response."))),
        (status = 202, description = "The instance is still running at the answer timeout.", body = Execution),
        (status = 404, description = "`definition-not-found`: no version of it is published."),
        (status = 500, description = "The instance has faulted, or the server has failed.",
            content((Execution = "application/json"), (ErrorBody = "application/problem+json"))),
    ))]
pub(super) async fn execute(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
    let fields = Fields::from_body(body.value)?;
    execute_now(&api, start_request(id, fields, body.idempotency)?).await
}

/// Starts an instance and waits until it waits or ends, with the fields in the query.
///
/// Without an API key the request needs a header that no foreign page can send, such as `X-Requested-With`.
#[utoipa::path(get, path = "/workflow-definitions/{id}/execute", tag = "Starting",
    params(("id" = String, Path, description = "The id of the definition."), StartFields, IdempotencyKey,
        ("X-Requested-With" = Option<String>, Header, description = "Any value.")),
    responses(
        (status = 200, description = "As for POST.", body = Option<Execution>),
        (status = 202, description = "The instance is still running at the answer timeout.", body = Execution),
        (status = 404, description = "`definition-not-found`: no version of it is published."),
        (status = 500, description = "The instance has faulted, or the server has failed.",
            content((Execution = "application/json"), (ErrorBody = "application/problem+json"))),
    ))]
pub(super) async fn execute_by_get(
    api: Api,
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
    if api.is_anonymous() {
        cross_site::reject_forgeable(&headers)?;
    }
    let fields = Fields::from_query(&uri)?;
    let _memory = fields.reserve(&api.body_limits)?;
    execute_now(&api, start_request(id, fields, body.idempotency)?).await
}

/// The refusal of a HEAD where a GET acts.
fn head_not_allowed(message: &str) -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", message).header(header::ALLOW, "GET,POST")
}

/// Accepts the start of an instance durably, and does not wait for it.
#[utoipa::path(post, path = "/workflow-definitions/{id}/dispatch", tag = "Starting",
    params(("id" = String, Path, description = "The id of the definition."), IdempotencyKey),
    request_body = Option<DispatchFields>,
    responses(
        (status = 200, description = "The start is accepted.", body = Started,
            headers(("x-elsa-workflow-instance-id" = Option<String>, description = "The instance."))),
        (status = 404, description = "`definition-not-found`: no version of it is published."),
        (status = 409, description = "`instance-id-taken`: an instance has this id. `cannot-start`: the activation strategy \
            of the workflow rejects the start."),
    ))]
pub(super) async fn dispatch(api: Api, Id(id): Id, body: RequestBody) -> ApiResult {
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
    let (trigger_activity_id, trigger_node_id) = trigger(&mut fields)?;
    Ok(StartRequest {
        definition_id: DefinitionId::new(definition_id),
        version: versions::take(&mut fields)?,
        instance_id: None,
        correlation_id: fields.text("correlationId")?,
        name: fields.text("name")?,
        input: fields.object("input")?.unwrap_or_default(),
        variables: fields.object("variables")?.unwrap_or_default(),
        trigger_activity_id,
        trigger_node_id,
        idempotency,
    })
}

/// The activity to begin at, by its id or one of Elsa's handles, or its node id if the client names that.
fn trigger(fields: &mut Fields) -> Result<(Option<ActivityId>, Option<String>), ApiError> {
    let named = fields.id("triggerActivityId")?;
    let handle = fields.object(HANDLE)?.map(Value::Object);
    let mut handle = Fields::from_body(handle)?;
    let (id, node_id) = (handle.id("activityId")?, handle.id("activityNodeId")?);
    for (other, why) in [
        ("activityInstanceId", "a new instance has no execution of an activity"),
        ("activityHash", "name the activity by its id or its node id"),
    ] {
        if handle.id(other)?.is_some() && (id.is_none() && node_id.is_none() || other == "activityInstanceId") {
            let message = format!("A start cannot begin at the {other} of an activityHandle: {why}.");
            return Err(ApiError::bad_request("not-supported", message.clone()).field(HANDLE, message));
        }
    }
    // As in Elsa, the id goes before the node id.
    let node_id = node_id.filter(|_| id.is_none());
    if let (Some(named), Some(id)) = (&named, &id)
        && named != id
    {
        let message = "activityHandle names another activity than triggerActivityId.";
        return Err(ApiError::invalid_field(HANDLE, message));
    }
    Ok((id.or(named).map(ActivityId::new), node_id))
}

/// Accepts a start durably and returns the id of the instance.
pub(super) async fn accept(api: &Api, request: StartRequest) -> ApiResult {
    let id = api.engine.dispatch(request).await?;
    let mut response = Json(Started {
        workflow_instance_id: id.clone(),
    })
    .into_response();
    set_instance_header(&mut response, &id);
    Ok(response)
}

async fn execute_now(api: &Api, request: StartRequest) -> ApiResult {
    match api.engine.execute(request).await {
        Ok(executed) => {
            let mut response = execution_response(executed);
            response
                .headers_mut()
                .insert(CANNOT_START, HeaderValue::from_static("False"));
            Ok(response)
        }
        // As in Elsa, this is no error, and nothing was started.
        Err(error) if error.is_conflict() && error.code() == CANNOT_START_CODE => {
            Ok([(CANNOT_START, HeaderValue::from_static("True"))].into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// 200; 500 if the instance faulted; 202 if it is still running at the deadline.
pub(super) fn status_of(executed: &Executed) -> StatusCode {
    if executed.pending {
        StatusCode::ACCEPTED
    } else if executed.faulted {
        StatusCode::INTERNAL_SERVER_ERROR
    } else {
        StatusCode::OK
    }
}

/// The state, with the status of the outcome.
pub(super) fn execution_response(executed: Executed) -> Response {
    let status = status_of(&executed);
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
    }

    #[test]
    fn a_start_begins_at_the_activity_of_a_handle() {
        let begins = |body: Value| {
            of(body).map(|request| {
                (
                    request.trigger_activity_id.map(|id| id.as_str().to_owned()),
                    request.trigger_node_id,
                )
            })
        };
        let at = |id: &str| Some(id.to_owned());
        assert_eq!(
            begins(json!({"activityHandle": {"activityId": "a"}})),
            Ok((at("a"), None))
        );
        assert_eq!(
            begins(json!({"activityHandle": {"activityNodeId": "Workflow1:f:a"}, "triggerActivityId": "a"})),
            Ok((at("a"), at("Workflow1:f:a")))
        );
        // Only the workflow knows where the id begins.
        assert_eq!(
            begins(json!({"activityHandle": {"activityNodeId": "Workflow1:f:x:a"}})),
            Ok((None, at("Workflow1:f:x:a")))
        );
        assert_eq!(begins(json!({"activityHandle": {}})), Ok((None, None)));
        for (handle, code) in [
            (json!({"activityInstanceId": "i-1", "activityId": "a"}), "not-supported"),
            (json!({"activityHash": "00"}), "not-supported"),
            (json!({"activityId": 1}), "invalid-field"),
            (json!("a"), "invalid-field"),
        ] {
            assert_eq!(
                begins(json!({ "activityHandle": handle })),
                Err((400, code)),
                "{handle}"
            );
        }
        let other = json!({"activityHandle": {"activityId": "a"}, "triggerActivityId": "b"});
        assert_eq!(begins(other), Err((400, "invalid-field")));
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
