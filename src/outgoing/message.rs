//! A request, and its answer.

use std::time::Duration;

use hyper::body::Bytes;
use reqwest::header::{CONTENT_LENGTH, HeaderMap};
use reqwest::{Body, Method, Response, Url};
use tokio::time::Instant;

use super::send_error::SendError;
use crate::spool::SpoolFile;

/// A request of a workflow.
#[derive(Debug)]
pub(crate) struct OutgoingRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: OutgoingBody,
}

/// The body of a request; it can be sent again after a redirect.
#[derive(Clone, Debug, Default)]
pub(crate) enum OutgoingBody {
    #[default]
    None,
    Bytes(Bytes),
    File(SpoolFile),
}

impl OutgoingBody {
    /// The body of one hop, with its length if the client does not see it.
    pub(super) async fn open(&self) -> Result<Option<(Body, Option<u64>)>, SendError> {
        match self {
            Self::None => Ok(None),
            // Without a length some servers wait for a body.
            Self::Bytes(bytes) if bytes.is_empty() => Ok(Some((Body::default(), Some(0)))),
            Self::Bytes(bytes) => Ok(Some((Body::from(bytes.clone()), None))),
            Self::File(file) => {
                let opened = file.open().await;
                let opened = opened.map_err(|error| SendError::Failed(format!("the file to send is lost: {error}")))?;
                Ok(Some((Body::from(opened), Some(file.length()))))
            }
        }
    }
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub(crate) struct OutgoingResponse {
    pub(super) response: Response,
    pub(super) limit: u64,
    pub(super) read: u64,
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
}

impl OutgoingResponse {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The URL that answered, after all redirects.
    pub(crate) fn url(&self) -> &Url {
        self.response.url()
    }

    /// Lets the body have no more bytes than these.
    pub(crate) fn limit_to(&mut self, bytes: u64) {
        self.limit = self.limit.min(bytes);
    }

    /// The next part of the body; `None` at its end.
    /// Errors: The body is too large, breaks off, or takes too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, SendError> {
        let declared = self.response.headers().get(CONTENT_LENGTH);
        let declared: Option<u64> = declared.and_then(|length| length.to_str().ok()?.parse().ok());
        // What a HEAD would answer has a length, and no body.
        let remaining = self.response.content_length();
        if self.read == 0 && remaining != Some(0) && declared.is_some_and(|length| length > self.limit) {
            return Err(SendError::TooLarge(self.limit));
        }
        let next = tokio::time::timeout_at(self.deadline, self.response.chunk()).await;
        let next = next.map_err(|_| SendError::TimedOut(self.timeout))?;
        let Some(bytes) = next.map_err(SendError::of)? else {
            return Ok(None);
        };
        self.read += bytes.len() as u64;
        if self.read > self.limit {
            return Err(SendError::TooLarge(self.limit));
        }
        Ok(Some(bytes))
    }
}
