//! The one shape of errors on the wire: `{statusCode, code, message, errors: {field: [message]}}`, of the media type
//! [`PROBLEM_JSON`].
//!
//! `statusCode`, `message` and `errors` are what Elsa sends. Its clients show the texts of `errors` and nothing else, so the
//! message is there too, under [`GENERAL_ERRORS`], unless a field has the same text.
//!
//! Only this module maps an [`Error`] of the engine to a status. A message is written for the caller. Details for the
//! operator (the causes of an error, defects) go to the log and never to the client.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::Error;

/// The result of a handler.
pub(crate) type ApiResult = Result<Response, ApiError>;

/// The media type of errors. Elsa's clients read `errors` of no other one.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";
/// What is not about one field is under this name in `errors`.
const GENERAL_ERRORS: &str = "generalErrors";

/// Names the instance that a request started or concerned.
pub(crate) const INSTANCE_HEADER: HeaderName = HeaderName::from_static("x-elsa-workflow-instance-id");

/// The body of an error.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorBody {
    /// The status of the response.
    #[schema(minimum = 400, maximum = 599)]
    status_code: u16,
    /// Why, for programs; `docs/reference/rest.md` lists all codes.
    #[schema(value_type = String)]
    code: &'static str,
    /// Why, for readers.
    message: String,
    /// Messages about fields or, of a definition, about activities, by name; `generalErrors` has the message if no field has
    /// it.
    #[schema(value_type = HashMap<String, Vec<String>>)]
    errors: Map<String, Value>,
    /// The instance that the request started or concerned, if it is unknown whether the call took effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_instance_id: Option<String>,
}

/// In the extensions of an error response: its code, for the audit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    fields: Vec<(String, String)>,
    instance: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ApiError {
    /// An error that the HTTP layer itself detects.
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            fields: Vec::new(),
            instance: None,
            headers: Vec::new(),
        }
    }

    /// 400: the input is invalid.
    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 400 `invalid-field`: a known field or parameter has the wrong type or value. The message is a whole sentence.
    pub(crate) fn invalid_field(name: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(StatusCode::BAD_REQUEST, "invalid-field", message.clone()).field(name, message)
    }

    /// Adds a message about one field.
    pub(crate) fn field(mut self, name: impl Into<String>, message: impl Into<String>) -> Self {
        self.fields.push((name.into(), message.into()));
        self
    }

    /// The same error about a file: its messages are under the name of the file.
    pub(crate) fn of_file(mut self, name: &str) -> Self {
        for (field, message) in &mut self.fields {
            *message = format!("{field}: {message}");
            name.clone_into(field);
        }
        if self.fields.is_empty() {
            self.fields.push((name.to_owned(), self.message.clone()));
        }
        self.message = format!("{name}: {}", self.message);
        self
    }

    /// Adds a header to the response.
    pub(crate) fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }

    /// Adds a header whose value is not known before.
    pub(crate) fn header_value(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Sets when a client may try again, in seconds.
    pub(crate) fn retry_after(mut self, seconds: u16) -> Self {
        self.headers.retain(|(name, _)| *name != header::RETRY_AFTER);
        self.headers.push((header::RETRY_AFTER, HeaderValue::from(seconds)));
        self
    }

    /// Names the instance that it is about.
    pub(crate) fn of_instance(mut self, id: &str) -> Self {
        self.instance = Some(id.to_owned());
        self
    }

    /// 503 with `Retry-After`: the same request may succeed soon.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).header(header::RETRY_AFTER, "1")
    }

    /// 500: a defect. Its details are in the log only.
    pub(crate) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal-error",
            "An internal error occurred; the log of the engine has the details.",
        )
    }

    /// The status, the code, the message and the headers, for a page.
    pub(crate) fn into_parts(self) -> (StatusCode, &'static str, String, Vec<(HeaderName, HeaderValue)>) {
        (self.status, self.code, self.message, self.headers)
    }

    /// The same error for a caller that is not to learn which instance it is about.
    pub(crate) fn without_instance(mut self) -> Self {
        self.instance = None;
        self
    }

    #[cfg(test)]
    pub(crate) fn status_and_code(&self) -> (u16, &'static str) {
        (self.status.as_u16(), self.code)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = status_of(&error);
        if status == StatusCode::INTERNAL_SERVER_ERROR && !error.is_dead_lettered() {
            tracing::error!(error = %error, code = error.code(), "a request failed inside the engine");
            return Self {
                instance: error.instance_id().map(str::to_owned),
                ..Self::internal()
            };
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            tracing::warn!(error = %error, code = error.code(), "a request could not be served");
        }
        let mut response = Self::new(status, error.code(), error.message());
        response.fields = error.fields().to_vec();
        response.instance = error.instance_id().map(str::to_owned);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response = response.header(header::RETRY_AFTER, "1");
        }
        response
    }
}

