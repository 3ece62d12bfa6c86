//! What a burst causes for the sinks of webhooks.

use crate::activity::RUN_TASK;
use crate::execution::{Bookmark, BurstResult, Status, SubStatus};
use crate::id::{BurstId, InstanceId, TenantId};
use crate::runtime::context::node_context::NodeContext;
use crate::store::commit::{DefinitionRef, DeliveryRow, Effects};
use crate::store::webhook::sink::SinkNumber;
use crate::webhook::{EventType, InstanceEvent, event_id};

/// A burst, of which events are made.
pub(super) struct BurstOf<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) instance: &'a InstanceId,
    pub(super) definition: &'a DefinitionRef,
    /// The name of the definition.
    pub(super) name: Option<&'a str>,
    /// By which its commit is known.
    pub(super) id: BurstId,
    /// The instance begins with it.
    pub(super) is_first: bool,
    /// The instance had ended before it.
    pub(super) had_ended: bool,
    /// Something of what it was for has met the instance.
    pub(super) has_met: bool,
}

/// Adds the deliveries of a burst, if a sink wants any.
pub(super) fn add(node: &NodeContext, burst: &BurstOf<'_>, result: &BurstResult, effects: &mut Effects) {
    if !node.webhooks.has_sinks() {
        return;
    }
    let definition = burst.definition.definition_id.as_str();
    let sinks = |event: EventType| node.webhooks.wanting(burst.tenant, event, definition);
    let about = InstanceEvent {
        instance: burst.instance.as_str(),
        definition,
        version_id: burst.definition.version_id.as_str(),
        version: burst.definition.version,
        tenant: burst.tenant.as_str(),
        name: burst.name,
        correlation_id: result.correlation_id.as_deref(),
        status: result.status.as_str(),
        sub_status: result.sub_status.as_str(),
        incidents: result.incident_count,
    };
    let id = |what: &str| event_id(&[&burst.id.0.to_string(), what]);
    for event in events(burst, result).into_iter().flatten() {
        let of_event = sinks(event);
        if !of_event.is_empty() {
            push(effects, &of_event, row(event, id(event.as_str()), about.payload(event)));
        }
    }
    let made = result.bookmarks_created.iter();
    let tasks: Vec<&Bookmark> = made.filter(|bookmark| bookmark.name == RUN_TASK).collect();
    let of_tasks = match tasks.is_empty() {
        true => Vec::new(),
        false => sinks(EventType::RunTask),
    };
    for task in tasks.into_iter().filter(|_| !of_tasks.is_empty()) {
        let field = |name: &str| task.payload.get(name).unwrap_or(&serde_json::Value::Null);
        let payload = about.task(field("taskId"), field("taskName"), field("payload"));
        // The bookmark is the only one of its instance with its id.
        push(
            effects,
            &of_tasks,
            row(EventType::RunTask, id(task.id.as_str()), payload),
        );
    }
}

/// Adds an event, with the weight of the rows that its sinks make of it.
fn push(effects: &mut Effects, sinks: &[SinkNumber], event: DeliveryRow) {
    effects.payload_bytes += event.payload.len().saturating_mul(sinks.len());
    effects.delivery_sinks.extend(sinks.iter().map(|sink| sink.0));
    effects.deliveries.push(event);
}

fn row(event: EventType, id: uuid::Uuid, payload: String) -> DeliveryRow {
    DeliveryRow {
        no: 0,
        id,
        event_type: event.as_str(),
        payload,
    }
}

/// The events of the instance: that it begins, and what it has come to.
fn events(burst: &BurstOf<'_>, result: &BurstResult) -> [Option<EventType>; 2] {
    let begins = burst.is_first.then_some(EventType::Started);
    let reached = match (result.status, result.sub_status) {
        // What comes for an instance that has ended changes nothing of that.
        (Status::Finished, _) if burst.had_ended => None,
        (Status::Finished, SubStatus::Faulted) => Some(EventType::Faulted),
        (Status::Finished, SubStatus::Cancelled) => Some(EventType::Cancelled),
        (Status::Finished, _) => Some(EventType::Finished),
        (Status::Running, _) if result.yielded || !burst.has_met => None,
        (Status::Running, _) => Some(EventType::Suspended),
    };
    [begins, reached]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_weighs_its_payload_for_each_sink() {
        let mut effects = Effects::default();
        let payload = "x".repeat(1_000);
        for (sinks, id) in [
            (vec![SinkNumber(1), SinkNumber(2), SinkNumber(3)], 1),
            (vec![SinkNumber(2)], 2),
        ] {
            let event = row(EventType::Finished, uuid::Uuid::from_u128(id), payload.clone());
            push(&mut effects, &sinks, event);
        }
        assert_eq!((effects.payload_bytes, effects.deliveries.len()), (4_000, 2));
        assert_eq!(effects.delivery_sinks, [1, 2, 3, 2]);
    }
}
