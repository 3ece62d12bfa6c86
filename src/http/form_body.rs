//! The body of a form that a page of this server sends.

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use tokio::sync::OwnedSemaphorePermit;

use super::body::{self, BodyLimits, check_encoding};
use super::error::ApiError;
use super::idempotency;
use crate::runtime::Idempotency;

/// The media type of plain forms.
const FORM: &str = "application/x-www-form-urlencoded";

/// Whether a request has a plain form as its body.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(FORM)
}

/// A plain form.
#[derive(Debug)]
pub(crate) struct FormBody {
    /// As it was sent: names and values, encoded.
    pub(crate) text: String,
    /// The `Idempotency-Key`, with the fingerprint of this request.
    pub(crate) idempotency: Option<Idempotency>,
    /// Held while the form is in use.
    _permit: Option<OwnedSemaphorePermit>,
}

impl FormBody {
    /// Reads a form of at most `max_bytes` bytes.
    pub(crate) async fn read(request: Request, limits: &BodyLimits, max_bytes: usize) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        check_encoding(&parts.headers)?;
        let (bytes, permit) = body::read(body, &parts.headers, limits, max_bytes).await?;
        let idempotency = idempotency::from_request(&parts, &bytes)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| ApiError::bad_request("invalid-text", "The form is not UTF-8: percent-encode it."))?;
        Ok(Self {
            text,
            idempotency,
            _permit: permit,
        })
    }
}
