//! The metadata of an activity type, for the designer, for validation, and for the compiler.
//!
//! Each type declares its own, beside its code: designers show what is declared here, and nothing else. `input`, `output`
//! and `ui_hint` are its parts; `children` finds the activities inside an activity.

mod children;
mod input;
mod output;
mod ui_hint;

use std::time::Duration;

use serde_json::{Map, Value};

pub(crate) use children::{
    ACTIVITIES, CASE_ACTIVITY, CASES, ChildProperty, EXPECTED_STATUS_CODES, ItemChildren, STATES, TRANSITIONS,
    case_condition, case_port, item_port, transition_condition,
};
pub(crate) use input::AddedOutcomes;
pub use input::InputDescriptor;
pub use output::OutputDescriptor;
pub use ui_hint::{Choice, UiHint};

/// Elsa's kind of an activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActivityKind {
    /// It acts and completes.
    #[default]
    Action,
    /// It waits for a stimulus, and can start an instance.
    Trigger,
    /// It runs in the background.
    Job,
    /// It may run in the background.
    Task,
}

impl ActivityKind {
    /// Elsa's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Action => "Action",
            Self::Trigger => "Trigger",
            Self::Job => "Job",
            Self::Task => "Task",
        }
    }
}

/// The reaction of an activity to a break from a descendant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakBehavior {
    /// It passes the break on.
    #[default]
    Ignore,
    /// It passes the break on and schedules nothing more: containers.
    Mark,
    /// It is the loop that ends.
    Stop,
}

/// An activity type: its name, and what a designer shows of it.
///
/// A registered type is in the toolbox of Elsa Studio, in its category, with a field for each input:
///
/// ```
/// use mainspring::activity::{Choice, Descriptor, InputDescriptor, OutputDescriptor, UiHint};
///
/// let descriptor = Descriptor::new("Shop.ChargeCard")
///     .describe("Shop/Payment", "Charges a credit card.")
///     .input(InputDescriptor::new("Amount", "Decimal").describe("In the currency of the order.").required())
///     .input(
///         InputDescriptor::new("Currency", "String")
///             .hint(UiHint::Dropdown(vec![Choice::from("EUR"), Choice::new("USD", "US dollar")]))
///             .default("EUR"),
///     )
///     .input(InputDescriptor::new("Memo", "String").hint(UiHint::MultiLine))
///     .output(OutputDescriptor::new("Receipt", "String").describe("The number of the receipt."))
///     .outcome("Charged")
///     .outcome("Declined");
/// assert_eq!(descriptor.display_name, "Charge Card");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Descriptor {
    /// `Elsa.WriteLine`, or `Greet` for one of your own.
    pub type_name: String,
    /// A definition names the version that it was created with and runs with exactly that one: a node where it is not
    /// registered does not claim its work. Keep the old version registered besides the new one as long as a published
    /// definition names it. A definition that names none runs with version 1 or, if that is missing, the newest.
    pub version: i32,
    /// Where the designer's toolbox shows it; `/` separates levels.
    pub category: String,
    /// The name that the designer shows: the last part of the type name in words, unless another is given.
    pub display_name: String,
    /// What it does, in one sentence for the designer.
    pub description: String,
    /// Its kind.
    pub kind: ActivityKind,
    /// Its inputs. If a type of your own has any, publishing rejects properties that are not among them: declare a property
    /// that you read yourself as [raw](InputDescriptor::raw).
    pub inputs: Vec<InputDescriptor>,
    /// Its outputs.
    pub outputs: Vec<OutputDescriptor>,
    /// Properties that hold an activity each, in Pascal case: `Body`, `Then`.
    pub ports: Vec<String>,
    /// Properties that hold a list of activities each, in Pascal case: `Branches`.
    pub lists: Vec<String>,
    /// It has `cases`, each with a label, a condition and perhaps an activity.
    pub(crate) has_cases: bool,
    /// Its lists of items with children of their own.
    pub(crate) item_children: Vec<ItemChildren>,
    /// The outcomes that a flowchart can connect; `Done` if the list is empty.
    pub outcomes: Vec<String>,
    /// It holds a list of `activities`, variables and perhaps connections.
    pub is_container: bool,
    /// A flowchart begins with it.
    pub is_start: bool,
    /// A container ends with it.
    pub is_terminal: bool,
    /// Not offered in the designer's toolbox.
    pub is_hidden: bool,
    /// Variables that it sets for its children, with their types: the script editor offers them.
    pub child_variables: Vec<(String, String)>,
    /// Properties in camel case that a new activity has when the designer makes it.
    pub presets: Map<String, Value>,
    /// Further facts for designers, which nothing here reads.
    pub custom_properties: Map<String, Value>,
    /// Its reaction to a break from a descendant.
    pub on_break: BreakBehavior,
    /// It takes over faults below it: `Mainspring.Try`.
    pub(crate) is_guard: bool,
    /// The categories of its faults ([`Fault::category`](super::Fault::category)) that Mainspring's own types do not have: a
    /// definition can catch them by these names.
    pub fault_categories: Vec<String>,
    /// The timeout of one call, after which it is dropped and its execution faults; `None` means the engine's setting
    /// ([`InterpreterOptions::activity_timeout`](crate::runtime::InterpreterOptions::activity_timeout)).
    pub timeout: Option<Duration>,
}

