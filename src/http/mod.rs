//! The HTTP server beneath the API: connections, request bodies and files, idempotency keys, and the one shape of an error.
//!
//! It knows no route. `api` puts its router on [`serve`].
//!
//! # Layout
//! - `server`: accepts, serves and drains; `connections`: their number and their time limits; `tls`: the certificate of a server.
//! - `peer`: the client of a request; `trusted_proxies`: whose word on it counts.
//! - `body`, `form_body`, `json_memory`, `holding_body`: bodies within their limits; `files`: uploaded ones.
//! - `idempotency`: keys that make a repeat safe; `trace_parent`: the trace of a caller; `error`: the one shape of an error.

mod body;
mod connections;
mod error;
mod files;
mod form_body;
mod holding_body;
mod idempotency;
mod json_memory;
mod peer;
mod server;
#[cfg(test)]
mod tests;
mod tls;
mod trace_parent;
mod trusted_proxies;

pub use body::MAX_BODY;
pub(crate) use body::{BodyLimits, ParsedJson, RequestBody, ReservedMemory, check_encoding, nul_error};
pub use connections::ConnectionLimits;
pub(crate) use error::{ApiError, ApiResult, ErrorBody, ErrorCode, INSTANCE_HEADER, PROBLEM_JSON};
pub(crate) use files::{UploadedFile, UploadedFiles, last_segment};
pub(crate) use form_body::{FormBody, is_form};
pub(crate) use holding_body::HoldingBody;
pub(crate) use idempotency::{idempotency_key, request_fingerprint};
pub(crate) use peer::{Peer, Scheme};
#[cfg(feature = "cli")]
pub(crate) use server::{Listening, serve_until};
pub use server::{ServerOptions, serve, serve_within};
pub use tls::ServerTls;
pub(crate) use trace_parent::trace_of;
pub use trusted_proxies::{ForwardingHeader, TrustedProxies};
