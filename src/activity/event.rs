//! `Elsa.Event`: waits for a named event, or starts an instance with it. Names are compared exactly.

use serde_json::{Map, Value, json};

use super::{
    Activity, ActivityContext, ActivityKind, BookmarkRequest, Descriptor, Fault, InputDescriptor, Resumption, Step,
};

/// The input under which Elsa passes the payload of an event to the instance that it resumes.
pub const EVENT_PAYLOAD_INPUT: &str = "__EventPayloadWorkflowInput";

#[derive(Debug)]
pub(super) struct Event;

impl Activity for Event {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Event")
            .describe("Primitives", "Waits for an event to be published.")
            .kind(ActivityKind::Trigger)
            .input(InputDescriptor::new("EventName", "String").describe("The name of the event."))
            .output("Result", "Object")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        if let Some(payload) = context.started_by().cloned() {
            context.set_output("Result", payload);
            return Ok(Step::Done);
        }
        let name = context.text("EventName").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Fault::new("The event to wait for has no name: the input EventName is empty"))?;
        context.bookmark(BookmarkRequest::new(payload(&name)));
        Ok(Step::Wait)
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        let payload = resumption
            .payload
            .or_else(|| resumption.input.get(EVENT_PAYLOAD_INPUT).cloned());
        context.set_output("Result", payload.unwrap_or_default());
        Ok(Step::Done)
    }

    fn trigger_payload(&self, inputs: &Map<String, Value>) -> Option<Value> {
        let name = inputs
            .get("EventName")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())?;
        Some(payload(name))
    }
}

fn payload(name: &str) -> Value {
    json!({ "eventName": name })
}
