//! `Elsa.Sequence`, `Elsa.If`, `Elsa.While`, `Mainspring.DoWhile`, `Elsa.For`, `Elsa.ForEach`, `Elsa.Break`, `Elsa.Finish` and
//! `Elsa.Complete`: control flow outside flowcharts, and `Elsa.Workflow`, the parent of the root activity.

use serde_json::{Map, Value};

use super::{
    Activity, ActivityContext, BreakBehavior, Descriptor, EndedChild, Fault, InputDescriptor, OutputDescriptor, Step,
    UiHint,
};

pub(crate) const WORKFLOW: &str = "Elsa.Workflow";

/// The property of a sequence and of a loop over items that holds the index of the next child or item.
const NEXT_INDEX: &str = "CurrentIndex";

/// The variables of one round of a loop over items.
pub(super) const CURRENT_INDEX: &str = "CurrentIndex";
pub(super) const CURRENT_VALUE: &str = "CurrentValue";

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

#[derive(Debug)]
pub(super) struct Sequence;

impl Activity for Sequence {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Sequence")
            .describe("Workflows", "Executes activities one after the other.")
            .container()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(next_child(context, 0))
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, child: EndedChild) -> Result<Step, Fault> {
        let ends_here = context.find(child.index).is_some_and(|node| node.is_terminal);
        if ends_here || context.is_breaking() {
            return Ok(Step::Done);
        }
        let position = context.property(NEXT_INDEX).as_u64();
        let position = position
            .and_then(|position| usize::try_from(position).ok())
            .unwrap_or(0);
        // An instance may go on with a version in which the activity that has ended stands at another place.
        let before = position
            .checked_sub(1)
            .and_then(|before| context.activities().get(before));
        if before == Some(&child.index) {
            return Ok(next_child(context, position));
        }
        let place = context.activities().iter().position(|other| *other == child.index);
        Ok(next_child(context, place.map_or(position, |place| place + 1)))
    }
}

fn next_child(context: &mut ActivityContext<'_>, position: usize) -> Step {
    match context.activities().get(position).copied() {
        Some(child) => {
            context.set_property(NEXT_INDEX, position + 1);
            context.schedule(child);
            Step::Wait
        }
        None => Step::Done,
    }
}

#[derive(Debug)]
pub(super) struct If;

impl Activity for If {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.If")
            .describe("Branching", "Evaluates a condition and executes one of two activities.")
            .input(
                InputDescriptor::new("Condition", "Boolean")
                    .default(false)
                    .hint(UiHint::SingleLine)
                    .describe("The condition."),
            )
            .output(OutputDescriptor::new("Result", "Boolean").describe("The value of the condition."))
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

#[derive(Debug)]
pub(super) struct While;

impl Activity for While {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.While")
            .describe("Looping", "Executes an activity while a condition holds.")
            .input(
                InputDescriptor::new("Condition", "Boolean")
                    .default(false)
                    .hint(UiHint::SingleLine)
                    .describe("The condition, evaluated before each round.")
                    .lazy(),
            )
            .port("Body")
            .on_break(BreakBehavior::Stop)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        next_iteration(context).await
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        next_iteration(context).await
    }
}

#[derive(Debug)]
pub(super) struct DoWhile;

impl Activity for DoWhile {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Mainspring.DoWhile")
            .describe(
                "Looping",
                "Executes an activity once, and again while a condition holds.",
            )
            .input(
                InputDescriptor::new("Condition", "Boolean")
                    .default(false)
                    .hint(UiHint::SingleLine)
                    .describe("The condition, evaluated after each round.")
                    .lazy(),
            )
            .port("Body")
            .on_break(BreakBehavior::Stop)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let Some(body) = context.port("Body") else {
            return Ok(Step::Done);
        };
        context.schedule(body);
        Ok(Step::Wait)
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        next_iteration(context).await
    }
}

async fn next_iteration(context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
    // Without a body, nothing could make the condition false.
    let Some(body) = context.port("Body").filter(|_| !context.is_breaking()) else {
        return Ok(Step::Done);
    };
    if context.evaluate("Condition").await? != Value::Bool(true) {
        return Ok(Step::Done);
    }
    context.schedule(body);
    Ok(Step::Wait)
}

