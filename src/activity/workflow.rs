//! `Elsa.Workflow`: what stands above the root activity and holds the workflow's variables.

use super::{Activity, ActivityContext, Descriptor, EndedChild, Fault, Step};

pub(crate) const WORKFLOW: &str = "Elsa.Workflow";

#[derive(Debug)]
pub(crate) struct Workflow;

impl Activity for Workflow {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(WORKFLOW)
            .describe("Workflows", "A workflow.")
            .port("Root")
            .hidden()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        match context.port("Root") {
            Some(root) => {
                context.schedule(root);
                Ok(Step::Wait)
            }
            None => Ok(Step::Done),
        }
    }

    async fn child_completed(&self, _context: &mut ActivityContext<'_>, child: EndedChild) -> Result<Step, Fault> {
        Ok(Step::Outcomes(child.outcomes))
    }
}
