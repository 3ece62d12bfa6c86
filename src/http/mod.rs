//! The HTTP server beneath the API: connections, request bodies, idempotency keys, and the one shape of an error.
//!
//! It knows no route. `api` puts its router on [`serve`].

mod body;
mod connections;
mod error;
mod idempotency;
mod json_memory;
mod server;

pub use body::MAX_BODY;
pub(crate) use body::{BodyLimits, RequestBody, nul_error};
pub use connections::ConnectionLimits;
pub(crate) use error::{ApiError, ApiResult, ErrorBody, INSTANCE_HEADER};
pub use server::{serve, serve_within};
