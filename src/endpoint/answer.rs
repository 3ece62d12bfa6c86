//! What a client receives: the answer of its workflow, or what happened instead.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::activity::http::{RequestProblem, RouteOptions};
use crate::activity::{Answer, AnswerBody};
use crate::http::{ApiError, INSTANCE_HEADER};
use crate::id::InstanceId;
use crate::runtime::{Engine, HttpEnd, HttpOutcome, RouteCandidate};
use crate::spool::SpoolFile;
use crate::store::pause::PauseMode;
use crate::{Error, Result};

/// What is read of a file at once, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// When to try again, in seconds, as in Elsa: a pause lasts, a drain is about to end.
const RETRY_PAUSED: u16 = 60;
const RETRY_DRAINING: u16 = 5;

/// Headers that are about the connection, which the server itself writes.
const OF_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::UPGRADE,
    header::TE,
    HeaderName::from_static("keep-alive"),
];

/// The response for the end of a request. `has_timeout`: the endpoint limits the time of its requests.
pub(super) async fn of_outcome(outcome: HttpOutcome, has_timeout: bool) -> Response {
    let id = outcome.instance_id;
    let response = match outcome.end {
        HttpEnd::Answered(answer) => return of_answer(answer).await,
        HttpEnd::Finished => StatusCode::OK.into_response(),
        HttpEnd::Faulted => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "workflow-faulted",
            "The workflow has faulted.",
            &id,
        ),
        HttpEnd::Pending if has_timeout => problem(
            StatusCode::REQUEST_TIMEOUT,
            "request-timeout",
            "The time of this request has passed; the workflow goes on.",
            &id,
        ),
        HttpEnd::Waiting | HttpEnd::Pending => {
            (StatusCode::ACCEPTED, Json(json!({"workflowInstanceId": id}))).into_response()
        }
        HttpEnd::NotKept => problem(
            StatusCode::CONFLICT,
            "answer-not-kept",
            "The workflow has run, and its response was not kept: it was a file, or larger than 1 MiB, and is sent only to a \
             client of the node that has run it, once.",
            &id,
        ),
    };
    with_instance(response, &id)
}

fn problem(status: StatusCode, code: &'static str, message: &str, id: &InstanceId) -> Response {
    ApiError::new(status, code, message)
        .of_instance(id.as_str())
        .into_response()
}

fn with_instance(mut response: Response, id: &InstanceId) -> Response {
    // An id chosen by a caller may hold characters that no header can.
    if let Ok(id) = HeaderValue::try_from(id.as_str()) {
        response.headers_mut().insert(INSTANCE_HEADER, id);
    }
    response
}

async fn of_answer(answer: Arc<Answer>) -> Response {
    let answer = Arc::try_unwrap(answer).unwrap_or_else(|shared| (*shared).clone());
    let status = StatusCode::from_u16(answer.status)
        .ok()
        .filter(|status| !status.is_informational());
    let Some(status) = status else {
        tracing::error!(
            status = answer.status,
            "a workflow has answered with a status that is none"
        );
        return ApiError::internal().into_response();
    };
    let has_body = ![
        StatusCode::NO_CONTENT,
        StatusCode::RESET_CONTENT,
        StatusCode::NOT_MODIFIED,
    ]
    .contains(&status);
    let mut length = None;
    let body = match answer.body {
        _ if !has_body => Body::empty(),
        AnswerBody::Bytes(bytes) => Body::from(bytes),
        AnswerBody::File(file) => {
            length = Some(file.length());
            match of_file(file).await {
                Ok(body) => body,
                Err(error) => return ApiError::from(error).into_response(),
            }
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in answer.headers {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(&name), HeaderValue::try_from(&value)) else {
            tracing::warn!(name, "a header of a workflow's answer cannot be sent");
            continue;
        };
        if !OF_CONNECTION.contains(&name) {
            headers.append(name, value);
        }
    }
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

/// A file as it is read. The file is held until its client has it.
async fn of_file(file: SpoolFile) -> Result<Body> {
    let opened = file
        .open()
        .await
        .map_err(|error| Error::internal("a file of an answer cannot be read").caused_by(error))?;
    let parts = stream::try_unfold((opened, file), |(mut opened, file)| async move {
        let mut part = Vec::with_capacity(READ_BYTES);
        let read = (&mut opened)
            .take(u64::try_from(READ_BYTES).unwrap_or(u64::MAX))
            .read_to_end(&mut part)
            .await?;
        let part = (read > 0).then(|| (Bytes::from(part), (opened, file)));
        Ok::<_, std::io::Error>(part)
    });
    Ok(Body::from_stream(parts))
}

/// The response where an endpoint does not accept a request.
pub(super) fn of_problem(problem: RequestProblem, options: &RouteOptions) -> ApiError {
    let code = match problem {
        RequestProblem::RequestTooLarge => "request-too-large",
        RequestProblem::FileTooLarge => "file-too-large",
        RequestProblem::InvalidFileExtension => "invalid-file-extension",
        RequestProblem::InvalidFileMimeType => "invalid-file-mime-type",
    };
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::PAYLOAD_TOO_LARGE);
    ApiError::new(status, code, options.message_of(problem))
}

/// The response to a request that is for any of several workflows, as Elsa has it; the status is that of a conflict.
pub(super) fn ambiguous(candidates: &[RouteCandidate]) -> Response {
    let candidates = candidates.iter().map(|candidate| match candidate {
        RouteCandidate::Definition(id) => json!({"WorkflowDefinitionId": id}),
        RouteCandidate::Instance(id) => json!({"WorkflowInstanceId": id}),
    });
    let body = json!({
        "errorMessage": "The call is ambiguous and matches multiple workflows.",
        "workflows": candidates.collect::<Vec<_>>(),
    });
    (StatusCode::CONFLICT, Json(body)).into_response()
}

/// 405, with the methods that the path has.
pub(super) fn wrong_method(method: &str, allowed: &[String]) -> ApiError {
    let message = format!("No workflow waits for {method} here.");
    let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", message);
    match HeaderValue::try_from(allowed.join(", ")) {
        Ok(allowed) => error.header_value(header::ALLOW, allowed),
        Err(_) => error,
    }
}

/// 404.
pub(super) fn no_route() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "no-such-route",
        "No published workflow has this route, and no instance waits for it.",
    )
}

/// The response for an error of the engine.
pub(super) fn of_error(error: Error, engine: &Engine) -> ApiError {
    let retry = match error.code() {
        "runtime-paused" if engine.pause_mode() == Some(PauseMode::Draining) => Some(RETRY_DRAINING),
        "runtime-paused" => Some(RETRY_PAUSED),
        "draining" | "engine-stopped" => Some(RETRY_DRAINING),
        _ => None,
    };
    let error = refused(error);
    match retry {
        Some(seconds) => error.retry_after(seconds),
        None => error,
    }
}

/// The response for an error of the engine or the spool. A full spool has room once other requests have ended.
pub(super) fn refused(error: Error) -> ApiError {
    let is_full = error.code() == "spool-full";
    let error = ApiError::from(error);
    if is_full {
        error.retry_after(RETRY_DRAINING)
    } else {
        error
    }
}
