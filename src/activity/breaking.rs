//! `Elsa.Break`, `Elsa.Complete` and `Elsa.Finish`: leaving a loop, or the workflow.

use serde_json::Value;

use super::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};

#[derive(Debug)]
pub(super) struct Break;

impl Activity for Break {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Break")
            .describe("Looping", "Leaves the innermost loop.")
            .terminal()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        context.break_loop();
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(super) struct Finish;

impl Activity for Finish {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Finish")
            .describe("Primitives", "Finishes the workflow.")
            .terminal()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        context.complete_workflow(Vec::new());
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(super) struct Complete;

impl Activity for Complete {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Complete")
            .describe("Composition", "Completes the workflow, with outcomes.")
            .input(
                InputDescriptor::new("Outcomes", "Object")
                    .hint("outcome-picker")
                    .describe("One outcome, or a list of them."),
            )
            .terminal()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let outcomes = match context.input("Outcomes") {
            Value::Null => vec!["Done".to_owned()],
            Value::Array(items) => items
                .iter()
                .map(|item| crate::expression::to_text(item.clone()))
                .collect(),
            single => vec![crate::expression::to_text(single.clone())],
        };
        context.complete_workflow(outcomes);
        Ok(Step::Done)
    }
}
