//! `Elsa.PublishEvent`: publishes an event with the commit of its burst.

use serde_json::Value;

use super::{Activity, ActivityContext, Descriptor, EventPublication, Fault, InputDescriptor, Step, UiHint};

#[derive(Debug)]
pub(super) struct PublishEvent;

impl Activity for PublishEvent {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.PublishEvent")
            .describe(
                "Primitives",
                "Publishes an event to the workflows that wait for it and those that it starts.",
            )
            .input(InputDescriptor::new("EventName", "String").describe("The name of the event, compared exactly."))
            .input(
                InputDescriptor::new("CorrelationId", "String")
                    .describe("Only instances with this correlation id receive the event."),
            )
            .input(
                InputDescriptor::new("IsLocalEvent", "Boolean")
                    .display_name("Local event")
                    .hint(UiHint::Checkbox)
                    .describe("Only this instance receives the event."),
            )
            .input(InputDescriptor::new("Payload", "Object").describe("What the activities that wait receive."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let name = context.text("EventName").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Fault::new("The event has no name: the input EventName is empty"))?;
        let correlation_id = context.text("CorrelationId").filter(|id| !id.trim().is_empty());
        context.publish_event(EventPublication {
            name,
            correlation_id,
            is_local: context.input("IsLocalEvent") == &Value::Bool(true),
            payload: Some(context.input("Payload").clone()).filter(|payload| !payload.is_null()),
        });
        Ok(Step::Done)
    }
}
