//! Tokens with which an external client triggers one event of one instance, and nothing else: what `createEventTriggerUrl`
//! of a script returns. Signed as resume tokens are; nothing is stored per token, so it can be used until it expires.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Engine;
use super::signed_text::{self, Purpose};
use super::start::token_request_key;
use crate::expression::EventUrl;
use crate::id::InstanceId;
use crate::runtime::context::request::{EventAccepted, EventRequest, Idempotency};
use crate::store::token;
use crate::{Error, Result};

const PURPOSE: Purpose = Purpose("event token");

/// Elsa's route, up to the token.
const ROUTE: &str = "/elsa/api/events/trigger?t=";

/// The content of a token.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Payload {
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    #[serde(rename = "i")]
    instance: InstanceId,
    #[serde(rename = "n")]
    event: String,
    /// Milliseconds since 1970.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
}

/// A valid token: its signature is genuine, and it had not expired when it was verified.
#[derive(Debug)]
pub struct GoodEventToken(Payload);

impl Engine {
    /// Lets scripts make URLs from now on.
    pub(super) async fn sign_event_urls(&self) -> Result<()> {
        let key = self.token_key().await?.to_vec();
        let tenant = self.inner.tenant.as_str().to_owned();
        let base = self.inner.settings.public_url.clone().unwrap_or_default();
        let sign = move |url: &EventUrl<'_>| {
            let payload = Payload {
                tenant: tenant.clone(),
                instance: url.instance.into(),
                event: url.event.to_owned(),
                expires: url.expires.map(|at| at.timestamp_millis()),
            };
            let token = signed_text::write(&key, PURPOSE, &payload).ok()?;
            // A longer one could not be read.
            signed_text::parts(&token)?;
            Some(format!("{}{ROUTE}{token}", base.trim_end_matches('/')))
        };
        self.inner.interpreter.options().script.event_urls.sign_with(sign);
        Ok(())
    }

    /// Verifies an event token, before anything else of a request is read. One that this cluster has not signed, or that has
    /// expired by the database's clock: [`Error::is_invalid`], codes `invalid-token` and `token-expired`; they are counted.
    /// Cancellation safe.
    pub async fn verify_event_token(&self, text: &str) -> Result<GoodEventToken> {
        let read = async {
            // A forged token costs no statement.
            let parts = signed_text::parts(text).ok_or_else(invalid)?;
            let payload: Payload = signed_text::read(self.token_key().await?, PURPOSE, parts)?.ok_or_else(invalid)?;
            if payload.tenant != self.inner.tenant.as_str() {
                return Err(invalid());
            }
            if payload.expires.is_some() {
                payload.good_at(token::clock(&self.node()?.database.pool).await?)?;
            }
            Ok(GoodEventToken(payload))
        };
        read.await.inspect_err(|error| self.inner.refused_tokens.note(error))
    }

    /// Triggers the event of a token; see [`Engine::trigger_event`]. Each use is logged, without the token. Cancellation
    /// safe: an event that was accepted goes on.
    pub async fn trigger_event_by_token(
        &self,
        GoodEventToken(payload): GoodEventToken,
        idempotency: Option<Idempotency>,
    ) -> Result<EventAccepted> {
        tracing::info!(instance = %payload.instance, event = payload.event, "an event by token");
        let target = [payload.instance.as_str(), payload.event.as_str()];
        let key = idempotency.map(|given| token_request_key("token-event", target, given));
        let request = EventRequest {
            name: payload.event,
            instance_id: Some(payload.instance),
            ..EventRequest::default()
        };
        self.trigger_event_once(request, key).await
    }
}

impl Payload {
    fn good_at(&self, now: DateTime<Utc>) -> Result<()> {
        if self.expires.is_some_and(|expires| expires <= now.timestamp_millis()) {
            return Err(Error::invalid("token-expired", "this token has expired").field("t", "has expired"));
        }
        Ok(())
    }
}

fn invalid() -> Error {
    Error::invalid("invalid-token", "this is no token of this engine").field("t", "is no token of this engine")
}
