//! Events that webhook sources send.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Engine;
use super::events::event_published;
use super::start::request_key;
use crate::activity::webhook_key;
use crate::execution::stimulus_hash;
use crate::refusals::Refusals;
use crate::runtime::context::request::Idempotency;
use crate::store::event::{self, NewEvent};
use crate::webhook::{SignatureProblem, WebhookSource, WebhookSourceEvent, verify};
use crate::{Error, Result};

/// The longest id of an event that is accepted, in bytes.
const LONGEST_ID: usize = 255;

/// An event as it was received, whose signature is not checked yet.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedWebhook<'a> {
    pub(crate) id: &'a str,
    pub(crate) timestamp: &'a str,
    pub(crate) signature: &'a str,
    /// What was signed.
    pub(crate) body: &'a [u8],
    pub(crate) event_type: &'a str,
    pub(crate) payload: Value,
    /// When it happened, as its sender says.
    pub(crate) occurred_at: Value,
}

/// What became of a received event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebhookReceipt {
    /// It is published, now or under its id before.
    Accepted,
    /// No source has such an event.
    Ignored,
    /// Its signature is not accepted. Nothing was read or written for it.
    Refused(SignatureProblem),
}

/// The events that were ignored or refused: anyone can send them.
#[derive(Debug, Default)]
pub(crate) struct RefusedWebhooks(Refusals);

impl RefusedWebhooks {
    fn note(&self, reason: &'static str) {
        metrics::counter!("mainspring_webhooks_refused_total", "reason" => reason).increment(1);
        if let Some(refused) = self.0.count() {
            tracing::warn!(
                reason,
                refused,
                "webhooks were ignored or refused; the reason is that of the last one"
            );
        }
    }
}

impl Engine {
    /// Whether there is anyone whose events are accepted.
    pub(crate) fn has_webhook_sources(&self) -> bool {
        !self.inner.settings.webhook_sources.is_empty()
    }

    /// Publishes an event of a webhook source, once for its id: to each instance that waits for it and each workflow that it
    /// starts, or else into the inbox. An event without a source is ignored, as in Elsa. Errors: `invalid-webhook`.
    pub(crate) async fn receive_webhook(&self, received: ReceivedWebhook<'_>) -> Result<WebhookReceipt> {
        let all = &self.inner.settings.webhook_sources;
        let sources = all
            .iter()
            .filter_map(|source| Some((source, source.find(received.event_type)?)));
        let sources: Vec<SourceEvent<'_>> = sources.collect();
        if sources.is_empty() {
            self.inner.refused_webhooks.note("unknown");
            return Ok(WebhookReceipt::Ignored);
        }
        if received.signature.is_empty() {
            self.inner.refused_webhooks.note("signature");
            return Ok(WebhookReceipt::Refused(SignatureProblem::Wrong));
        }
        let node = self.accepting()?;
        let is_plain = !received.id.is_empty()
            && received.id.len() <= LONGEST_ID
            && received.id.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain {
            let message = format!("the header webhook-id must have 1 to {LONGEST_ID} visible ASCII characters");
            return Err(Error::invalid("invalid-webhook", message));
        }
        // What is forged costs no statement.
        let now = node.database_now().timestamp();
        let (source, event) = match genuine(&sources, &received, now) {
            Ok(found) => found,
            Err(problem) => {
                self.inner.refused_webhooks.note(match problem {
                    SignatureProblem::Wrong => "signature",
                    SignatureProblem::Stale => "stale",
                });
                return Ok(WebhookReceipt::Refused(problem));
            }
        };
        self.checked("payload", &received.payload)?;
        let type_name = source.activity_type(event);
        let hash = stimulus_hash(&type_name, &webhook_key(received.event_type), None);
        let given = Idempotency {
            // Two sources may give two events one id.
            key: URL_SAFE_NO_PAD.encode(Sha256::digest(format!("{}|{}", source.name, received.id))),
            fingerprint: Sha256::digest(received.body).into(),
        };
        let accept = self.begin_accept(&node, None);
        let published = NewEvent {
            tenant: self.tenant.clone(),
            request: request_key("webhook", given),
            hash,
            name: type_name,
            payload: Some(json!({
                "eventType": received.event_type,
                "payload": received.payload,
                "timestamp": received.occurred_at,
            })),
            correlation_id: None,
            instance: None,
            activity_execution_id: None,
            link: None,
            trace: accept.context.map(|trace| trace.to_string()),
            lifetime: self.inner.settings.inbox_lifetime,
            may_keep: node.kept_events.has_room(&self.tenant, &hash),
        };
        let outcome = event::publish(&node.database.pool, node.database.lock_class(), &published).await?;
        if outcome.no_room {
            return Err(node
                .kept_events
                .refused(&published.tenant, &published.hash, &published.name));
        }
        if outcome.kept || outcome.doubted {
            node.kept_events.arrived.notify_one();
        }
        event_published(&node, &outcome);
        Ok(WebhookReceipt::Accepted)
    }
}

type SourceEvent<'s> = (&'s WebhookSource, &'s WebhookSourceEvent);

/// The source whose signature an event has.
fn genuine<'s>(
    sources: &[SourceEvent<'s>],
    received: &ReceivedWebhook<'_>,
    now: i64,
) -> std::result::Result<SourceEvent<'s>, SignatureProblem> {
    let headers = (received.id, received.timestamp, received.signature);
    let mut problem = SignatureProblem::Wrong;
    for found @ (source, _) in sources {
        match verify(&source.secrets, headers, received.body, now) {
            Ok(()) => return Ok(*found),
            Err(SignatureProblem::Stale) => problem = SignatureProblem::Stale,
            Err(SignatureProblem::Wrong) => {}
        }
    }
    Err(problem)
}
