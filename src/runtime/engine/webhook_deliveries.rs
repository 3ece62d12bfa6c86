//! Deliveries of webhooks: the lists, and the replay of those that were given up.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::Engine;
use super::webhook_sinks::no_sink;
use crate::elsa_json;
use crate::id::InstanceId;
use crate::runtime::context::request::Page;
use crate::store::code::DeliveryState;
use crate::store::webhook::delivery::{self, DeliveryCursor, DeliveryFilter, Replayed, ShownDelivery};
use crate::wake::WakeNotification;
use crate::{Error, Result};

/// The most deliveries of one replay.
const MOST_REPLAYED: i64 = 1_000;

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum WebhookDeliveryState {
    /// It is to be sent, for the first time or again.
    Pending,
    /// Its sink has it.
    Delivered,
    /// It was given up.
    DeadLetter,
}

/// One event for one sink.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WebhookDelivery {
    /// The id of the event, which its sink receives as `webhook-id`.
    pub id: String,
    /// Its sink; none if that is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink_id: Option<String>,
    /// The type of the event.
    pub event_type: String,
    /// The instance that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_instance_id: Option<InstanceId>,
    /// What became of it.
    pub state: WebhookDeliveryState,
    /// How often it was sent.
    pub attempts: u32,
    /// When a pending one is sent, at the earliest.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub due_at: DateTime<Utc>,
    /// When it was written.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub created_at: DateTime<Utc>,
    /// When it was delivered or given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<DateTime<Utc>>,
    /// What the last attempt was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u16>,
    /// What was wrong with the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A page of deliveries.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDeliveryList {
    /// The deliveries.
    pub items: Vec<WebhookDelivery>,
    /// Where the next page begins; `None` on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Engine {
    /// The deliveries about an instance, the newest first, perhaps in one state.
    pub async fn instance_webhooks(
        &self,
        instance: &InstanceId,
        state: Option<WebhookDeliveryState>,
        cursor: Option<&str>,
        page_size: u32,
    ) -> Result<WebhookDeliveryList> {
        let filter = DeliveryFilter::Instance(instance.as_str(), state.map(DeliveryState::from));
        self.list_webhooks(filter, cursor, page_size).await
    }

    /// What is pending for a sink, the first due first, or its dead letters, the newest first. Errors: `sink-not-found`.
    pub async fn sink_webhooks(
        &self,
        sink: &str,
        dead: bool,
        cursor: Option<&str>,
        page_size: u32,
    ) -> Result<WebhookDeliveryList> {
        self.webhook_sink(sink).await?;
        let filter = if dead {
            DeliveryFilter::DeadFor(sink)
        } else {
            DeliveryFilter::PendingFor(sink)
        };
        self.list_webhooks(filter, cursor, page_size).await
    }

    async fn list_webhooks(
        &self,
        filter: DeliveryFilter<'_>,
        cursor: Option<&str>,
        page_size: u32,
    ) -> Result<WebhookDeliveryList> {
        let after = cursor.map(read_cursor).transpose()?;
        let size = page_size.clamp(1, Page::MAX_SIZE);
        let node = self.node()?;
        let limit = i64::from(size) + 1;
        let mut rows = delivery::list(node.database.reads.lists(), &self.tenant, filter, after, limit).await?;
        let has_more = rows.len() > size as usize;
        rows.truncate(size as usize);
        let place = |row: &ShownDelivery| match filter {
            DeliveryFilter::Instance(..) => row.created_at,
            DeliveryFilter::PendingFor(_) => row.due_at,
            DeliveryFilter::DeadFor(_) => row.ended_at.unwrap_or(row.created_at),
        };
        let last = rows.last().filter(|_| has_more);
        Ok(WebhookDeliveryList {
            next_cursor: last.map(|row| written_cursor(place(row), row)),
            items: rows.into_iter().map(shown).collect(),
        })
    }

    /// Sends a dead letter again, under its id.
    /// Errors: `sink-not-found`, `sink-disabled`, `delivery-not-found`: it is no dead letter of the sink.
    pub async fn replay_webhook(&self, sink: &str, id: &str) -> Result<()> {
        let uuid = delivery::delivery_id(id)?;
        if self.replay(sink, Some(uuid), 1).await? == 0 {
            let message = format!("the webhook sink {sink:?} has no dead letter {id:?}");
            return Err(Error::not_found("delivery-not-found", message));
        }
        Ok(())
    }

    /// Sends the oldest dead letters of a sink again, at most `limit` and at most 1,000 of them; returns how many.
    /// Errors: `sink-not-found`, `sink-disabled`.
    pub async fn replay_webhooks(&self, sink: &str, limit: u32) -> Result<u64> {
        let limit = i64::from(limit).clamp(1, MOST_REPLAYED);
        let replayed = self.replay(sink, None, limit).await?;
        Ok(u64::try_from(replayed).unwrap_or(0))
    }

    async fn replay(&self, sink: &str, id: Option<Uuid>, limit: i64) -> Result<i64> {
        let node = self.accepting()?;
        let replayed = delivery::replay(&self.changes(&node), &self.tenant, sink, id, limit).await?;
        let replayed = match replayed {
            Replayed::Dead(replayed) => replayed,
            Replayed::NoSink => return Err(no_sink(sink)),
            Replayed::Disabled => {
                let message = format!("the webhook sink {sink:?} is disabled: set its isPaused to false first");
                return Err(Error::conflict("sink-disabled", message));
            }
        };
        if replayed > 0 {
            node.webhooks.may_be_due();
            node.notifications.wake.notify([WakeNotification::Deliveries]);
            tracing::info!(sink, replayed, "dead letters of a webhook sink are sent again");
        }
        Ok(replayed)
    }
}