/// The property of a loop over numbers that holds the number of this round.
const CURRENT_STEP: &str = "CurrentStep";

#[derive(Debug)]
pub(super) struct For;

impl Activity for For {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.For")
            .describe(
                "Looping",
                "Executes an activity for each number from a start to an end.",
            )
            .input(
                InputDescriptor::new("Start", "Int32")
                    .default(0)
                    .describe("The first number."),
            )
            .input(
                InputDescriptor::new("End", "Int32")
                    .default(0)
                    .describe("The last number."),
            )
            .input(
                InputDescriptor::new("Step", "Int32")
                    .default(1)
                    .describe("What is added after each round; to count down, a negative number."),
            )
            .input(
                InputDescriptor::new("OuterBoundInclusive", "Boolean")
                    .default(true)
                    .describe("Whether the end itself has a round."),
            )
            .output(OutputDescriptor::new("CurrentValue", "Object").describe("The number of this round."))
            .child_variable(CURRENT_VALUE, "Int32")
            .port("Body")
            .on_break(BreakBehavior::Stop)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        next_number(context)
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        next_number(context)
    }
}

fn next_number(context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
    // As in Elsa, the bounds are those of the first round. An empty field of a designer is the default.
    let step = context.input("Step").as_i64().unwrap_or(1);
    if step == 0 {
        return Err(Fault::new(
            "The input Step is 0, so the loop would never end; use a positive or a negative number, or an Elsa.While",
        ));
    }
    let (start, end) = (context.input("Start"), context.input("End").as_i64().unwrap_or(0));
    let current = match context.property(CURRENT_STEP).as_i64() {
        Some(before) => before.saturating_add(step),
        None => start.as_i64().unwrap_or(0),
    };
    let is_inclusive = context.input("OuterBoundInclusive") != &Value::Bool(false);
    let is_inside = if step > 0 { current < end } else { current > end };
    let has_round = is_inside || (is_inclusive && current == end);
    let Some(body) = context.port("Body").filter(|_| has_round && !context.is_breaking()) else {
        return Ok(Step::Done);
    };
    context.set_property(CURRENT_STEP, current);
    context.set_output("CurrentValue", current);
    let variables = Map::from_iter([(CURRENT_VALUE.to_owned(), Value::from(current))]);
    context.schedule_with(body, variables, None);
    Ok(Step::Wait)
}

#[derive(Debug)]
pub(super) struct ForEach;

impl Activity for ForEach {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.ForEach")
            .describe("Looping", "Executes an activity for each item of a list.")
            .input(InputDescriptor::new("Items", "Object[]").describe("The items."))
            .output(OutputDescriptor::new("CurrentValue", "Object").describe("The item of this round."))
            .child_variable(CURRENT_INDEX, "Int32")
            .child_variable(CURRENT_VALUE, "Object")
            .port("Body")
            .on_break(BreakBehavior::Stop)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(next_item(context))
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(next_item(context))
    }
}

fn next_item(context: &mut ActivityContext<'_>) -> Step {
    if context.is_breaking() {
        return Step::Done;
    }
    let position = context.property(NEXT_INDEX).as_u64().unwrap_or(0);
    let items = context.input("Items").as_array();
    let item = items
        .and_then(|items| items.get(usize::try_from(position).ok()?))
        .cloned();
    let (Some(item), Some(body)) = (item, context.port("Body")) else {
        return Step::Done;
    };
    context.set_output("CurrentValue", item.clone());
    context.set_property(NEXT_INDEX, position + 1);
    let variables = Map::from_iter([
        (CURRENT_INDEX.to_owned(), Value::from(position)),
        (CURRENT_VALUE.to_owned(), item),
    ]);
    context.schedule_with(body, variables, None);
    Step::Wait
}

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
                    .hint(UiHint::OutcomePicker)
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
        context.complete_definition(outcomes);
        Ok(Step::Done)
    }
}
