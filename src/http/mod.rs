//! The HTTP server beneath the API: connections, request bodies and files, idempotency keys, and the one shape of an error.
//!
//! It knows no route. `api` puts its router on [`serve`].

mod body;
mod connections;
mod error;
mod files;
mod form_body;
mod holding_body;
mod idempotency;
mod json_memory;
mod server;
#[cfg(test)]
mod tests;

pub use body::MAX_BODY;
pub(crate) use body::{BodyLimits, ParsedJson, RequestBody, ReservedMemory, check_encoding, nul_error};
pub use connections::ConnectionLimits;
pub(crate) use error::{ApiError, ApiResult, ErrorBody, INSTANCE_HEADER, PROBLEM_JSON};
pub(crate) use files::{UploadedFile, UploadedFiles, last_segment};
pub(crate) use form_body::{FormBody, is_form};
pub(crate) use holding_body::HoldingBody;
pub(crate) use idempotency::{idempotency_key, request_fingerprint};
pub(crate) use server::Peer;
#[cfg(feature = "cli")]
pub(crate) use server::{Listening, serve_until};
pub use server::{serve, serve_within};
