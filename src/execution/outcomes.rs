//! The outcomes of an activity, as its type and its properties give them before it runs.

use serde_json::Value;

use crate::activity::{AddedOutcomes, CASES, Descriptor, InputDescriptor, UiHint, camel_case};
use crate::definition::InputBinding;

/// The outcome of an activity without other outcomes.
const DONE: &str = "Done";

/// The outcome of a switch when no case matches.
const DEFAULT: &str = "Default";

/// Who reads the properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutcomeReader {
    /// This engine, which evaluates an expression when the activity runs.
    Engine,
    /// A designer, which has no value for an expression. It reads the text of a list as JSON, whatever type the
    /// expression has, and takes the default where it is shown none ([`readable_by_designers`]).
    Designer,
}

/// The outcomes of an activity.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Those that are known.
    pub(super) known: Vec<String>,
    /// Whether an expression names others.
    pub(super) has_more: bool,
}

impl Outcomes {
    /// Those of an activity of a type; `property` gives its properties, by their names in camel case.
    pub(super) fn of<'a>(
        descriptor: &Descriptor,
        property: impl Fn(&str) -> Option<&'a Value>,
        reader: OutcomeReader,
    ) -> Self {
        let value = |input: &InputDescriptor| property(&camel_case(&input.name)).filter(|value| !value.is_null());
        let mut outcomes = Self::default();
        let naming = descriptor.inputs.iter().find(|input| names_outcomes(input));
        if let Some(input) = naming {
            outcomes.read_list(input, value(input), reader);
        }
        match naming.map(|input| &input.ui_hint) {
            Some(UiHint::DynamicOutcomes(fixed)) => outcomes.known.extend(fixed.iter().cloned()),
            _ if descriptor.has_cases && descriptor.ports.is_empty() => {
                let cases = property(CASES).and_then(Value::as_array).into_iter().flatten();
                let labels = cases.filter_map(|case| case.get("label")?.as_str());
                outcomes.known.extend(labels.chain([DEFAULT]).map(str::to_owned));
            }
            _ => outcomes.known.extend(descriptor.outcomes.iter().cloned()),
        }
        if outcomes.known.is_empty() && !descriptor.is_terminal {
            outcomes.known.push(DONE.to_owned());
        }
        for input in &descriptor.inputs {
            if let Some(AddedOutcomes::WhereSet(outcome)) = &input.adds_outcomes {
                let is_added = match (value(input).map_or(Some(false), flag), reader) {
                    (Some(is_set), _) => is_set,
                    (None, OutcomeReader::Engine) => true,
                    (None, OutcomeReader::Designer) => false,
                };
                outcomes.known.extend(is_added.then(|| outcome.clone()));
            }
        }
        outcomes
    }

    /// Adds what the list of an input names.
    fn read_list(&mut self, input: &InputDescriptor, value: Option<&Value>, reader: OutcomeReader) {
        let default = || {
            input
                .default
                .as_ref()
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default()
        };
        let named = match (value, reader) {
            (None, _) => names(input, default()),
            (Some(value), OutcomeReader::Engine) => list_of_engine(value).and_then(|items| names(input, items)),
            (Some(value), OutcomeReader::Designer) => {
                let named = list_of_designer(value).and_then(|items| names(input, items));
                named.or_else(|| names(input, default()))
            }
        };
        match named {
            Some(named) => self.known.extend(named),
            None => self.has_more = true,
        }
    }
}

/// Whether designers read outcomes from the value of an input.
pub(super) fn decides_outcomes(input: &InputDescriptor) -> bool {
    names_outcomes(input) || input.adds_outcomes.is_some()
}

/// The value of an input that decides outcomes in a form that designers can read; none where there is no such form.
pub(super) fn readable_by_designers(input: &InputDescriptor, value: &Value) -> Option<Value> {
    if names_outcomes(input) {
        let named = list_of_designer(value).and_then(|items| names(input, items));
        return named.map(|_| value.clone());
    }
    flag(value).map(Value::Bool)
}

/// Whether each item of a list is an outcome.
fn names_outcomes(input: &InputDescriptor) -> bool {
    matches!(input.ui_hint, UiHint::DynamicOutcomes(_)) || input.adds_outcomes == Some(AddedOutcomes::EachNumber)
}

/// The outcomes that the items of a list name; none if one of them names none.
fn names(input: &InputDescriptor, items: Vec<Value>) -> Option<Vec<String>> {
    let is_of_numbers = input.adds_outcomes == Some(AddedOutcomes::EachNumber);
    let name = |item: Value| match item {
        Value::String(text) if is_of_numbers => text.trim().parse::<i32>().ok().map(|number| number.to_string()),
        Value::String(text) => Some(text),
        Value::Number(number) if is_of_numbers => {
            let number = i32::try_from(number.as_i64()?).ok()?;
            Some(number.to_string())
        }
        _ => None,
    };
    items.into_iter().map(name).collect()
}

/// The items of a list that is a literal.
fn list_of_engine(value: &Value) -> Option<Vec<Value>> {
    match literal(value)? {
        Value::String(text) => serde_json::from_str(&text).ok(),
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// The items of a list in the form that designers read, which may be written as JSON text.
fn list_of_designer(value: &Value) -> Option<Vec<Value>> {
    let is_text = |value: Option<&Value>| value.is_none_or(|value| value.is_string() || value.is_null());
    let expression = value.get("expression")?;
    if !is_text(value.get("typeName")) || !is_text(expression.get("type")) {
        return None;
    }
    match expression.get("value")? {
        Value::String(text) => serde_json::from_str(text).ok(),
        Value::Array(items) => Some(items.clone()),
        _ => None,
    }
}

/// Whether a flag is set; none where an expression says it.
fn flag(value: &Value) -> Option<bool> {
    match literal(value)? {
        Value::Null => Some(false),
        Value::Bool(is_set) => Some(is_set),
        Value::String(text) => text.trim().to_ascii_lowercase().parse().ok(),
        _ => None,
    }
}

/// The value of an input that is a literal.
fn literal(value: &Value) -> Option<Value> {
    let expression = InputBinding::parse(Some(value))?.expression?;
    ["Object", "Literal"]
        .contains(&expression.kind.as_str())
        .then_some(expression.value)
}
