//! What a burst causes for the sinks of webhooks.

use crate::activity::RUN_TASK;
use crate::execution::{BurstResult, Status, SubStatus};
use crate::id::{InstanceId, TenantId};
use crate::runtime::context::node_context::NodeContext;
use crate::store::commit::{DefinitionRef, DeliveryRow, Effects};
use crate::webhook::{EventType, InstanceEvent, event_id};
use crate::weight;

/// A burst, of which events are made.
pub(super) struct BurstOf<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) instance: &'a InstanceId,
    pub(super) definition: &'a DefinitionRef,
    /// The name of the definition.
    pub(super) name: Option<&'a str>,
    /// What set it off: the same when it is repeated.
    pub(super) cause: String,
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
    let wants = |event: EventType| node.webhooks.wants(burst.tenant, event, definition);
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
    let id = |what: &str| event_id(&[burst.tenant.as_str(), burst.instance.as_str(), &burst.cause, what]);
    for event in events(burst, result)
        .into_iter()
        .flatten()
        .filter(|event| wants(*event))
    {
        let text = event.as_str();
        effects.deliveries.push(row(text, id(text), about.payload(event)));
    }
    if wants(EventType::RunTask) {
        for task in result
            .bookmarks_created
            .iter()
            .filter(|bookmark| bookmark.name == RUN_TASK)
        {
            let field = |name: &str| task.payload.get(name).unwrap_or(&serde_json::Value::Null);
            let payload = about.task(field("taskId"), field("taskName"), field("payload"));
            let execution = task.activity_execution_id.as_str();
            effects
                .deliveries
                .push(row(EventType::RunTask.as_str(), id(execution), payload));
        }
    }
    let payloads = effects
        .deliveries
        .iter()
        .map(|delivery| weight::json(&delivery.payload));
    effects.payload_bytes += payloads.sum::<usize>();
}

fn row(event_type: &str, id: uuid::Uuid, payload: serde_json::Value) -> DeliveryRow {
    DeliveryRow {
        id,
        event_type: event_type.to_owned(),
        payload,
        ..DeliveryRow::default()
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
