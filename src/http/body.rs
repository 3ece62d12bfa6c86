//! The body of a request: read whole within limits, and parsed into JSON that the engine can store.
//!
//! The limits are bytes ([`MAX_BODY`]), time and memory. JSON grows tenfold and more when it is parsed, so a hundred
//! bodies of 10 MiB at once would exhaust the memory of the process: a body above `LARGE_BYTES` waits for one of a few
//! permits. The memory of each parsed body is estimated before it is parsed (`json_memory`), since 10 MiB of tiny values
//! become hundreds, and all bodies in use share one budget.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::ApiError;
use super::idempotency;
use super::json_memory;
use crate::definition::{JsonLimitError, MAX_DEPTH, check_json};
use crate::runtime::Idempotency;

/// The largest body that is accepted, in bytes (10 MiB).
pub const MAX_BODY: usize = 10_485_760;
/// Above this size, in bytes, a body needs a permit for large bodies.
const LARGE_BYTES: usize = 256 * 1024;
/// A body whose estimate is at most this, in bytes, is not counted: the limit of requests bounds these.
const NOT_COUNTED_BYTES: usize = 64 * 1024;
/// What errors are about.
const BODY: &str = "The body";
/// Large bodies in use at the same time.
const MAX_LARGE_BODIES: usize = 8;
/// The same of keyless requests, and the memory of their parsed bodies in MiB.
const KEYLESS_LARGE_BODIES: usize = 16;
const KEYLESS_MEMORY: usize = 8;
/// How long their bodies may make no progress: they are sent by programs.
const KEYLESS_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of a too large body is still read, in bytes: a client that is cut off while it sends sees a broken
/// connection instead of the 413.
const MAX_DISCARDED: usize = 64 * 1024 * 1024;

/// The limits that all bodies of one server share.
#[derive(Debug)]
pub(crate) struct BodyLimits {
    timeout: Duration,
    large: Arc<Semaphore>,
    memory: Arc<BodyMemory>,
}

impl BodyLimits {
    /// `memory` is the budget of all parsed bodies in MiB.
    pub(crate) fn new(timeout: Duration, memory: usize) -> Self {
        Self {
            timeout,
            large: Arc::new(Semaphore::new(MAX_LARGE_BODIES)),
            memory: Arc::new(BodyMemory::of(memory)),
        }
    }

    /// Limits of their own for keyless requests, whose senders are not known before their body is read.
    pub(crate) fn of_keyless(timeout: Duration) -> Self {
        Self {
            timeout: timeout.min(KEYLESS_TIMEOUT),
            large: Arc::new(Semaphore::new(KEYLESS_LARGE_BODIES)),
            memory: Arc::new(BodyMemory::of(KEYLESS_MEMORY)),
        }
    }

    /// Parses JSON text within the memory of all bodies; `what` names it in errors. Takes long for a large one.
    pub(crate) fn parse(&self, what: &str, text: &[u8]) -> Result<ParsedJson, ApiError> {
        let (value, memory) = self.memory.parse(what, text)?;
        Ok(ParsedJson { value, _memory: memory })
    }

    /// Reserves the estimated memory of another text, which is about to be parsed.
    pub(crate) fn reserve(&self, text: &[u8], reserved: &mut ReservedMemory) -> Result<(), ApiError> {
        reserved.estimate = reserved.estimate.saturating_add(json_memory::estimate(text));
        let has = reserved.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = reserved.estimate.div_ceil(1024);
        // The body has memory of its own: what does not fit beside it is no reason to try again.
        self.memory.permits(wanted.saturating_mul(2))?;
        let missing = wanted.saturating_sub(has);
        if reserved.estimate > NOT_COUNTED_BYTES && missing > 0 {
            let more = self.memory.take(missing)?;
            match &mut reserved.permit {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
        }
        Ok(())
    }
}

/// Memory that is reserved for JSON beside that of a body, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct ReservedMemory {
    estimate: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// JSON with the memory that is reserved for it.
#[derive(Debug)]
pub(crate) struct ParsedJson {
    /// The value; `None` if the text was empty.
    pub(crate) value: Option<Value>,
    /// Held while the value is in use.
    _memory: Option<OwnedSemaphorePermit>,
}

/// The body that a client sent.
#[derive(Debug)]
pub(crate) struct RequestBody {
    /// The JSON of the body; `None` if the body was empty.
    pub(crate) value: Option<Value>,
    /// The `Idempotency-Key`, with the fingerprint of this request.
    pub(crate) idempotency: Option<Idempotency>,
    /// Held while the body is in use.
    _permit: Option<OwnedSemaphorePermit>,
    _memory: Option<OwnedSemaphorePermit>,
}

impl<S: Send + Sync> FromRequest<S> for RequestBody
where
    Arc<BodyLimits>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        Self::read(request, &Arc::<BodyLimits>::from_ref(state), MAX_BODY).await
    }
}

