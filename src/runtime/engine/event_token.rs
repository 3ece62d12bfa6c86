//! Tokens with which an external client can trigger one event of one instance, and nothing else. A script's
//! `createEventTriggerUrl` returns them. A token can be used until it expires.

use serde::{Deserialize, Serialize};

use super::Engine;
use super::signed_token::{Permission, SignedToken};
use super::start::token_request_key;
use crate::Result;
use crate::expression::EventUrl;
use crate::id::InstanceId;
use crate::runtime::context::request::{EventAccepted, EventRequest, Idempotency};

/// Elsa's route, up to the token.
const ROUTE: &str = "/elsa/api/events/trigger?t=";

/// The event that a token triggers.
#[derive(Debug, Serialize, Deserialize)]
struct EventPermission {
    #[serde(rename = "i")]
    instance: InstanceId,
    #[serde(rename = "n")]
    event: String,
}

impl Permission for EventPermission {
    const PURPOSE: &'static str = "event token";
    const PARAMETER: &'static str = "t";
}

/// A valid token: its signature is genuine, and it had not expired when it was verified.
#[derive(Debug)]
pub struct VerifiedEventToken(EventPermission);

impl Engine {
    /// Lets scripts make URLs from now on.
    pub(super) async fn sign_event_urls(&self) -> Result<()> {
        let key = self.token_key().await?.to_vec();
        let tenant = self.inner.tenant.as_str().to_owned();
        let base = self.inner.settings.public_url.clone().unwrap_or_default();
        let sign = move |url: &EventUrl<'_>| {
            let token = SignedToken {
                tenant: tenant.clone(),
                permission: EventPermission {
                    instance: url.instance.into(),
                    event: url.event.to_owned(),
                },
                expires: url.expires.map(|at| at.timestamp_millis()),
            };
            let token = token.write(&key).ok()?;
            Some(format!("{}{ROUTE}{token}", base.trim_end_matches('/')))
        };
        self.inner.interpreter.options().script.event_urls.sign_with(sign);
        Ok(())
    }

    /// Verifies an event token, before anything else of a request is read. A token that this cluster has not signed, or that
    /// has expired by the database's clock, is refused with [`Error::is_invalid`](crate::Error::is_invalid), codes
    /// `invalid-token` and `token-expired`; refusals are counted. Cancellation safe.
    pub async fn verify_event_token(&self, text: &str) -> Result<VerifiedEventToken> {
        Ok(VerifiedEventToken(self.permission(text).await?))
    }

    /// Triggers the event of a token; see [`Engine::trigger_event`]. Each use is logged, without the token. Cancellation
    /// safe: an accepted event continues.
    pub async fn trigger_event_by_token(
        &self,
        VerifiedEventToken(permission): VerifiedEventToken,
        idempotency: Option<Idempotency>,
    ) -> Result<EventAccepted> {
        tracing::info!(instance = %permission.instance, event = permission.event, "an event by token");
        let target = [permission.instance.as_str(), permission.event.as_str()];
        let key = idempotency.map(|given| token_request_key("token-event", target, given));
        let request = EventRequest {
            name: permission.event,
            instance_id: Some(permission.instance),
            ..EventRequest::default()
        };
        self.trigger_event_once(request, key).await
    }
}
