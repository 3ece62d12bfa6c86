//! `Elsa.Sequence`: one activity after the other.

use super::{Activity, ActivityContext, Descriptor, EndedChild, Fault, Step};

const NEXT: &str = "CurrentIndex";

#[derive(Debug)]
pub(super) struct Sequence;

impl Activity for Sequence {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Sequence")
            .describe("Workflows", "Executes activities one after the other.")
            .container()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(next(context))
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, child: EndedChild) -> Result<Step, Fault> {
        let ends_here = context.find(child.index).is_some_and(|node| node.is_terminal);
        if ends_here || context.is_breaking() {
            return Ok(Step::Done);
        }
        Ok(next(context))
    }
}

fn next(context: &mut ActivityContext<'_>) -> Step {
    let position = context.property(NEXT).as_u64().unwrap_or(0);
    let child = usize::try_from(position)
        .ok()
        .and_then(|position| context.activities().get(position).copied());
    match child {
        Some(child) => {
            context.set_property(NEXT, position + 1);
            context.schedule(child);
            Step::Wait
        }
        None => Step::Done,
    }
}