impl RequestBody {
    /// Reads a body of at most `max_bytes` bytes.
    pub(crate) async fn read(request: Request, limits: &BodyLimits, max_bytes: usize) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let (bytes, permit) = read(body, &parts.headers, limits, max_bytes).await?;
        Self::parse(&parts, bytes, permit, limits).await
    }

    /// The same, with the bytes and the headers, of which there is a signature. For small bodies, as the bytes are kept.
    pub(crate) async fn read_signed(
        request: Request,
        limits: &BodyLimits,
        max_bytes: usize,
    ) -> Result<(Self, Vec<u8>, HeaderMap), ApiError> {
        let (parts, body) = request.into_parts();
        let (bytes, permit) = read(body, &parts.headers, limits, max_bytes).await?;
        let parsed = Self::parse(&parts, bytes.clone(), permit, limits).await?;
        Ok((parsed, bytes, parts.headers))
    }

    async fn parse(
        parts: &Parts,
        bytes: Vec<u8>,
        permit: Option<OwnedSemaphorePermit>,
        limits: &BodyLimits,
    ) -> Result<Self, ApiError> {
        let idempotency = idempotency::from_request(parts, &bytes)?;
        if !bytes.is_empty() {
            check_type(&parts.headers)?;
        }
        let (value, memory) = if bytes.len() > LARGE_BYTES {
            // Parsing takes longer than other tasks of this thread should wait.
            let owned = Arc::clone(&limits.memory);
            let parsed = tokio::task::spawn_blocking(move || owned.parse(BODY, &bytes)).await;
            parsed.map_err(|_| ApiError::internal())??
        } else {
            limits.memory.parse(BODY, &bytes)?
        };
        Ok(Self {
            value,
            idempotency,
            _permit: permit,
            _memory: memory,
        })
    }
}

/// The memory budget of all parsed bodies.
#[derive(Debug)]
struct BodyMemory {
    /// One permit is a KiB.
    free: Arc<Semaphore>,
    kibibytes: usize,
}

impl BodyMemory {
    fn of(mebibytes: usize) -> Self {
        let kibibytes = mebibytes.saturating_mul(1024).min(Semaphore::MAX_PERMITS);
        let free = Arc::new(Semaphore::new(kibibytes));
        Self { free, kibibytes }
    }

    /// Reserves the estimated memory of a body, then parses it. Dropping the permit releases the memory.
    fn parse(&self, what: &str, bytes: &[u8]) -> Result<(Option<Value>, Option<OwnedSemaphorePermit>), ApiError> {
        let estimate = json_memory::estimate(bytes);
        let permit = if estimate > NOT_COUNTED_BYTES {
            Some(self.take(estimate.div_ceil(1024))?)
        } else {
            None
        };
        Ok((parse(what, bytes)?, permit))
    }

    fn permits(&self, kibibytes: usize) -> Result<u32, ApiError> {
        let permits = u32::try_from(kibibytes).ok().filter(|_| kibibytes <= self.kibibytes);
        permits.ok_or_else(|| {
            metrics::counter!("mainspring_bodies_refused_total", "reason" => "too-many-values").increment(1);
            ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too-many-values",
                format!(
                    "The JSON holds so many values that it would take {} MiB of memory; the limit for bodies is {} MiB \
                     (body-memory).",
                    kibibytes.div_ceil(1024),
                    self.kibibytes / 1024
                ),
            )
        })
    }

    fn take(&self, kibibytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let permits = self.permits(kibibytes)?;
        Arc::clone(&self.free).try_acquire_many_owned(permits).map_err(|_| {
            metrics::counter!("mainspring_bodies_refused_total", "reason" => "memory").increment(1);
            ApiError::unavailable(
                "too-many-requests",
                "The bodies of other requests use all memory for bodies; try again.",
            )
        })
    }
}

