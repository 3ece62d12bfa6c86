//! The receivers of events: what clients register, change and delete.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Engine;
use crate::elsa_json;
use crate::runtime::context::node_context::NodeContext;
use crate::store::webhook::sink::{self, Registered, ShownSink};
use crate::wake::WakeNotification;
use crate::webhook::{MOST_SINKS, WebhookSecret, WebhookSink, WebhookSinkChange, check_url};
use crate::{Error, Result};

/// The longest time for which a replaced secret signs as well.
const LONGEST_OVERLAP: Duration = Duration::from_secs(30 * 24 * 3600);

/// Whether a sink is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum WebhookSinkState {
    /// It takes what it is sent, as far as is known.
    Active,
    /// It fails, and is tried again at `retry_at`.
    Failing,
    /// Events are written for it, and wait.
    Paused,
    /// It has answered that it is gone: nothing is written for it.
    Disabled,
}

/// A receiver of events, without its secret.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WebhookSinkSummary {
    /// Its id.
    pub id: String,
    /// What an operator calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the events go.
    pub url: String,
    /// The types of its events; all, if it is empty.
    pub event_types: Vec<String>,
    /// The definitions of its events; all, if it is empty.
    pub definition_ids: Vec<String>,
    /// Whether it is sent to.
    pub state: WebhookSinkState,
    /// An operator has paused it, or it has left the settings.
    pub is_paused: bool,
    /// It comes from the settings of a node: the API only pauses it.
    pub is_configured: bool,
    /// Why it fails, is disabled, or is paused by a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Rounds in a row without a success.
    pub failures: u32,
    /// When one that fails is tried again, by the database's clock.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub retry_at: DateTime<Utc>,
    /// How long a delivery is tried before it is given up.
    pub retry_for_seconds: u64,
    /// Until when the secret before the current one signs as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_secret_until: Option<DateTime<Utc>>,
    /// What waits to be sent, counted up to 10,001; only of a sink that is shown by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<u64>,
    /// What was given up, counted up to 10,001; only of a sink that is shown by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<u64>,
    /// When it was registered.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub created_at: DateTime<Utc>,
    /// When it was changed.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub updated_at: DateTime<Utc>,
}

impl Engine {
    /// The receivers of events, in the order of their ids.
    pub async fn webhook_sinks(&self) -> Result<Vec<WebhookSinkSummary>> {
        let node = self.node()?;
        let rows = sink::show(node.database.reads.lists(), &self.tenant, None).await?;
        Ok(rows.into_iter().map(summary).collect())
    }

    /// One of them. Errors: `sink-not-found`.
    pub async fn webhook_sink(&self, id: &str) -> Result<WebhookSinkSummary> {
        let node = self.node()?;
        let rows = sink::show(node.database.reads.by_key(), &self.tenant, Some(id)).await?;
        rows.into_iter().next().map(summary).ok_or_else(|| no_sink(id))
    }

    /// Registers a receiver. It receives what this node commits from then on, and what other nodes commit from their next check-in on
    /// at the latest.
    /// Errors: `invalid-sink`, `sink-url-denied`, `sink-exists`, `too-many-sinks`.
    pub async fn add_webhook_sink(&self, sink: &WebhookSink) -> Result<WebhookSinkSummary> {
        let node = self.accepting()?;
        sink.check()?;
        self.admits_sink(&sink.url).await?;
        match sink::insert(&self.changes(&node), &self.tenant, sink, false).await? {
            Registered::Made => {}
            Registered::Taken => {
                let message = format!(
                    "there is a webhook sink {:?} already; change it by PUT, or give another id",
                    sink.id
                );
                return Err(Error::conflict("sink-exists", message));
            }
            Registered::Full => {
                let message = format!("there are {MOST_SINKS} webhook sinks already; delete some");
                return Err(Error::conflict("too-many-sinks", message));
            }
        }
        sinks_changed(&node).await;
        tracing::info!(sink = sink.id, "a webhook sink was registered");
        self.sink_shown(&node, &sink.id).await
    }

    /// Changes a receiver. Errors: `sink-not-found`, `sink-configured`, and those of [`Engine::add_webhook_sink`].
    pub async fn change_webhook_sink(&self, id: &str, change: WebhookSinkChange) -> Result<WebhookSinkSummary> {
        let node = self.accepting()?;
        change.check()?;
        if let Some(url) = &change.url {
            self.admits_sink(url).await?;
        }
        if !sink::update(&self.changes(&node), &self.tenant, id, &change, None).await? {
            return Err(self.sink_not_changed(&node, id).await?);
        }
        sinks_changed(&node).await;
        tracing::info!(sink = id, "a webhook sink was changed");
        self.sink_shown(&node, id).await
    }

