//! What is read of a body, and by what.

use axum::http::{HeaderMap, StatusCode};

use super::answer;
use super::body_stream::BodyFailure;
use crate::activity::http::{ReceivedBody, RequestProblem, RouteOptions};
use crate::http::{ApiError, BodyLimits, ReservedMemory};
use crate::spool::{RequestFiles, Spool};

/// What a body may have to be part of the accepted row, in bytes.
pub(super) const INLINE_BYTES: usize = 256 * 1024;

/// The most fields of a form.
pub(super) const MOST_FIELDS: usize = 1_000;

/// A body that was read, as far as it is accepted.
#[derive(Debug, Default)]
pub(super) struct ReadBody {
    pub(super) body: ReceivedBody,
    /// Its bytes, as far as they were read.
    pub(super) length: u64,
    /// What was wrong while it was read: the rest is missing then.
    pub(super) problem: Option<RequestProblem>,
    /// Of what it means: the same for a repeated form, whose encoding differs. Zeros, if the request has no idempotency key.
    pub(super) digest: [u8; 32],
    /// Its files in the spool.
    pub(super) files: RequestFiles,
    pub(super) memory: ReservedMemory,
}

impl ReadBody {
    /// What an endpoint with these options does not accept, in Elsa's order.
    pub(super) fn problem_for(&self, options: &RouteOptions) -> Option<RequestProblem> {
        if options.request_size_limit.is_some_and(|limit| self.length > limit) {
            return Some(RequestProblem::RequestTooLarge);
        }
        self.problem.or_else(|| options.problem_of_files(self.body.files()))
    }
}

/// Where a body goes, and within which limits.
pub(super) struct BodyReader<'r> {
    pub(super) headers: &'r HeaderMap,
    pub(super) options: &'r RouteOptions,
    pub(super) spool: &'r Spool,
    pub(super) limits: &'r BodyLimits,
    /// The largest text that a workflow can keep, in bytes.
    pub(super) largest_text: u64,
    /// The time without enough progress, for messages.
    pub(super) timeout: std::time::Duration,
}

/// Why a body was not read.
pub(super) enum ReadFailure {
    Body(BodyFailure),
    Refused(Box<ApiError>),
}

impl From<BodyFailure> for ReadFailure {
    fn from(failure: BodyFailure) -> Self {
        Self::Body(failure)
    }
}

impl From<ApiError> for ReadFailure {
    fn from(error: ApiError) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<crate::Error> for ReadFailure {
    fn from(error: crate::Error) -> Self {
        answer::refused(error).into()
    }
}

pub(super) fn form_too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "form-too-large",
        format!(
            "The fields of a form, with the names of its files, have at most {INLINE_BYTES} bytes; send what is larger as a file."
        ),
    )
}

pub(super) fn too_many_fields() -> ApiError {
    ApiError::bad_request("invalid-form", format!("A form has at most {MOST_FIELDS} parts."))
}
