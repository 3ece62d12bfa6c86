//! The activities that only make sense in a flowchart: `Elsa.FlowDecision`, `Elsa.FlowFork`, `Elsa.FlowJoin`,
//! `Elsa.FlowNode` (a box around one activity), `Elsa.Start` and `Elsa.End`.

use serde_json::Value;

use crate::activity::enumeration::number_of;
use crate::activity::{Activity, ActivityContext, Choice, Descriptor, Fault, InputDescriptor, Step, UiHint};

pub(super) const JOIN: &str = "Elsa.FlowJoin";

#[derive(Debug)]
pub(in crate::activity) struct FlowDecision;

impl Activity for FlowDecision {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.FlowDecision")
            .describe("Branching", "Evaluates a condition to find the path to take.")
            .display_name("Decision")
            .input(
                InputDescriptor::new("Condition", "Boolean")
                    .default(false)
                    .hint(UiHint::SingleLine)
                    .describe("The condition."),
            )
            .outcome("True")
            .outcome("False")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let is_true = context.input("Condition") == &Value::Bool(true);
        Ok(Step::outcome(if is_true { "True" } else { "False" }))
    }
}

#[derive(Debug)]
pub(in crate::activity) struct FlowFork;

impl Activity for FlowFork {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.FlowFork")
            .describe("Branching", "Takes several paths at once.")
            .display_name("Fork (flow)")
            .input(
                InputDescriptor::new("Branches", "String[]")
                    .hint(UiHint::DynamicOutcomes(Vec::new()))
                    .describe("The paths to take."),
            )
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        match context.input("Branches") {
            Value::Array(branches) => Ok(Step::Outcomes(
                branches
                    .iter()
                    .map(|branch| crate::expression::to_text(branch.clone()))
                    .collect(),
            )),
            _ => Ok(Step::Done),
        }
    }
}

#[derive(Debug)]
pub(in crate::activity) struct FlowJoin;

impl Activity for FlowJoin {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(JOIN)
            .describe("Branching", "Merges several paths into one.")
            .display_name("Join")
            .input(
                InputDescriptor::new("Mode", "FlowJoinMode")
                    .default("WaitAny")
                    .hint(UiHint::Dropdown(join_modes()))
                    .describe("For which of the paths that lead here it waits."),
            )
    }

    /// The flowchart itself decides joins and cancels the running ancestors.
    async fn execute(&self, _context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(in crate::activity) struct FlowNode;

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

#[derive(Debug)]
pub(in crate::activity) struct Start;

impl Activity for Start {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Start")
            .describe("Flow", "Marks the start of a flowchart.")
            .start()
    }

    async fn execute(&self, _context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(in crate::activity) struct End;

impl Activity for End {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.End")
            .describe("Flow", "Marks the end of a flowchart, and ends it.")
            .terminal()
    }

    async fn execute(&self, _context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(Step::Done)
    }
}

/// The modes of a join, for the designer.
fn join_modes() -> Vec<Choice> {
    vec![
        Choice::new("WaitAny", "Any: go on with the first, cancel the others"),
        Choice::new("WaitAllActive", "All active: wait for every path that was taken"),
        Choice::new("WaitAll", "All: go on only if every path was taken"),
    ]
}

/// When an activity with several inbound connections is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinMode {
    /// All inbound connections were passed and followed.
    All,
    /// All inbound connections were passed, and at least one was followed.
    AllActive,
    /// One inbound connection was followed; the other branches are cancelled.
    Any,
}

impl JoinMode {
    pub(super) fn read(value: &Value) -> Result<Self, Fault> {
        match number_of(&["WaitAll", "WaitAllActive", "WaitAny"], value) {
            Some(0) => Ok(Self::All),
            Some(1) => Ok(Self::AllActive),
            Some(_) => Ok(Self::Any),
            None if value.is_null() => Ok(Self::Any),
            None => Err(Fault::new(format!(
                "{value} is not a join mode; use WaitAll, WaitAllActive or WaitAny"
            ))),
        }
    }
}
