//! `Elsa.Parallel`, `Elsa.Fork` and `Elsa.ParallelForEach`: several children at once.
//!
//! One activity of an instance runs at a time, so the children take turns. Each of them may wait, on any node: how many
//! have not ended is a property of the execution. A child that faults does not end, because it can be retried; so an
//! activity that waits for all of them stays open, as in Elsa. An activity that completes cancels its remaining
//! children.

use serde_json::{Map, Value};

use super::control_flow::{CURRENT_INDEX, CURRENT_VALUE};
use super::enumeration::number_of;
use super::{
    Activity, ActivityContext, BreakBehavior, Choice, Descriptor, EndedChild, Fault, InputDescriptor, NodeIndex, Step,
    UiHint,
};
use crate::definition::InputBinding;

/// The property that holds how many children have not ended.
const REMAINING: &str = "Remaining";

/// The property that holds the number of the next item, if not all begin at once.
const NEXT_ITEM: &str = "NextItem";

/// How many items run at once: each is in the state of its instance, which every burst writes.
const MOST_AT_ONCE: usize = 10_000;

#[derive(Debug)]
pub(super) struct Parallel;

impl Activity for Parallel {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Parallel")
            .describe(
                "Workflows",
                "Executes activities side by side, and waits for all of them.",
            )
            .container()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let children = context.activities().to_vec();
        Ok(begin(context, children))
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(count_down(context))
    }

    async fn child_cancelled(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(count_down(context))
    }
}

#[derive(Debug)]
pub(super) struct Fork;

impl Activity for Fork {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Fork")
            .describe(
                "Control Flow",
                "Executes branches side by side, and waits for all or for the first.",
            )
            .input(
                InputDescriptor::new("JoinMode", "ForkJoinMode")
                    .raw()
                    .default("WaitAll")
                    .hint(UiHint::Dropdown(join_modes()))
                    .describe("For which of the branches it waits."),
            )
            .list("Branches")
            .hidden()
            .on_break(BreakBehavior::Mark)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        // A mode that does not exist faults before a branch begins.
        ForkJoinMode::read(context.node().property("joinMode"))?;
        let branches = context.activities().to_vec();
        Ok(begin(context, branches))
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        match ForkJoinMode::read(context.node().property("joinMode"))? {
            ForkJoinMode::Any => Ok(Step::Done),
            ForkJoinMode::All => Ok(count_down(context)),
        }
    }

    async fn child_cancelled(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(count_down(context))
    }
}

/// The modes of a fork, for the designer.
fn join_modes() -> Vec<Choice> {
    vec![
        Choice::new("WaitAll", "All: wait for every branch"),
        Choice::new("WaitAny", "Any: go on with the first, cancel the others"),
    ]
}

/// For which branches a fork waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForkJoinMode {
    All,
    Any,
}

impl ForkJoinMode {
    /// Elsa writes the mode itself instead of an input with an expression; a literal in an expression is read, too.
    fn read(property: Option<&Value>) -> Result<Self, Fault> {
        let given = InputBinding::parse(property).and_then(|binding| binding.expression);
        let value = given.map(|expression| expression.value).unwrap_or_default();
        match number_of(&["WaitAll", "WaitAny"], &value) {
            Some(0) => Ok(Self::All),
            Some(_) => Ok(Self::Any),
            None if value.is_null() => Ok(Self::All),
            None => Err(Fault::new(format!(
                "The property joinMode is {value}, which is not a mode of a fork; use WaitAll or WaitAny"
            ))),
        }
    }
}

#[derive(Debug)]
pub(super) struct ParallelForEach;

impl Activity for ParallelForEach {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.ParallelForEach")
            .describe("Looping", "Executes an activity for each item of a list, side by side.")
            .input(InputDescriptor::new("Items", "Object[]").describe("The items."))
            .input(
                InputDescriptor::new("MainspringDegreeOfParallelism", "Int32")
                    .display_name("Degree of parallelism")
                    .describe("How many items have a round at once: all of them unless given, and 10,000 at most. Mainspring's own."),
            )
            .child_variable(CURRENT_INDEX, "Int32")
            .child_variable(CURRENT_VALUE, "Object")
            .port("Body")
            .on_break(BreakBehavior::Stop)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let (Some(body), Some(items)) = (context.port("Body"), context.input("Items").as_array()) else {
            return Ok(Step::Done);
        };
        let at_once = match context.input("MainspringDegreeOfParallelism") {
            Value::Null if items.len() > MOST_AT_ONCE => {
                let message = format!(
                    "The input Items has {} items, and at most {MOST_AT_ONCE} have a round at once; give the input \
                     MainspringDegreeOfParallelism a number, or start a workflow for each with BulkDispatchWorkflows",
                    items.len()
                );
                return Err(Fault::new(message).code("too-many-items"));
            }
            Value::Null => items.len(),
            degree => {
                let degree = degree.as_u64().filter(|degree| *degree > 0).ok_or_else(|| {
                    Fault::new(format!(
                        "The input MainspringDegreeOfParallelism is {degree}; use a number from 1 on, or leave it empty for \
                         all items at once"
                    ))
                })?;
                usize::try_from(degree).unwrap_or(usize::MAX).min(MOST_AT_ONCE)
            }
        };
        let begun = at_once.min(items.len());
        for (number, item) in items.iter().enumerate().take(begun) {
            schedule_item(context, body, number, item);
        }
        if begun < items.len() {
            context.set_property(NEXT_ITEM, begun);
        }
        Ok(wait_for(context, items.len()))
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(next_item(context))
    }

    async fn child_cancelled(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(next_item(context))
    }
}

/// Counts an item that has ended, and begins the next one that has not begun.
fn next_item(context: &mut ActivityContext<'_>) -> Step {
    let step = count_down(context);
    let next = context.property(NEXT_ITEM).as_u64();
    if let (Step::Wait, Some(next), Some(body)) = (&step, next, context.port("Body")) {
        let number = usize::try_from(next).unwrap_or(usize::MAX);
        let items = context.input("Items").as_array();
        if let Some(item) = items.and_then(|items| items.get(number)) {
            schedule_item(context, body, number, item);
            context.set_property(NEXT_ITEM, next.saturating_add(1));
        }
    }
    step
}

fn schedule_item(context: &mut ActivityContext<'_>, body: NodeIndex, number: usize, item: &Value) {
    let variables = Map::from_iter([
        (CURRENT_INDEX.to_owned(), Value::from(number)),
        (CURRENT_VALUE.to_owned(), item.clone()),
    ]);
    context.schedule_with(body, variables, None);
}

/// Begins these children; without any, the activity is done.
pub(super) fn begin(context: &mut ActivityContext<'_>, children: Vec<NodeIndex>) -> Step {
    let count = children.len();
    for child in children {
        context.schedule(child);
    }
    wait_for(context, count)
}

fn wait_for(context: &mut ActivityContext<'_>, count: usize) -> Step {
    if count == 0 {
        return Step::Done;
    }
    context.set_property(REMAINING, count);
    Step::Wait
}

/// Counts a child that has ended: with the last one, or by a break, the activity is done.
pub(super) fn count_down(context: &mut ActivityContext<'_>) -> Step {
    let left = context.property(REMAINING).as_u64().unwrap_or(0).saturating_sub(1);
    if left == 0 || context.is_breaking() {
        return Step::Done;
    }
    context.set_property(REMAINING, left);
    Step::Wait
}