impl Descriptor {
    /// An activity type of version 1, without inputs and outputs, which completes with `Done`.
    pub fn new(type_name: impl Into<String>) -> Self {
        let type_name = type_name.into();
        let display_name = words(type_name.rsplit('.').next().unwrap_or_default());
        Self {
            type_name,
            version: 1,
            category: "Custom".to_owned(),
            display_name,
            description: String::new(),
            kind: ActivityKind::Action,
            inputs: Vec::new(),
            outputs: Vec::new(),
            ports: Vec::new(),
            lists: Vec::new(),
            has_cases: false,
            item_children: Vec::new(),
            outcomes: Vec::new(),
            is_container: false,
            is_start: false,
            is_terminal: false,
            is_hidden: false,
            child_variables: Vec::new(),
            presets: Map::new(),
            custom_properties: Map::new(),
            on_break: BreakBehavior::Ignore,
            is_guard: false,
            fault_categories: Vec::new(),
            timeout: None,
        }
    }

    /// Sets the timeout of one call, in place of the engine's setting. A definition can set it for a single activity by the
    /// custom property `activityTimeout`. A call past its timeout is dropped where it awaits; one that blocks its thread
    /// continues.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets the version.
    #[must_use]
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    /// Sets category and description.
    #[must_use]
    pub fn describe(mut self, category: impl Into<String>, description: impl Into<String>) -> Self {
        self.category = category.into();
        self.description = description.into();
        self
    }

