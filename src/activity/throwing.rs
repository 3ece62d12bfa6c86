//! `Elsa.Fault`: fails on purpose.

use super::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};

#[derive(Debug)]
pub(super) struct FaultActivity;

impl Activity for FaultActivity {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Fault")
            .describe("Primitives", "Faults the workflow.")
            .input(InputDescriptor::new("Code", "String").describe("Sorts the fault for programs."))
            .input(InputDescriptor::new("Category", "String").describe("For example HTTP."))
            .input(InputDescriptor::new("FaultType", "String").describe("For example System, Business or Integration."))
            .input(InputDescriptor::new("Message", "String").describe("For people."))
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
