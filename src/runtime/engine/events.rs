//! Events.

use super::Engine;
use super::start::{LONGEST_ID, request_key};
use crate::execution::event_hash;
use crate::id::InstanceId;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::{EventAccepted, EventRequest, NO_CONTROLS, is_plain, plain_correlation_id};
use crate::store::code::SubStatusCode;
use crate::store::event::{self, NewEvent, PublishedEvent};
use crate::store::instance;
use crate::store::link::LinkUse;
use crate::store::request::{IdempotencyKey, find_request};
use crate::{Error, Result};

impl Engine {
    /// Publishes an event once: to every bookmark that waits for it and to every published trigger, or else into the inbox,
    /// where the first bookmark that begins to wait for it finds it. Returns when that is durable; the bursts follow.
    /// [`Error::is_over_budget`], code `inbox-full`, if nothing waits for it and the inbox has no room for it.
    pub async fn trigger_event(&self, mut request: EventRequest) -> Result<EventAccepted> {
        let key = request.idempotency.take().map(|given| request_key("event", given));
        self.trigger_event_once(request, key, None)
            .await
            .map(|(accepted, _)| accepted)
    }

    /// The same under this key, instead of that of the request, and by a resume link, which is used once more. With whether it
    /// repeats an event that was published before under the key.
    pub(super) async fn trigger_event_once(
        &self,
        request: EventRequest,
        given: Option<IdempotencyKey>,
        link: Option<LinkUse>,
    ) -> Result<(EventAccepted, bool)> {
        let node = self.accepting()?;
        if request.name.is_empty() {
            let message = "an event has a name";
            return Err(Error::invalid("invalid-event", message).field("eventName", "must not be empty"));
        }
        if !is_plain(&request.name) {
            let message = "the name of an event has no control characters";
            return Err(Error::invalid("invalid-event", message).field("eventName", NO_CONTROLS));
        }
        plain_correlation_id(request.correlation_id.as_deref())?;
        self.checked("eventName", &request.name)?;
        self.checked("correlationId", &request.correlation_id)?;
        self.checked("input", &request.input)?;
        let execution = request.activity_execution_id.as_deref().unwrap_or_default();
        if execution.len() > LONGEST_ID {
            let message = "the id of an activity execution has at most 255 bytes";
            return Err(
                Error::invalid("invalid-event", message).field("activityInstanceId", "must have at most 255 bytes")
            );
        }
        if let Some(id) = &request.instance_id {
            self.check_target(&node, id, given.as_ref()).await?;
        }
        let request_key = match given {
            Some(given) => given,
            None => IdempotencyKey::random("event"),
        };
        let hash = event_hash(&request.name);
        let accept = self.begin_accept(&node, None);
        let event = NewEvent {
            tenant: self.tenant.clone(),
            request: request_key,
            hash,
            name: "Elsa.Event".to_owned(),
            payload: request.input,
            correlation_id: request.correlation_id,
            instance: request.instance_id,
            activity_execution_id: request.activity_execution_id,
            lifetime: self.inner.settings.inbox_lifetime,
            may_keep: node.kept_events.has_room(&self.tenant, &hash),
            link,
            trace: accept.context.map(|trace| trace.to_string()),
        };
        let published = event::publish(&self.changes(&node), node.database.lock_class(), &event).await?;
        drop(accept);
        if published.no_room {
            return Err(node.kept_events.refused(&event.tenant, &event.hash, &request.name));
        }
        if published.kept || published.doubted {
            node.kept_events.arrived.notify_one();
        }
        for workflow in &published.refused {
            tracing::info!(
                workflow,
                event = request.name,
                "the activation strategy of the workflow refused a start by an event"
            );
        }
        Ok((event_published(&node, &published), published.is_repeated))
    }

    /// Refuses an event for an instance that has faulted. A repetition under an idempotency key still gets its first answer,
    /// because the event may have caused the fault.
    async fn check_target(&self, node: &NodeContext, id: &InstanceId, key: Option<&IdempotencyKey>) -> Result<()> {
        // Without the state: an instance may wait at thousands of bookmarks.
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        match instance::find_summary(pool, tenant, id).await? {
            Some(row) if row.sub_status == SubStatusCode::Faulted.number() => {}
            Some(_) => return Ok(()),
            // One that has not yet run, or none.
            None => return self.instance_by_key(id).await.map(drop),
        }
        if let Some(key) = key
            && find_request(&node.database.pool, &self.tenant, key).await?.is_some()
        {
            return Ok(());
        }
        Err(self.not_waiting(id).await?)
    }
}

/// An event became rows: pollers are woken for them. Returns what became of it.
pub(super) fn event_published(node: &NodeContext, published: &PublishedEvent) -> EventAccepted {
    // Of an event in doubt there may be any number of rows.
    let rows = published.resumed + published.started + u64::from(published.doubted);
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    if published.fan_out.is_some() || published.doubted {
        node.claims.fan_outs.notify_one();
    }
    if rows > 0 {
        node.work_accepted(None, None, rows);
    }
    EventAccepted {
        resumed: published.resumed,
        started: published.started,
        kept: published.kept,
        refused: published.refused.len() as u64,
        fan_out: published.fan_out,
    }
}
