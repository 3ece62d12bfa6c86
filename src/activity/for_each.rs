//! `Elsa.ForEach`: an activity once per item of a list.
//!
//! The list is evaluated once, when the loop begins; what the body does to a variable that it came from does not
//! change the number of rounds.

use serde_json::{Map, Value};

use super::{Activity, ActivityContext, BreakBehavior, Descriptor, EndedChild, Fault, InputDescriptor, Step};

const NEXT: &str = "CurrentIndex";

#[derive(Debug)]
pub(super) struct ForEach;

impl Activity for ForEach {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.ForEach")
            .describe("Looping", "Executes an activity for each item of a list.")
            .display_name("For Each")
            .input(InputDescriptor::new("Items", "Object[]").describe("The items."))
            .output("CurrentValue", "Object")
            .port("Body")
            .on_break(BreakBehavior::Stop)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(iterate(context))
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(iterate(context))
    }
}

fn iterate(context: &mut ActivityContext<'_>) -> Step {
    if context.is_breaking() {
        return Step::Done;
    }
    let position = context.property(NEXT).as_u64().unwrap_or(0);
    let items = context.input("Items").as_array();
    let item = items
        .and_then(|items| items.get(usize::try_from(position).ok()?))
        .cloned();
    let (Some(item), Some(body)) = (item, context.port("Body")) else {
        return Step::Done;
    };
    context.set_output("CurrentValue", item.clone());
    context.set_property(NEXT, position + 1);
    let variables = Map::from_iter([
        ("CurrentIndex".to_owned(), Value::from(position)),
        ("CurrentValue".to_owned(), item),
    ]);
    context.schedule_with(body, variables, None);
    Step::Wait
}
