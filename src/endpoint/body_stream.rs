//! The bytes of a body as they come, within its limit and its time.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use tokio::time::Instant;

use crate::http::ApiError;

/// What arrives within the time limit of a body, at least, in bytes.
const LEAST_PROGRESS: u64 = 64 * 1024;

/// How much of a refused body is still read, in bytes, and for how long: a client that is cut off while it sends sees a broken
/// connection instead of the answer.
const MAX_DISCARDED: usize = 64 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// How long a body may take in all, in times without progress.
const WHOLE_TIMEOUTS: u32 = 20;

/// A body that is being read.
pub(super) struct BodyStream {
    stream: BodyDataStream,
    /// What it may have, in bytes.
    limit: u64,
    /// What has come.
    length: u64,
    /// A client that waits for "100 Continue" has not begun to send before it is read.
    waits: bool,
    timeout: Duration,
    /// Until then more must come than at its begin.
    window: Option<Instant>,
    window_length: u64,
    /// Until then all must come, from the first read on.
    whole: Option<Instant>,
    deadline: Instant,
    has_ended: bool,
}

/// Why a body is not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFailure {
    /// It has more bytes than its limit.
    TooLarge,
    /// It came too slowly.
    Slow,
    /// The time of the request has passed.
    Deadline,
    /// The connection ended before it.
    Incomplete,
}

impl BodyFailure {
    /// The error for a client, where the limit is not what it is about.
    pub(super) fn error(self, timeout: Duration) -> ApiError {
        match self {
            Self::TooLarge => ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request-too-large",
                "The body is larger than this endpoint accepts.",
            ),
            Self::Slow => ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "body-timeout",
                format!(
                    "The body came too slowly: within {} s less than {LEAST_PROGRESS} bytes, or within {} s not its end.",
                    timeout.as_secs_f64(),
                    timeout.saturating_mul(WHOLE_TIMEOUTS).as_secs_f64()
                ),
            )
            .header(header::CONNECTION, "close"),
            Self::Deadline => ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "request-timeout",
                "The time of this request had passed before its body had arrived; nothing was started.",
            )
            .header(header::CONNECTION, "close"),
            Self::Incomplete => ApiError::bad_request(
                "incomplete-body",
                "The connection ended before the whole body had arrived.",
            ),
        }
    }
}

/// The length that a client declares, if it does.
pub(super) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl BodyStream {
    /// `timeout`: the time without enough progress; `deadline`: that of the request.
    pub(super) fn new(body: Body, headers: &HeaderMap, timeout: Duration, deadline: Instant) -> Self {
        Self {
            stream: body.into_data_stream(),
            limit: u64::MAX,
            length: 0,
            waits: headers.contains_key(header::EXPECT),
            timeout,
            window: None,
            window_length: 0,
            whole: None,
            deadline,
            has_ended: declared_length(headers) == Some(0),
        }
    }

    /// Sets what it may have, in bytes.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// Sets the time of the request.
    pub(super) fn deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// What has come, in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The next bytes; `None` at the end. Of a body that is too large exactly the limit is given, in whatever parts it comes.
    /// Cancellation safe.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BodyFailure> {
        if self.length > self.limit {
            return Err(BodyFailure::TooLarge);
        }
        if self.has_ended {
            return Ok(None);
        }
        self.waits = false;
        let window = *self.window.get_or_insert_with(|| Instant::now() + self.timeout);
        let whole = *self
            .whole
            .get_or_insert_with(|| Instant::now() + self.timeout.saturating_mul(WHOLE_TIMEOUTS));
        let until = window.min(whole).min(self.deadline);
        let mut part = match tokio::time::timeout_at(until, self.stream.next()).await {
            Err(_) if until == self.deadline => return Err(BodyFailure::Deadline),
            Err(_) => return Err(BodyFailure::Slow),
            Ok(None) => {
                self.has_ended = true;
                return Ok(None);
            }
            Ok(Some(Err(_))) => {
                self.has_ended = true;
                return Err(BodyFailure::Incomplete);
            }
            Ok(Some(Ok(part))) => part,
        };
        let within = self.limit - self.length;
        self.length = self
            .length
            .saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        if self.length > self.limit {
            part.truncate(usize::try_from(within).unwrap_or(usize::MAX));
            if part.is_empty() {
                return Err(BodyFailure::TooLarge);
            }
            return Ok(Some(part));
        }
        if self.length - self.window_length >= LEAST_PROGRESS {
            self.window = None;
            self.window_length = self.length;
        }
        Ok(Some(part))
    }

    /// Reads and drops what is left, within limits. Returns whether all of it was read: else the connection must close.
    pub(super) async fn discard(&mut self) -> bool {
        if self.has_ended {
            return true;
        }
        if self.waits {
            return false;
        }
        let mut discarded = 0;
        let all = async {
            while let Some(part) = self.stream.next().await {
                let Ok(part) = part else { return true };
                discarded += part.len();
                if discarded > MAX_DISCARDED {
                    return false;
                }
            }
            true
        };
        let ended = tokio::time::timeout(DISCARD_TIME, all).await.unwrap_or(false);
        self.has_ended = ended;
        ended
    }
}
