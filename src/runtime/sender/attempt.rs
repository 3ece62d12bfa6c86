//! One attempt to deliver: a signed request to a sink, which follows no redirect.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use crate::failpoint;
use crate::outgoing::{OutgoingBody, OutgoingClient, OutgoingRequest, OutgoingResponse, SendError};
use crate::runtime::context::webhooks::Sink;
use crate::store::clock::DatabaseClock;
use crate::store::webhook::delivery::{Attempt, DueDelivery, Marked};
use crate::webhook::{SIGNATURE, TIMESTAMP, WEBHOOK_ID, body, delivery_pause, retry_after, signatures};
use futures_util::FutureExt;
use hyper::body::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

/// How much of an answer is read, in bytes, so that its connection can be used again. Nothing of it is kept.
const MOST_READ: usize = 64 << 10;

/// The most characters of an error that a row keeps.
const LONGEST_ERROR: usize = 500;

/// A delivery on its way.
pub(super) struct Sending {
    pub(super) client: OutgoingClient,
    pub(super) sink: Arc<Sink>,
    pub(super) due: DueDelivery,
    pub(super) clock: DatabaseClock,
    pub(super) timeout: Duration,
}

/// A delivery that has landed, or not.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) marked: Marked,
    /// How long the receiver asks to be left alone.
    pub(super) asked: Option<Duration>,
}

impl Sending {
    /// Sends it. If the future is dropped, the receiver may have it, and receives it again under its id.
    pub(super) async fn send(mut self) -> Sent {
        let answered = AssertUnwindSafe(self.request()).catch_unwind().await;
        let panicked = |_| {
            Err(SendError::Failed(
                "the sending panicked; the log of the node says where".to_owned(),
            ))
        };
        let answered = answered.unwrap_or_else(panicked);
        let (attempt, asked) = match answered {
            Ok(response) => self.judge(&response),
            Err(error) => (self.failed(None, &error.to_string(), None), None),
        };
        let result = match &attempt {
            Attempt::Delivered(_) => "delivered",
            Attempt::Failed { .. } => "failed",
            Attempt::Gone => "gone",
        };
        metrics::counter!("mainspring_webhook_attempts_total", "result" => result).increment(1);
        tracing::debug!(sink = self.sink.id, delivery = %self.due.id, ?attempt, "a webhook was sent");
        let marked = Marked {
            sink: self.sink.number,
            instance: self.due.instance,
            id: self.due.id,
            attempt,
        };
        Sent { marked, asked }
    }

    async fn request(&mut self) -> Result<OutgoingResponse, SendError> {
        let injected = |error: crate::Error| SendError::Failed(error.to_string());
        failpoint::hit("webhook.sending").await.map_err(injected)?;
        let payload = std::mem::take(&mut self.due.payload);
        let body = body(&self.due.event_type, payload, self.due.created_at);
        let (id, timestamp) = (self.due.id.to_string(), self.clock.now().timestamp());
        let signature = signatures(self.sink.secrets(), &id, timestamp, &body);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in [
            (WEBHOOK_ID, id),
            (TIMESTAMP, timestamp.to_string()),
            (SIGNATURE, signature),
        ] {
            // Digits, letters and signs of base64.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        let request = OutgoingRequest {
            method: Method::POST,
            url: self.sink.url.clone(),
            headers,
            body: OutgoingBody::Bytes(Bytes::from(body)),
        };
        let mut response = self.client.send_once(request, self.timeout).await?;
        let mut read = 0;
        while read < MOST_READ {
            match response.next().await {
                Ok(Some(part)) => read += part.len(),
                // The status has come: what the answer says beside it does not matter.
                Ok(None) | Err(_) => break,
            }
        }
        failpoint::hit("webhook.sent").await.map_err(injected)?;
        Ok(response)
    }

    fn judge(&self, response: &OutgoingResponse) -> (Attempt, Option<Duration>) {
        let status = response.status();
        let asked = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let asked = asked.filter(|_| [429, 503].contains(&status));
        let asked = asked.and_then(|text| retry_after(text, self.clock.now()));
        let attempt = match status {
            200..300 => Attempt::Delivered(status),
            410 => Attempt::Gone,
            300..400 => {
                let problem = format!(
                    "the sink answered {status}: a redirect is not followed; register the URL that it leads to"
                );
                self.failed(Some(status), &problem, asked)
            }
            _ => self.failed(Some(status), &format!("the sink answered {status}"), asked),
        };
        (attempt, asked)
    }

    fn failed(&self, status: Option<u16>, error: &str, asked: Option<Duration>) -> Attempt {
        let pause = delivery_pause(self.due.attempts.saturating_add(1));
        Attempt::Failed {
            status,
            error: error
                .chars()
                .filter(|letter| *letter != '\0')
                .take(LONGEST_ERROR)
                .collect(),
            pause: asked.map_or(pause, |asked| asked.max(pause)),
        }
    }
}