/// Reads a whole body within the limits.
pub(super) async fn read(
    body: Body,
    headers: &HeaderMap,
    limits: &BodyLimits,
    max_bytes: usize,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), ApiError> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let over = declared.is_some_and(|length| length > max_bytes as u64);
    // A client that waits for "100 Continue" has not begun to send, and must not.
    if over && headers.contains_key(header::EXPECT) {
        return Err(too_large(max_bytes));
    }
    let discardable = MAX_DISCARDED.min(max_bytes.saturating_mul(8));
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut permit = None;
    let mut discarded = 0;
    let mut waits_for_permit = false;
    let all = async {
        while let Some(part) = stream.next().await {
            let part = part.map_err(|_| {
                ApiError::bad_request(
                    "incomplete-body",
                    "The connection ended before the whole body had arrived.",
                )
            })?;
            if over || discarded > 0 || bytes.len() + part.len() > max_bytes {
                bytes = Vec::new();
                discarded += part.len();
                if discarded > discardable {
                    return Err(too_large(max_bytes));
                }
            } else {
                if permit.is_none() && bytes.len() + part.len() > LARGE_BYTES {
                    waits_for_permit = true;
                    let free = Arc::clone(&limits.large).acquire_owned().await;
                    permit = Some(free.map_err(|_| ApiError::internal())?);
                    waits_for_permit = false;
                }
                bytes.extend_from_slice(&part);
            }
        }
        if over || discarded > 0 {
            Err(too_large(max_bytes))
        } else {
            Ok(())
        }
    };
    match tokio::time::timeout(limits.timeout, all).await {
        Ok(Ok(())) => Ok((bytes, permit)),
        Ok(Err(error)) => Err(error),
        Err(_) if waits_for_permit => Err(ApiError::unavailable(
            "too-many-requests",
            "The limit of concurrent large requests is reached; try again.",
        )),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "body-timeout",
            format!("The body had not arrived after {} s.", limits.timeout.as_secs_f64()),
        )
        .header(header::CONNECTION, "close")),
    }
}

fn too_large(max_bytes: usize) -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body-too-large",
        format!("The limit of a body is {max_bytes} bytes here."),
    )
}

/// Accepts only an uncompressed body.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let encoding = headers
        .get(header::CONTENT_ENCODING)
        .map(|value| value.to_str().unwrap_or("?"));
    if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-encoding",
            "Send the body without Content-Encoding.",
        ));
    }
    Ok(())
}

/// Accepts only uncompressed JSON: a form of a web page cannot send this content type without a preflight request.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    check_encoding(headers)?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if kind.is_some_and(is_json) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "json-required",
        "Send the body as JSON in UTF-8, with the header `Content-Type: application/json`.",
    ))
}

fn is_json(kind: &str) -> bool {
    let mut parts = kind.split(';').map(|part| part.trim().to_ascii_lowercase());
    let essence = parts.next().unwrap_or_default();
    let json = essence == "application/json" || essence.starts_with("application/") && essence.ends_with("+json");
    let utf8 = parts
        .filter_map(|part| part.strip_prefix("charset=").map(str::to_owned))
        .all(|charset| {
            let charset = charset.trim_matches('"');
            charset == "utf-8" || charset == "utf8"
        });
    json && utf8
}

/// Parses JSON text; a text of white space (and a byte order mark) has no value.
fn parse(what: &str, bytes: &[u8]) -> Result<Option<Value>, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        ApiError::bad_request(
            "invalid-text",
            format!("{what} is not UTF-8 from byte {} on.", error.valid_up_to() + 1),
        )
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let position = format!(" at line {line} column {column}");
        let message = text.strip_suffix(&position).unwrap_or(&text);
        if message.contains("recursion limit") {
            too_deep()
        } else if message.contains("surrogate") || message == "unexpected end of hex escape" {
            ApiError::bad_request(
                "invalid-text",
                format!("The JSON holds half a surrogate pair at line {line}, column {column}."),
            )
        } else {
            ApiError::bad_request(
                "invalid-json",
                format!("{what} is not valid JSON at line {line}, column {column}: {message}."),
            )
        }
    })?;
    match check_json(&value, MAX_DEPTH) {
        Ok(_) => Ok(Some(value)),
        Err(JsonLimitError::TooDeep) => Err(too_deep()),
        Err(JsonLimitError::Nul) => Err(nul_error(what)),
    }
}

/// The error for text with U+0000, which the database cannot store.
pub(crate) fn nul_error(what: &str) -> ApiError {
    ApiError::bad_request(
        "invalid-text",
        format!("{what} holds the character U+0000, which cannot be stored."),
    )
}

