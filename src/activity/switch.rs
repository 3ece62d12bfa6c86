//! `Elsa.Switch` and `Elsa.FlowSwitch`: the choice between cases by their conditions.
//!
//! The conditions are evaluated in the order of the cases. If only the first match counts, the evaluation stops there.
//! A case without a condition never matches, as in Elsa.

use serde_json::Value;

use super::enumeration::number_of;
use super::parallel::{begin, count_down};
use super::{
    Activity, ActivityContext, ActivityNode, BreakBehavior, Choice, Descriptor, EndedChild, Fault, InputDescriptor,
    Step, UiHint,
};

#[derive(Debug)]
pub(super) struct Switch;

impl Activity for Switch {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Switch")
            .describe(
                "Branching",
                "Executes the activities of the cases whose condition holds.",
            )
            .cases(UiHint::SwitchEditor)
            .input(mode_input())
            .port("Default")
            .on_break(BreakBehavior::Mark)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let mode = SwitchMode::read(context.input("Mode"))?;
        let count = cases(context.node().property("cases"), context.node())?.len();
        let matching = matching(context, mode, count).await?;
        let children = if matching.is_empty() {
            context.port("Default").into_iter().collect()
        } else {
            let children = matching.iter().filter_map(|number| context.case_activity(*number));
            children.collect()
        };
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
pub(super) struct FlowSwitch;

impl Activity for FlowSwitch {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.FlowSwitch")
            .describe("Branching", "Takes the paths of the cases whose condition holds.")
            .display_name("Switch (flow)")
            .cases(UiHint::FlowSwitchEditor)
            .input(mode_input())
            .outcome(DEFAULT)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let mode = SwitchMode::read(context.input("Mode"))?;
        let cases = cases(context.node().property("cases"), context.node())?;
        let labels = cases.iter().map(|case| case.get("label").and_then(Value::as_str));
        let labels: Vec<&str> = labels.map(Option::unwrap_or_default).collect();
        let matching = matching(context, mode, cases.len()).await?;
        let outcomes: Vec<String> = matching
            .iter()
            .filter_map(|number| labels.get(*number).map(|label| (*label).to_owned()))
            .collect();
        if outcomes.is_empty() {
            return Ok(Step::outcome(DEFAULT));
        }
        Ok(Step::Outcomes(outcomes))
    }
}

/// The outcome without a matching case.
const DEFAULT: &str = "Default";

/// Which of the matching cases count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SwitchMode {
    First,
    Any,
}

impl SwitchMode {
    fn read(value: &Value) -> Result<Self, Fault> {
        match number_of(&["MatchFirst", "MatchAny"], value) {
            Some(0) => Ok(Self::First),
            Some(_) => Ok(Self::Any),
            None if value.is_null() => Ok(Self::First),
            None => Err(Fault::new(format!(
                "The input Mode is {value}, which is not a mode of a switch; use MatchFirst or MatchAny"
            ))),
        }
    }
}

fn mode_input() -> InputDescriptor {
    let choices = vec![
        Choice::new("MatchFirst", "First: only the first case that matches"),
        Choice::new("MatchAny", "Any: every case that matches"),
    ];
    InputDescriptor::new("Mode", "SwitchMode")
        .default("MatchFirst")
        .hint(UiHint::Dropdown(choices))
        .describe("Whether the first matching case counts, or every one.")
}

/// The cases of a definition; none if the property is missing.
fn cases<'a>(property: Option<&'a Value>, node: &ActivityNode) -> Result<&'a [Value], Fault> {
    match property {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(cases)) => Ok(cases),
        Some(_) => Err(Fault::new(format!(
            "The property cases of the activity {} is not a list; give it a list of {{label, condition}}",
            node.title()
        ))),
    }
}

/// The numbers of the cases that match.
async fn matching(context: &mut ActivityContext<'_>, mode: SwitchMode, count: usize) -> Result<Vec<usize>, Fault> {
    let mut found = Vec::new();
    for number in 0..count {
        if context.case_matches(number).await? {
            found.push(number);
            if mode == SwitchMode::First {
                break;
            }
        }
    }
    Ok(found)
}
