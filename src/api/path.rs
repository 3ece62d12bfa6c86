//! The id in a path.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::body;
use super::refusal::Refusal;

/// The longest id or name, in bytes. What is longer can be no id of ours.
const LONGEST: usize = 1024;

/// The one parameter of a path, decoded.
pub(super) struct Id(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(id) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| Refusal::bad("invalid-path", "The path is not percent-encoded UTF-8."))?;
        if id.contains('\0') {
            return Err(body::nul("The path"));
        }
        // Ids stand in logs and on terminals.
        if id.chars().any(char::is_control) {
            return Err(Refusal::bad(
                "invalid-path",
                "An id in a path has no control characters.",
            ));
        }
        if id.len() > LONGEST {
            return Err(Refusal::bad(
                "invalid-path",
                format!("An id in a path has at most {LONGEST} bytes."),
            ));
        }
        Ok(Self(id))
    }
}