fn too_deep() -> ApiError {
    ApiError::bad_request(
        "nesting-too-deep",
        format!("The JSON nests deeper than {MAX_DEPTH} levels."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(bytes: &[u8]) -> &'static str {
        parse(BODY, bytes).unwrap_err().status_and_code().1
    }

    #[tokio::test]
    async fn a_large_body_waits_for_a_permit_and_gets_an_error_without_one() {
        let limits = BodyLimits::new(Duration::from_millis(50), 64);
        let large = || Body::from(vec![b' '; LARGE_BYTES + 1]);
        let headers = HeaderMap::new();
        let mut held = Vec::new();
        for _ in 0..MAX_LARGE_BODIES {
            held.push(read(large(), &headers, &limits, MAX_BODY).await.unwrap());
        }
        let error = read(large(), &headers, &limits, MAX_BODY).await.unwrap_err();
        assert_eq!(error.status_and_code(), (503, "too-many-requests"));
        assert!(read(Body::from("{}"), &headers, &limits, MAX_BODY).await.is_ok());
        drop(held.pop());
        assert!(read(large(), &headers, &limits, MAX_BODY).await.is_ok());
    }

    #[test]
    fn the_position_of_invalid_json_is_reported() {
        let message = format!("{:?}", parse(BODY, b"{\n  \"a\": }").unwrap_err());
        assert!(
            message.contains("invalid-json") && message.contains("line 2, column 8"),
            "{message}"
        );
        assert_eq!(code(b"{} x"), "invalid-json");
        assert_eq!(code(b"{\"a\": 1e999}"), "invalid-json");
        assert_eq!(code(b"\"\\u12"), "invalid-json");
    }

    #[test]
    fn text_that_cannot_be_stored_is_rejected() {
        assert_eq!(code(br#"{"a": "x\u0000"}"#), "invalid-text");
        assert_eq!(code(br#"{"a\u0000": 1}"#), "invalid-text");
        assert_eq!(code(br#"["\ud800"]"#), "invalid-text");
        assert_eq!(code(br#"["\ud800x"]"#), "invalid-text");
        assert_eq!(code(br#"["\ud800\u0041"]"#), "invalid-text");
        assert_eq!(code(br#"["\udc00"]"#), "invalid-text");
        assert_eq!(code(b"[\"\xed\xa0\x80\"]"), "invalid-text");
        assert_eq!(
            parse(BODY, br#"["\ud83d\ude00"]"#).unwrap(),
            Some(serde_json::json!(["😀"]))
        );
    }

    #[test]
    fn nesting_is_bounded_without_a_stack() {
        assert_eq!(code("[".repeat(10_000).as_bytes()), "nesting-too-deep");
        assert_eq!(
            code(("[".repeat(10_000) + &"]".repeat(10_000)).as_bytes()),
            "nesting-too-deep"
        );
        assert_eq!(code("{\"a\":".repeat(10_000).as_bytes()), "nesting-too-deep");
        assert!(parse(BODY, ("[".repeat(127) + &"]".repeat(127)).as_bytes()).is_ok());
    }

    #[test]
    fn a_byte_order_mark_and_an_empty_body_are_accepted() {
        assert_eq!(
            parse(BODY, "\u{feff}{\"a\":1}".as_bytes()).unwrap(),
            Some(serde_json::json!({"a": 1}))
        );
        assert_eq!(parse(BODY, b" \r\n").unwrap(), None);
        assert_eq!(parse(BODY, "\u{feff}".as_bytes()).unwrap(), None);
    }

    #[test]
    fn only_json_in_utf8_is_read() {
        let checked = |pairs: &[(header::HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(name, value.parse().unwrap());
            }
            check_type(&headers).map_err(|error| error.status_and_code())
        };
        for good in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/vnd.api+json; charset=\"utf-8\"",
        ] {
            assert_eq!(checked(&[(header::CONTENT_TYPE, good)]), Ok(()), "{good}");
        }
        for bad in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json; charset=utf-16",
            "json",
            "",
        ] {
            assert_eq!(
                checked(&[(header::CONTENT_TYPE, bad)]),
                Err((415, "json-required")),
                "{bad}"
            );
        }
        assert_eq!(checked(&[]), Err((415, "json-required")));
        let compressed = [
            (header::CONTENT_TYPE, "application/json"),
            (header::CONTENT_ENCODING, "gzip"),
        ];
        assert_eq!(checked(&compressed), Err((415, "unsupported-encoding")));
    }
}
