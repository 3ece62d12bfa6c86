//! `Elsa.SetName` and `Elsa.Correlate`: what an instance is called and what it belongs to.

use super::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};

#[derive(Debug)]
pub(super) struct SetName;

impl Activity for SetName {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.SetName")
            .describe("Primitives", "Sets the name of the workflow instance.")
            .display_name("Set Name")
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
