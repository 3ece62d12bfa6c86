//! How a handler receives the caller that admission has found.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::http::ApiError;
use crate::identity::Caller;

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Arc<Self>>();
        // A route without admission in front of it is a defect, which must not pass for a caller with every permission.
        caller.map(|caller| Self::clone(caller)).ok_or_else(ApiError::internal)
    }
}