/// The status for the kind of an error.
fn status_of(error: &Error) -> StatusCode {
    if error.is_invalid() {
        StatusCode::BAD_REQUEST
    } else if error.is_not_found() {
        StatusCode::NOT_FOUND
    } else if error.is_gone() {
        StatusCode::GONE
    } else if error.is_forbidden() {
        StatusCode::FORBIDDEN
    } else if error.is_conflict() {
        StatusCode::CONFLICT
    } else if error.is_unprocessable() {
        StatusCode::UNPROCESSABLE_ENTITY
    } else if error.is_too_large() {
        StatusCode::PAYLOAD_TOO_LARGE
    } else if error.is_over_budget() {
        StatusCode::TOO_MANY_REQUESTS
    } else if error.is_transient() || error.is_unknown_outcome() || error.is_stopped() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut errors = Map::new();
        if !self.fields.iter().any(|(_, text)| *text == self.message) {
            errors.insert(GENERAL_ERRORS.to_owned(), json!([self.message]));
        }
        for (field, message) in self.fields {
            if let Value::Array(messages) = errors.entry(field).or_insert_with(|| json!([])) {
                messages.push(message.into());
            }
        }
        let body = ErrorBody {
            status_code: self.status.as_u16(),
            code: self.code,
            message: self.message,
            errors,
            workflow_instance_id: self.instance.clone(),
        };
        let mut response = (self.status, Json(body)).into_response();
        response.extensions_mut().insert(ErrorCode(self.code));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.extend(self.headers);
        // An id chosen by a caller may hold characters that no header can; the body has it in any case.
        if let Some(instance) = self.instance.and_then(|id| HeaderValue::try_from(id).ok()) {
            response.headers_mut().insert(INSTANCE_HEADER, instance);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond(error: Error) -> (u16, Response) {
        let response = ApiError::from(error).into_response();
        (response.status().as_u16(), response)
    }

    async fn body(response: Response) -> Value {
        let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn each_kind_of_error_has_its_status() {
        for (error, status) in [
            (Error::invalid("x", "m"), 400),
            (Error::not_found("x", "m"), 404),
            (Error::conflict("x", "m"), 409),
            (Error::gone("x", "m"), 410),
            (Error::too_large("x", "m"), 413),
            (Error::unprocessable("x", "m"), 422),
            (Error::internal("m"), 500),
            (Error::dead_lettered("m"), 500),
            (Error::unavailable("x", "m"), 503),
            (Error::lost_lock("m"), 503),
            (Error::fenced("m"), 503),
            (Error::stopped("m"), 503),
            (Error::unknown_outcome("m"), 503),
        ] {
            let code = error.code();
            let (seen, response) = respond(error);
            assert_eq!(seen, status);
            assert_eq!(response.headers().contains_key(header::RETRY_AFTER), status == 503);
            let body = body(response).await;
            assert_eq!(body["statusCode"], status);
            assert_eq!(body["code"], code);
        }
    }

    #[tokio::test]
    async fn fields_are_grouped_in_their_order() {
        let error = Error::invalid("invalid-definition", "m")
            .field("b", "1")
            .field("a", "2")
            .field("b", "3");
        let body = body(respond(error).1).await;
        assert_eq!(
            body["errors"].to_string(),
            r#"{"generalErrors":["m"],"b":["1","3"],"a":["2"]}"#
        );
    }

    #[tokio::test]
    async fn the_text_is_in_the_errors_once_and_the_type_is_that_of_a_problem() {
        let response = respond(Error::conflict("x", "It runs.")).1;
        assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_JSON);
        assert_eq!(body(response).await["errors"], json!({"generalErrors": ["It runs."]}));
        let of_field = ApiError::invalid_field("page", "page is a number.").into_response();
        assert_eq!(body(of_field).await["errors"], json!({"page": ["page is a number."]}));
    }

    #[tokio::test]
    async fn an_unknown_outcome_names_its_instance() {
        let (_, response) = respond(Error::unknown_outcome("m").instance("i1"));
        assert_eq!(response.headers()[INSTANCE_HEADER], "i1");
        let hidden = ApiError::from(Error::unknown_outcome("m").instance("i1")).without_instance();
        let hidden = hidden.into_response();
        assert!(!hidden.headers().contains_key(INSTANCE_HEADER));
        assert!(!body(hidden).await.to_string().contains("i1"));
        assert_eq!(body(response).await["workflowInstanceId"], "i1");
    }

    #[tokio::test]
    async fn a_defect_does_not_reach_the_client() {
        let body = body(respond(Error::internal("the password is 42").caused_by("secret")).1).await;
        assert!(
            !body.to_string().contains("42") && !body.to_string().contains("secret"),
            "{body}"
        );
        let error = Error::unavailable("database-unavailable", "The database is unavailable.").caused_by("host db7");
        assert!(!self::body(respond(error).1).await.to_string().contains("db7"));
    }
}