    /// Sets the name that the designer shows.
    #[must_use]
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = name.into();
        self
    }

    /// Sets the kind.
    #[must_use]
    pub fn kind(mut self, kind: ActivityKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds an input.
    #[must_use]
    pub fn input(mut self, input: InputDescriptor) -> Self {
        self.inputs.push(input);
        self
    }

    /// Adds an output. The value of `Result` is also the value of `getLastResult()` in scripts.
    #[must_use]
    pub fn output(mut self, output: OutputDescriptor) -> Self {
        self.outputs.push(output);
        self
    }

    /// Adds a property that holds an activity. The designer shows a place for it.
    #[must_use]
    pub fn port(mut self, name: impl Into<String>) -> Self {
        self.ports.push(name.into());
        self
    }

    /// Adds a property that holds a list of activities, see
    /// [`ActivityContext::activities`](super::ActivityContext::activities). The designer has no place for them.
    #[must_use]
    pub fn list(mut self, name: impl Into<String>) -> Self {
        self.lists.push(name.into());
        self
    }

    /// Adds the cases of a switch, with the input that a designer edits them by.
    pub(crate) fn cases(mut self, hint: UiHint) -> Self {
        self.has_cases = true;
        self.input(
            InputDescriptor::new("Cases", "Object[]")
                .raw()
                .hint(hint)
                .describe("The cases: a label and a condition each."),
        )
    }

    /// Adds a list of items, each of which holds at most one activity in each of these properties.
    pub(crate) fn item_children(mut self, property: &'static str, of_item: &'static [&'static str]) -> Self {
        self.item_children.push((property, of_item));
        self
    }

    /// Adds an outcome, which the designer shows as a dot to connect. A type with outcomes has `Done` only if it is
    /// added.
    #[must_use]
    pub fn outcome(mut self, name: impl Into<String>) -> Self {
        self.outcomes.push(name.into());
        self
    }

    /// Adds these outcomes.
    #[cfg(feature = "http")]
    pub(crate) fn outcomes<const N: usize>(self, names: [&str; N]) -> Self {
        names.into_iter().fold(self, Self::outcome)
    }

    /// Adds a variable that it sets for its children
    /// ([`ActivityContext::schedule_with`](super::ActivityContext::schedule_with)), for the script editor.
    #[must_use]
    pub fn child_variable(mut self, name: impl Into<String>, type_name: impl Into<String>) -> Self {
        self.child_variables.push((name.into(), type_name.into()));
        self
    }

    /// Adds a property, in camel case, that a new activity has when the designer makes it.
    #[must_use]
    pub fn preset(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.presets.insert(name.into(), value.into());
        self
    }

    /// Adds a fact for designers, which the engine does not read.
    #[must_use]
    pub fn custom_property(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.custom_properties.insert(name.into(), value.into());
        self
    }

    /// Adds a category of its faults. A `Mainspring.Try` may name it in `catchCategories`; an unknown category is
    /// refused at publish.
    #[must_use]
    pub fn fault_category(mut self, name: impl Into<String>) -> Self {
        self.fault_categories.push(name.into());
        self
    }

    /// Ends the container in which it completes: the designer gives it no outcome.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.is_terminal = true;
        self
    }

    /// Begins a flowchart: the designer lets no connection lead to it.
    #[must_use]
    pub fn start(mut self) -> Self {
        self.is_start = true;
        self
    }

    /// Leaves it out of the designer's toolbox. Definitions that have it are shown all the same.
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    pub(crate) fn container(mut self) -> Self {
        self.is_container = true;
        self.is_hidden = true;
        self.on_break(BreakBehavior::Mark)
    }

    pub(crate) fn guard(mut self) -> Self {
        self.is_guard = true;
        self
    }

    pub(crate) fn on_break(mut self, on_break: BreakBehavior) -> Self {
        self.on_break = on_break;
        self
    }
}

/// `TimeSpan` is written `timeSpan` in definitions.
pub(crate) fn camel_case(name: &str) -> String {
    let mut chars = name.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// `TimeSpan` is `Time Span` for readers.
fn words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    let mut before = None;
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        let begins_word = match before {
            None => false,
            Some(before) if c.is_uppercase() => {
                char::is_lowercase(before) || chars.peek().is_some_and(|next| next.is_lowercase())
            }
            Some(_) => false,
        };
        if begins_word {
            words.push(' ');
        }
        words.push(if c == '_' { ' ' } else { c });
        before = Some(c);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_words() {
        for (name, expected) in [
            ("If", "If"),
            ("TimeSpan", "Time Span"),
            ("SendHTTPRequest", "Send HTTP Request"),
            ("ChargeCard2", "Charge Card2"),
            ("charge_card", "charge card"),
            ("", ""),
        ] {
            assert_eq!(words(name), expected);
        }
        assert_eq!(Descriptor::new("Shop.ChargeCard").display_name, "Charge Card");
    }
}
