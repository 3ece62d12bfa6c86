//! `Webhooks.<Source>.<Event>`: waits for an event of a webhook source, or starts an instance with one.

use serde_json::{Map, Value, json};

use super::{
    Activity, ActivityContext, ActivityKind, BookmarkRequest, Catalogue, Descriptor, Fault, InputDescriptor,
    OutputDescriptor, Resumption, Step,
};
use crate::webhook::WebhookSource;
use crate::{Error, Result};

/// The input in which, as in Elsa, an instance has the event that has started or resumed it.
const WEBHOOK_INPUT: &str = "WebhookEvent";

/// What a stimulus of such an activity is hashed from, beside the type of the activity.
pub(crate) fn webhook_key(event_type: &str) -> Value {
    json!({ "eventType": event_type })
}

/// The activity of one type of events of one source.
#[derive(Debug)]
struct WebhookEvent {
    descriptor: Descriptor,
    event_type: String,
}

impl Activity for WebhookEvent {
    fn descriptor(&self) -> Descriptor {
        self.descriptor.clone()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> std::result::Result<Step, Fault> {
        if let Some(event) = context.started_by().cloned() {
            give(context, event);
            return Ok(Step::Done);
        }
        context.bookmark(BookmarkRequest::new(webhook_key(&self.event_type)));
        Ok(Step::Wait)
    }

    async fn resumed(
        &self,
        context: &mut ActivityContext<'_>,
        resumption: Resumption,
    ) -> std::result::Result<Step, Fault> {
        let event = resumption
            .payload
            .or_else(|| resumption.input.get(WEBHOOK_INPUT).cloned());
        give(context, event.unwrap_or_default());
        Ok(Step::Done)
    }

    fn trigger_payload(&self, _inputs: &Map<String, Value>) -> Option<Value> {
        Some(webhook_key(&self.event_type))
    }
}

fn give(context: &mut ActivityContext<'_>, event: Value) {
    let payload = event.get("payload").cloned().unwrap_or_default();
    context.set_workflow_input(WEBHOOK_INPUT, event.clone());
    context.set_output("Payload", payload);
    context.set_output("Result", event);
}

impl Catalogue {
    /// Adds the activities of a source.
    /// Errors: `invalid-settings`: another source has one of the same type.
    pub(crate) fn register_webhooks(&mut self, source: &WebhookSource) -> Result<&mut Self> {
        for event in &source.events {
            let type_name = source.activity_type(event);
            if self.find(&type_name, 1).is_some() {
                let message = format!(
                    "the webhook source {:?} cannot be used: another activity has the type {type_name}; give the event another activityType",
                    source.name
                );
                return Err(Error::invalid("invalid-settings", message));
            }
            let description = match &event.description {
                Some(text) => text.clone(),
                None => format!("Handles {} webhook events", event.event_type),
            };
            let hidden = |name: &str, value: &str| InputDescriptor::new(name, "String").default(value).hidden();
            let descriptor = Descriptor::new(type_name)
                .describe(source.name.clone(), description)
                .kind(ActivityKind::Trigger)
                .input(hidden("EventType", &event.event_type).describe("The webhook event type to be received."))
                .input(hidden("PayloadType", &event.payload_type).describe("The type of the payload."))
                .output(
                    OutputDescriptor::new("Payload", event.payload_type.clone())
                        .describe("The webhook payload, if any."),
                )
                .output(
                    OutputDescriptor::new("Result", "Object").describe("The event: eventType, payload and timestamp."),
                );
            let descriptor = match &event.display_name {
                Some(name) => descriptor.display_name(name.clone()),
                None => descriptor,
            };
            self.register(WebhookEvent {
                descriptor,
                event_type: event.event_type.clone(),
            });
        }
        Ok(self)
    }
}
