//! What a client receives: the answer of its workflow, or what happened instead.

use std::io::SeekFrom;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::activity::http::{
    Conditions, FilePart, RequestProblem, RouteOptions, file_part, has_no_body, is_divisible, is_of_connection,
};
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

/// Content is what its type says.
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// A page of a workflow, which often shows data of clients, has no part in the origin of this server. A browser obeys all policies
/// of a response, so that those of a workflow, which may be those of another server, take nothing from this one.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox allow-scripts allow-forms");

/// Browsers show it outside the origin of the server, and not within a sandbox.
const PDF: &[u8] = b"application/pdf";

/// The response for the end of a request with these `parts`. `has_timeout`: the endpoint limits the time of its requests.
pub(super) async fn of_outcome(outcome: HttpOutcome, has_timeout: bool, parts: &Parts) -> Response {
    let id = outcome.instance_id;
    let response = match outcome.end {
        HttpEnd::Answered(answer) => return of_answer(answer, parts).await,
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
            "The workflow has run, and its response was not kept: it is larger than 1 MiB, or sets a cookie, and is sent only to a \
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

async fn of_answer(answer: Arc<Answer>, parts: &Parts) -> Response {
    let answer = Arc::try_unwrap(answer).unwrap_or_else(|shared| (*shared).clone());
    let length = match &answer.body {
        AnswerBody::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        AnswerBody::File(file) => file.length(),
    };
    let part = part_of(&answer, length, parts);
    let status = match part {
        FilePart::Whole => answer.status,
        FilePart::Range { .. } => 206,
        FilePart::NotModified => 304,
        FilePart::Failed => 412,
        FilePart::NotSatisfiable => 416,
        FilePart::Malformed(field) => {
            let message = format!("The header {field} of the request cannot be read.");
            return ApiError::bad_request("invalid-field", message).into_response();
        }
    };
    let Some(status) = StatusCode::from_u16(status)
        .ok()
        .filter(|status| !status.is_informational())
    else {
        tracing::error!(status, "a workflow has answered with a status that is none");
        return ApiError::internal().into_response();
    };
    let (first, count) = match part {
        FilePart::Whole if has_no_body(status.as_u16()) => (0, 0),
        FilePart::Whole => (0, length),
        FilePart::Range { first, last } => (first, (last - first).saturating_add(1)),
        _ => (0, 0),
    };
    let body = match answer.body {
        _ if count == 0 => Body::empty(),
        AnswerBody::Bytes(bytes) => {
            let (begin, end) = (first, first.saturating_add(count));
            let [begin, end] = [begin, end].map(|at| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len()));
            Body::from(Bytes::from(bytes).slice(begin..end))
        }
        AnswerBody::File(file) => match of_file(file, first, count).await {
            Ok(body) => body,
            Err(error) => return ApiError::from(error).into_response(),
        },
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let has_content = matches!(part, FilePart::Whole | FilePart::Range { .. });
    let headers = response.headers_mut();
    for (name, value) in answer.headers {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(&name), HeaderValue::try_from(&value)) else {
            tracing::warn!(name, "a header of a workflow's answer cannot be sent");
            continue;
        };
        let is_of_content = [header::CONTENT_TYPE, header::CONTENT_DISPOSITION].contains(&name);
        if !is_of_connection(name.as_str()) && (has_content || !is_of_content) {
            headers.append(name, value);
        }
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let is_pdf = types
        .next()
        .is_some_and(|only| only.as_bytes().eq_ignore_ascii_case(PDF))
        && types.next().is_none();
    if !is_pdf {
        headers.append(header::CONTENT_SECURITY_POLICY, SANDBOX);
    }
    if count > 0 {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(count));
    }
    let range = match part {
        FilePart::Range { first, last } => format!("bytes {first}-{last}/{length}"),
        FilePart::NotSatisfiable => format!("bytes */{length}"),
        _ => return response,
    };
    if let Ok(range) = HeaderValue::try_from(range) {
        headers.insert(header::CONTENT_RANGE, range);
    }
    response
}

/// What of an answer a client asks for. Only those that read ask for parts, and a HEAD has none.
fn part_of(answer: &Answer, length: u64, parts: &Parts) -> FilePart {
    let is_get = parts.method == Method::GET;
    if !(is_get || parts.method == Method::HEAD) || !is_divisible(answer.status, &answer.headers) {
        return FilePart::Whole;
    }
    // A field that is repeated is one list.
    let asked = |name: HeaderName| {
        let values = parts.headers.get_all(name).into_iter();
        let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    };
    let (range, if_range) = (asked(header::RANGE).filter(|_| is_get), asked(header::IF_RANGE));
    let (if_match, if_none_match) = (asked(header::IF_MATCH), asked(header::IF_NONE_MATCH));
    let conditions = Conditions {
        range: range.as_deref(),
        if_range: if_range.as_deref(),
        if_match: if_match.as_deref(),
        if_none_match: if_none_match.as_deref(),
    };
    let mut fields = answer.headers.iter();
    let e_tag = fields.find(|(name, _)| name.eq_ignore_ascii_case("etag"));
    file_part(length, e_tag.map(|(_, tag)| tag.as_str()), &conditions)
}

/// So many bytes of a file from the first one on, as they are read. The file is held until its client has them.
async fn of_file(file: SpoolFile, first: u64, count: u64) -> Result<Body> {
    let opened = async {
        let mut opened = file.open().await?;
        opened.seek(SeekFrom::Start(first)).await?;
        Ok::<_, std::io::Error>(opened.take(count))
    };
    let opened = opened
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
