//! `Elsa.While`: an activity again and again, as long as a condition holds.

use serde_json::Value;

use super::{Activity, ActivityContext, BreakBehavior, Descriptor, EndedChild, Fault, InputDescriptor, Step};

#[derive(Debug)]
pub(super) struct While;

impl Activity for While {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.While")
            .describe("Looping", "Executes an activity while a condition holds.")
            .input(
                InputDescriptor::new("Condition", "Boolean")
                    .default(false)
                    .describe("The condition.")
                    .lazy(),
            )
            .port("Body")
            .on_break(BreakBehavior::Stop)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        iterate(context).await
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        iterate(context).await
    }
}

async fn iterate(context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
    // Without a body there is nothing that could make the condition false.
    let Some(body) = context.port("Body").filter(|_| !context.is_breaking()) else {
        return Ok(Step::Done);
    };
    if context.evaluate("Condition").await? != Value::Bool(true) {
        return Ok(Step::Done);
    }
    context.schedule(body);
    Ok(Step::Wait)
}
