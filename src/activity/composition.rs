//! `Elsa.SetOutput`: assigns an output of the workflow.

use super::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};

#[derive(Debug)]
pub(super) struct SetOutput;

impl Activity for SetOutput {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.SetOutput")
            .describe("Composition", "Assigns a value to an output of the workflow.")
            .display_name("Set Output")
            .input(
                InputDescriptor::new("OutputName", "String")
                    .hint("output-picker")
                    .describe("The output to assign."),
            )
            .input(InputDescriptor::new("OutputValue", "Object").describe("The value to assign."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let name = context.text("OutputName").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Fault::new("No output was chosen: the input OutputName is empty"))?;
        let value = context.input("OutputValue").clone();
        context.set_workflow_output(name, value);
        Ok(Step::Done)
    }
}