impl From<WebhookDeliveryState> for DeliveryState {
    fn from(state: WebhookDeliveryState) -> Self {
        match state {
            WebhookDeliveryState::Pending => Self::Pending,
            WebhookDeliveryState::Delivered => Self::Delivered,
            WebhookDeliveryState::DeadLetter => Self::DeadLetter,
        }
    }
}

impl From<DeliveryState> for WebhookDeliveryState {
    fn from(state: DeliveryState) -> Self {
        match state {
            DeliveryState::Pending => Self::Pending,
            DeliveryState::Delivered => Self::Delivered,
            DeliveryState::DeadLetter => Self::DeadLetter,
        }
    }
}

fn shown(row: ShownDelivery) -> WebhookDelivery {
    WebhookDelivery {
        id: row.id.to_string(),
        sink_id: row.sink_id,
        event_type: row.event_type,
        workflow_instance_id: Some(row.instance).filter(|id| !id.is_empty()).map(InstanceId::new),
        state: row.state.into(),
        attempts: u32::try_from(row.attempts).unwrap_or(0),
        due_at: row.due_at,
        created_at: row.created_at,
        ended_at: row.ended_at,
        last_status: row.last_status.and_then(|status| u16::try_from(status).ok()),
        last_error: row.last_error,
    }
}

fn written_cursor(at: DateTime<Utc>, row: &ShownDelivery) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}|{}|{}", at.timestamp_micros(), row.id, row.sink.0))
}

fn read_cursor(text: &str) -> Result<DeliveryCursor> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let mut parts = text.split('|');
        let at = DateTime::from_timestamp_micros(parts.next()?.parse().ok()?)?;
        Some((at, Uuid::try_parse(parts.next()?).ok()?, parts.next()?.parse().ok()?))
    };
    read().ok_or_else(|| {
        Error::invalid("invalid-field", "the cursor cannot be read")
            .field("cursor", "it must be the nextCursor of a page")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_that_cannot_be_read_is_refused() {
        let id = Uuid::new_v4();
        let good = URL_SAFE_NO_PAD.encode(format!("1700000000000001|{id}|7"));
        let (at, found, sink) = read_cursor(&good).unwrap();
        assert_eq!((at.timestamp_micros(), found, sink), (1_700_000_000_000_001, id, 7));
        for bad in ["", "%", &URL_SAFE_NO_PAD.encode("7"), &URL_SAFE_NO_PAD.encode("7|x|1")] {
            assert_eq!(read_cursor(bad).unwrap_err().code(), "invalid-field", "{bad}");
        }
    }
}
