//! `Elsa.FlowNode`: a box around one activity, most often a flowchart inside a flowchart.

use super::{Activity, ActivityContext, Descriptor, Fault, Step};

#[derive(Debug)]
pub(super) struct FlowNode;

impl Activity for FlowNode {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.FlowNode")
            .describe("Flow", "Executes the activity within.")
            .display_name("Container")
            .port("Body")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        match context.port("Body") {
            Some(body) => {
                context.schedule(body);
                Ok(Step::Wait)
            }
            None => Ok(Step::Done),
        }
    }
}
