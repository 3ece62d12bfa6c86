//! Elsa's primitives that touch one value each: `Elsa.Event`, `Elsa.SetVariable`, `Elsa.SetName`, `Elsa.Correlate`,
//! `Elsa.SetOutput`, `Elsa.WriteLine` and `Elsa.Fault`.

use serde_json::{Map, Value, json};

use super::{
    Activity, ActivityContext, ActivityKind, BookmarkRequest, Descriptor, Fault, InputDescriptor, OutputDescriptor,
    Resumption, Step, UiHint,
};

/// The input in which, as in Elsa, an instance has the payload of the event that has started or resumed it.
pub const EVENT_PAYLOAD_INPUT: &str = "__EventPayloadWorkflowInput";

#[derive(Debug)]
pub(super) struct Event;

impl Activity for Event {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Event")
            .describe("Primitives", "Waits for an event to be published.")
            .kind(ActivityKind::Trigger)
            .input(InputDescriptor::new("EventName", "String").describe("The name of the event."))
            .output(OutputDescriptor::new("Result", "Object").describe("The payload of the event."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        if let Some(payload) = context.started_by().cloned() {
            give(context, payload);
            return Ok(Step::Done);
        }
        let name = context.text("EventName").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Fault::new("The event has no name: the input EventName is empty"))?;
        context.bookmark(BookmarkRequest::new(payload(&name)));
        Ok(Step::Wait)
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        let payload = resumption
            .payload
            .or_else(|| resumption.input.get(EVENT_PAYLOAD_INPUT).cloned());
        give(context, payload.unwrap_or_default());
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

/// Goes on with the payload of an event; without one it is empty, as in Elsa.
fn give(context: &mut ActivityContext<'_>, payload: Value) {
    let payload = match payload {
        Value::Null => json!({}),
        payload => payload,
    };
    context.set_workflow_input(EVENT_PAYLOAD_INPUT, payload.clone());
    context.set_output("Result", payload);
}

fn payload(name: &str) -> Value {
    json!({ "eventName": name })
}

#[derive(Debug)]
pub(super) struct SetVariable;

impl Activity for SetVariable {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.SetVariable")
            .describe("Primitives", "Assigns a value to a variable.")
            .input(
                InputDescriptor::new("Variable", "Variable")
                    .raw()
                    .hint(UiHint::VariablePicker)
                    .describe("The variable to assign to."),
            )
            .input(InputDescriptor::new("Value", "Object").describe("The value to assign."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        // The designer writes the whole variable; a definition written by hand has its name.
        let variable = match context.node().property("variable") {
            Some(Value::String(name)) => name.as_str(),
            Some(Value::Object(variable)) => {
                let text = |key: &str| {
                    variable
                        .get(key)
                        .and_then(Value::as_str)
                        .filter(|text| !text.is_empty())
                };
                text("id").or_else(|| text("name")).unwrap_or_default()
            }
            _ => "",
        };
        // As in Elsa, an empty choice sets nothing, of which the publish warns. A variable that is not there is a fault.
        if !variable.is_empty() {
            let value = context.input("Value").clone();
            context.set_variable(variable, value);
        }
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(super) struct SetName;

impl Activity for SetName {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.SetName")
            .describe("Primitives", "Sets the name of the workflow instance.")
            .input(
                InputDescriptor::new("Value", "String")
                    .default("")
                    .describe("The name."),
            )
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let name = context.text("Value");
        context.set_instance_name(name);
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(super) struct Correlate;

impl Activity for Correlate {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Correlate")
            .describe("Primitives", "Sets the correlation id of the workflow instance.")
            .input(InputDescriptor::new("CorrelationId", "String").describe("The correlation id."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let id = context.text("CorrelationId");
        context.set_correlation_id(id);
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(super) struct SetOutput;

impl Activity for SetOutput {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.SetOutput")
            .describe("Composition", "Assigns a value to an output of the workflow.")
            .input(
                InputDescriptor::new("OutputName", "String")
                    .hint(UiHint::OutputPicker)
                    .describe("The output to assign."),
            )
            .input(InputDescriptor::new("OutputValue", "Object").describe("The value to assign."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let name = context.text("OutputName").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Fault::new("No output is chosen: the input OutputName is empty"))?;
        let value = context.input("OutputValue").clone();
        context.set_workflow_output(name, value);
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(super) struct WriteLine;

impl Activity for WriteLine {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.WriteLine")
            .describe("Console", "Writes a line of text to the console.")
            .input(InputDescriptor::new("Text", "String").describe("The text."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        context.write_line(&context.text("Text").unwrap_or_default());
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(super) struct FaultActivity;

impl Activity for FaultActivity {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Fault")
            .describe("Primitives", "Faults the workflow.")
            .input(InputDescriptor::new("Code", "String").describe("Classifies the fault for programs."))
            .input(InputDescriptor::new("Category", "String").describe("For example HTTP."))
            .input(
                InputDescriptor::new("FaultType", "String")
                    .display_name("Type")
                    .describe("For example System, Business or Integration."),
            )
            .input(
                InputDescriptor::new("Message", "String")
                    .hint(UiHint::MultiLine)
                    .describe("The message of the fault."),
            )
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let mut fault = Fault::new(
            context
                .text("Message")
                .unwrap_or_else(|| "The workflow faulted on purpose".to_owned()),
        );
        if let Some(code) = context.text("Code") {
            fault = fault.code(code);
        }
        if let Some(category) = context.text("Category") {
            fault = fault.category(category);
        }
        if let Some(fault_type) = context.text("FaultType") {
            fault = fault.fault_type(fault_type);
        }
        Err(fault)
    }
}
