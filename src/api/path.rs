//! Paths: those that need no API key, and the id in a path.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::PREFIX;
use crate::http::{self, ApiError};

/// Liveness: 200 while the process runs.
pub(super) const LIVE: &str = "/health/live";
/// Readiness: 200 only while this node can take work.
pub(super) const READY: &str = "/health/ready";

/// The metrics of this node.
pub(super) const METRICS: &str = "/metrics";

/// The OpenAPI document.
pub(super) const OPENAPI_JSON: &str = "/openapi.json";
/// The same as a page.
pub(super) const OPENAPI_PAGE: &str = "/openapi";

/// Elsa's resume route, with the link as the parameter `t`, below [`PREFIX`].
pub(super) const RESUME_BY_QUERY: &str = "/bookmarks/resume";
/// Elsa's route that triggers the event of a link, the parameter `t`, below [`PREFIX`].
pub(super) const TRIGGER_BY_QUERY: &str = "/events/trigger";
/// Where webhook sources send their events, below [`PREFIX`].
pub(super) const WEBHOOKS: &str = "/webhooks";
/// The resume route with the link in the path.
pub(super) const RESUME_BY_PATH: &str = "/workflows/resume/{link}";
/// The same up to the link.
const RESUME_PREFIX: &str = "/workflows/resume/";

/// The hub by which Studio follows instances; a connection needs a token, no key.
pub(super) const HUB: &str = "/elsa/hubs/workflow-instance";
/// Where the token for it comes from.
pub(super) const HUB_NEGOTIATION: &str = "/elsa/hubs/workflow-instance/negotiate";

/// The longest id or name in a path, in bytes. The engine creates no longer ones.
const MAX_ID_BYTES: usize = 1024;

/// The parameter of a path, decoded.
pub(super) struct Id(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(id) = path.map_err(|_| not_utf8())?;
        checked(id).map(Self)
    }
}

/// The two parameters of a path, decoded.
pub(super) struct IdPair(pub(super) String, pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for IdPair {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((first, second)) = path.map_err(|_| not_utf8())?;
        Ok(Self(checked(first)?, checked(second)?))
    }
}

/// The parameters of a path with an id and the number of a version.
pub(super) struct IdAndVersion(pub(super) String, pub(super) i32);

impl<S: Send + Sync> FromRequestParts<S> for IdAndVersion {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let IdPair(id, version) = IdPair::from_request_parts(parts, state).await?;
        let number = version.parse().ok().filter(|number| *number > 0);
        let invalid = || ApiError::bad_request("invalid-path", "A version in a path is a whole number from 1.");
        Ok(Self(id, number.ok_or_else(invalid)?))
    }
}

fn not_utf8() -> ApiError {
    ApiError::bad_request("invalid-path", "The path is not percent-encoded UTF-8.")
}

fn checked(id: String) -> Result<String, ApiError> {
    if id.contains('\0') {
        return Err(http::nul_error("The path"));
    }
    // Ids are written to logs and terminals.
    if id.chars().any(char::is_control) {
        return Err(ApiError::bad_request(
            "invalid-path",
            "An id in a path has no control characters.",
        ));
    }
    if id.len() > MAX_ID_BYTES {
        return Err(ApiError::bad_request(
            "invalid-path",
            format!("An id in a path has at most {MAX_ID_BYTES} bytes."),
        ));
    }
    Ok(id)
}

/// Whether the path needs neither an admitted host nor a key.
pub(super) fn is_health(path: &str) -> bool {
    path == LIVE || path == READY
}

/// Whether the path needs an admitted host and no credential.
pub(super) fn is_open(path: &str) -> bool {
    path == OPENAPI_JSON || path == OPENAPI_PAGE || is_sign_in(path)
}

/// Whether a path is a step of a sign-in: who takes it has no credential yet.
pub(super) fn is_sign_in(path: &str) -> bool {
    let below = path
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_prefix("/identity/"));
    below.is_some_and(|rest| ["sign-in", "login", "refresh-token"].contains(&rest) || rest.starts_with("external/"))
}

/// Whether a path is that of events of webhook sources.
pub(super) fn is_event(path: &str) -> bool {
    path.strip_prefix(PREFIX) == Some(WEBHOOKS)
}

/// Whether the path authenticates by a token of its own, or a signature, instead of the key.
pub(super) fn takes_token(path: &str) -> bool {
    matches!(
        path.strip_prefix(PREFIX),
        Some(RESUME_BY_QUERY | TRIGGER_BY_QUERY | WEBHOOKS)
    ) || path.strip_prefix(RESUME_PREFIX).is_some_and(|token| !token.is_empty())
}
