//! `Mainspring.Try`: a part that may fault, a part for the faults that are caught, and a part that runs at the end.
//!
//! The parts run one after the other, each of them over as many bursts and nodes as it takes; a property of the
//! execution says which one runs. A fault below it does not reach it as a call of its own: the interpreter asks
//! [`guards`] first, cancels everything below, and resumes the execution with the fault. What the last part holds up (a
//! fault that is not caught, a break, the end of the workflow) goes on when the execution completes.

use serde_json::{Map, Value};

use super::{
    Activity, ActivityContext, ActivityNode, BreakBehavior, Descriptor, EndedChild, Fault, InputDescriptor, NodeIndex,
    OutputDescriptor, Resumption, Step,
};

pub(crate) const TRY: &str = "Mainspring.Try";

/// The property that holds the name of the part that runs.
const PART: &str = "Part";

/// The variable with the fault, for the parts after the first one.
const FAULT: &str = "Fault";

/// The categories of the faults of Mainspring's own types, and of the activities that come with Elsa.
const CATEGORIES: [&str; 4] = ["General", "HTTP", "Script", "Value"];

/// The categories that a definition may catch, besides those that its own activities and the catalogue add.
pub(crate) fn known_categories() -> &'static [&'static str] {
    &CATEGORIES
}

/// A part of a try. Its name is that of its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TryPart {
    Try,
    Catch,
    Finally,
}

impl TryPart {
    fn name(self) -> &'static str {
        match self {
            Self::Try => "Try",
            Self::Catch => "Catch",
            Self::Finally => "Finally",
        }
    }

    /// The part that an execution runs; none before the first one.
    fn running(properties: &Map<String, Value>) -> Option<Self> {
        let name = properties.get(PART)?.as_str()?;
        [Self::Try, Self::Catch, Self::Finally]
            .into_iter()
            .find(|part| part.name() == name)
    }
}

/// How an execution continues when its running part is left early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarding {
    /// It catches the fault and continues as if none had occurred.
    Catches,
    /// It runs its last part, and what left it continues afterwards.
    Holds,
}

/// Whether an execution takes over what leaves its running part: a fault (`{code, category}`), or null for a break or the end
/// of the workflow.
pub(crate) fn guards(
    node: &ActivityNode,
    inputs: &Map<String, Value>,
    properties: &Map<String, Value>,
    fault: &Value,
) -> Option<Guarding> {
    match next_part(node, inputs, properties, fault)? {
        TryPart::Catch => Some(Guarding::Catches),
        TryPart::Try | TryPart::Finally => Some(Guarding::Holds),
    }
}

#[derive(Debug)]
pub(super) struct Try;

impl Activity for Try {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(TRY)
            .describe(
                "Control Flow",
                "Executes an activity, another one for the faults in it, and a last one in any case.",
            )
            .input(
                InputDescriptor::new("CatchCodes", "String[]")
                    .describe("The codes of the faults to catch. Without codes and categories, any fault is caught."),
            )
            .input(
                InputDescriptor::new("CatchCategories", "String[]")
                    .describe("The categories of the faults to catch, for example General, HTTP, Script or Value."),
            )
            .output(OutputDescriptor::new("Fault", "Object").describe("The fault that was caught last."))
            .child_variable(FAULT, "Object")
            .port("Try")
            .port("Catch")
            .port("Finally")
            .on_break(BreakBehavior::Mark)
            .guard()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(begin(context, TryPart::Try, Value::Null))
    }

    /// Called with the fault that has left the running part, or with null for what is no fault.
    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        let fault = resumption.payload.unwrap_or_default();
        let next = next_part(context.node(), context.inputs(), &context.properties, &fault);
        if next == Some(TryPart::Catch) {
            context.set_output("Fault", fault.clone());
        }
        Ok(begin(context, next.unwrap_or(TryPart::Finally), fault))
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(after(context))
    }

    async fn child_cancelled(&self, context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(after(context))
    }
}

/// Begins a part or, if the definition has none, the last one.
fn begin(context: &mut ActivityContext<'_>, part: TryPart, fault: Value) -> Step {
    let (part, child) = match port(context, part) {
        Some(child) => (part, child),
        None => match port(context, TryPart::Finally) {
            Some(last) => (TryPart::Finally, last),
            None => return Step::Done,
        },
    };
    let mut variables = Map::new();
    if part != TryPart::Try {
        variables.insert(FAULT.to_owned(), fault);
    }
    context.set_property(PART, part.name());
    context.schedule_with(child, variables, None);
    Step::Wait
}

/// Goes on after a part that has ended by itself.
fn after(context: &mut ActivityContext<'_>) -> Step {
    match TryPart::running(&context.properties) {
        Some(TryPart::Try | TryPart::Catch) => begin(context, TryPart::Finally, Value::Null),
        Some(TryPart::Finally) | None => Step::Done,
    }
}

fn port(context: &ActivityContext<'_>, part: TryPart) -> Option<NodeIndex> {
    match part {
        TryPart::Try => context.port("Try"),
        TryPart::Catch => context.port("Catch"),
        TryPart::Finally => context.port("Finally"),
    }
}

/// The part after the one that is left early; none if it is the last one, or no other follows.
fn next_part(
    node: &ActivityNode,
    inputs: &Map<String, Value>,
    properties: &Map<String, Value>,
    fault: &Value,
) -> Option<TryPart> {
    let has = |part: TryPart| node.ports.iter().any(|(name, _)| name == part.name());
    let running = TryPart::running(properties)?;
    if running == TryPart::Try && has(TryPart::Catch) && selects(inputs, fault) {
        return Some(TryPart::Catch);
    }
    (running != TryPart::Finally && has(TryPart::Finally)).then_some(TryPart::Finally)
}

/// Whether a fault is one of those to catch: any one if no code and no category is given.
fn selects(inputs: &Map<String, Value>, fault: &Value) -> bool {
    if fault.is_null() {
        return false;
    }
    let codes = words(inputs.get("CatchCodes"));
    let categories = words(inputs.get("CatchCategories"));
    if codes.is_empty() && categories.is_empty() {
        return true;
    }
    let is_one_of = |words: &[&str], what: &str| {
        let given = fault.get(what).and_then(Value::as_str).unwrap_or_default();
        words.iter().any(|word| word.eq_ignore_ascii_case(given.trim()))
    };
    is_one_of(&codes, "code") || is_one_of(&categories, "category")
}

/// The texts in a list that are not blank.
fn words(list: Option<&Value>) -> Vec<&str> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    let texts = items.filter_map(Value::as_str).map(str::trim);
    texts.filter(|text| !text.is_empty()).collect()
}