    /// Gives a receiver another secret. Until `overlap` has passed, the one before signs as well.
    /// Errors: `sink-not-found`, `sink-configured`, `invalid-sink`.
    pub async fn rotate_webhook_secret(&self, id: &str, secret: &WebhookSecret, overlap: Duration) -> Result<()> {
        let node = self.accepting()?;
        if overlap > LONGEST_OVERLAP {
            let message = "the overlap of two secrets of a webhook sink is too long";
            let most = format!("must be at most {}", LONGEST_OVERLAP.as_secs());
            return Err(Error::invalid("invalid-sink", message).field("overlapSeconds", most));
        }
        if !sink::rotate(&self.changes(&node), &self.tenant, id, secret, overlap).await? {
            return Err(self.sink_not_changed(&node, id).await?);
        }
        sinks_changed(&node).await;
        tracing::info!(sink = id, "the secret of a webhook sink was rotated");
        Ok(())
    }

    /// Deletes a receiver, with what waits for it. Errors: `sink-not-found`, `sink-configured`.
    pub async fn delete_webhook_sink(&self, id: &str) -> Result<()> {
        let node = self.accepting()?;
        if !sink::delete(&self.changes(&node), &self.tenant, id).await? {
            return Err(self.sink_not_changed(&node, id).await?);
        }
        sinks_changed(&node).await;
        tracing::info!(sink = id, "a webhook sink was deleted");
        Ok(())
    }

    /// Makes the sinks of the settings those that this node has been given. No name is looked up: that can take long, and every
    /// connection is checked anyway.
    pub(super) async fn configure_webhooks(&self) -> Result<()> {
        let Some(sinks) = &self.inner.settings.webhook_sinks else {
            return Ok(());
        };
        let node = self.node()?;
        for sink in sinks {
            let admitted = self.http_services().outgoing.admits_unresolved(&check_url(&sink.url)?);
            admitted.map_err(denied)?;
        }
        let left = sink::configure(&node.database.pool, &self.tenant, sinks).await?;
        if !left.is_empty() {
            tracing::warn!(sinks = ?left, "webhook sinks that the settings do not have any more are paused");
        }
        sinks_changed(&node).await;
        Ok(())
    }

    async fn admits_sink(&self, url: &str) -> Result<()> {
        let url = check_url(url)?;
        self.http_services().outgoing.admits(&url).await.map_err(denied)
    }

    async fn sink_shown(&self, node: &NodeContext, id: &str) -> Result<WebhookSinkSummary> {
        let rows = sink::show(&node.database.pool, &self.tenant, Some(id)).await?;
        rows.into_iter().next().map(summary).ok_or_else(|| no_sink(id))
    }

    async fn sink_not_changed(&self, node: &NodeContext, id: &str) -> Result<Error> {
        let rows = sink::show(&node.database.pool, &self.tenant, Some(id)).await?;
        if rows.is_empty() {
            return Ok(no_sink(id));
        }
        let message = format!(
            "the webhook sink {id:?} comes from the settings of a node: change it there; here it can be paused"
        );
        Ok(Error::conflict("sink-configured", message))
    }
}

/// This node knows the change at once, the others soon.
async fn sinks_changed(node: &NodeContext) {
    node.webhooks.expire();
    node.notifications.wake.notify([WakeNotification::SinksChanged]);
    if let Err(error) = node.webhooks.refresh(&node.database.pool).await {
        tracing::debug!(%error, "the webhook sinks are read again later");
    }
}

fn denied(reason: String) -> Error {
    let message = format!("the webhook sink cannot be used: {reason}");
    Error::invalid("sink-url-denied", message).field("url", "leads to a target that this server denies")
}

pub(super) fn no_sink(id: &str) -> Error {
    Error::not_found("sink-not-found", format!("there is no webhook sink {id:?}"))
}

fn summary(row: ShownSink) -> WebhookSinkSummary {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    WebhookSinkSummary {
        state: match (row.disabled_at, row.paused, row.failures) {
            (Some(_), ..) => WebhookSinkState::Disabled,
            (None, true, _) => WebhookSinkState::Paused,
            (None, false, 1..) => WebhookSinkState::Failing,
            _ => WebhookSinkState::Active,
        },
        id: row.id,
        name: row.name,
        url: row.url,
        event_types: row.event_types,
        definition_ids: row.definitions,
        is_paused: row.paused,
        is_configured: row.is_configured,
        note: row.note,
        failures: u32::try_from(row.failures).unwrap_or(0),
        retry_at: row.retry_at,
        retry_for_seconds: count(row.retry_for),
        previous_secret_until: row.previous_until,
        pending: row.pending.map(count),
        dead_letters: row.dead_letters.map(count),
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}
