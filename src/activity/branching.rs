//! `Elsa.If`: one of two activities.

use serde_json::Value;

use super::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};

#[derive(Debug)]
pub(super) struct If;

impl Activity for If {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.If")
            .describe("Branching", "Evaluates a condition and executes one of two activities.")
            .input(
                InputDescriptor::new("Condition", "Boolean")
                    .default(false)
                    .describe("The condition."),
            )
            .output("Result", "Boolean")
            .port("Then")
            .port("Else")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let is_true = context.input("Condition") == &Value::Bool(true);
        context.set_output("Result", is_true);
        match context.port(if is_true { "Then" } else { "Else" }) {
            Some(child) => {
                context.schedule(child);
                Ok(Step::Wait)
            }
            None => Ok(Step::Done),
        }
    }
}
